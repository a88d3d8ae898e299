#include "server/engine/backlog.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/base/error.h"

namespace steadystate {
namespace {

// Lanes that are kept for the next session that needs one.
constexpr size_t kMaxClosedLanes = 1024;

// A queue moves within some batches: soon enough to be worth a short wait.
constexpr absl::Duration kQueueRetry = absl::Milliseconds(100);

absl::Status QueueFull(absl::string_view message, uint64_t bound) {
  return MakeError(ErrorReason::kQueueFull, message,
                   {{"bounds", absl::StrCat(bound)}}, kQueueRetry);
}

}  // namespace

absl::Status Backlog::Check(const Session* session, WriterId writer,
                            uint64_t input_bytes) const {
  const Lane* const lane = session == nullptr ? nullptr : FindLane(*session);
  if (lane != nullptr) {
    if (lane->writer != writer) {
      return MakeError(
          ErrorReason::kSessionBusy,
          absl::StrCat("another call is using session '", session->id,
                       "': wait for its answer, or send both on "
                       "one stream"),
          {{"session", session->id}});
    }
    // The first one has its turn and does not wait.
    if (lane->requests.size() > limits_.max_queued_per_session) {
      return QueueFull(absl::StrCat(limits_.max_queued_per_session,
                                    " requests wait on session '", session->id,
                                    "': wait for an answer"),
                       limits_.max_queued_per_session);
    }
  }
  if (waiting() >= limits_.max_queued) {
    return QueueFull(absl::StrCat(limits_.max_queued,
                                  " requests wait on this server: try again"),
                     limits_.max_queued);
  }
  if (input_bytes > limits_.max_input_bytes - input_bytes_) {
    return QueueFull(
        absl::StrCat("the inputs of requests in progress take ", input_bytes_,
                     " of ", limits_.max_input_bytes, " bytes, and this one ",
                     input_bytes, ": try again"),
        limits_.max_input_bytes);
  }
  return absl::OkStatus();
}

Request& Backlog::Add(Session& session, WriterId writer,
                      std::unique_ptr<Request> request) {
  std::unique_ptr<Lane>& lane = lanes_[&session];
  if (lane == nullptr) {
    if (closed_lanes_.empty()) {
      lane = std::make_unique<Lane>();
    } else {
      lane = std::move(closed_lanes_.back());
      closed_lanes_.pop_back();
    }
    lane->session = &session;
    lane->writer = writer;
  }
  Request& added = *request;
  added.lane = lane.get();
  lane->requests.push_back(std::move(request));
  requests_.emplace(added.id, &added);
  if (added.deadline != absl::InfiniteFuture()) {
    deadlines_.emplace(added.deadline, added.id);
  }
  input_bytes_ += added.task->input_bytes();
  return added;
}

Request* Backlog::Find(RequestId id) const {
  const auto found = requests_.find(id);
  return found == requests_.end() ? nullptr : found->second;
}

Lane* Backlog::FindLane(const Session& session) const {
  const auto found = lanes_.find(&session);
  return found == lanes_.end() ? nullptr : found->second.get();
}

void Backlog::MarkBegun(Request& request) {
  request.begun = true;
  ++begun_;
}

std::unique_ptr<Request> Backlog::Remove(Request& request) {
  auto& queue = request.lane->requests;
  const auto place = std::find_if(
      queue.begin(), queue.end(),
      [&request](const auto& queued) { return queued.get() == &request; });
  std::unique_ptr<Request> removed = std::move(*place);
  queue.erase(place);
  requests_.erase(removed->id);
  deadlines_.erase({removed->deadline, removed->id});
  input_bytes_ -= removed->task->input_bytes();
  if (removed->begun) --begun_;
  return removed;
}

std::unique_ptr<Session> Backlog::CloseLane(Lane& lane) {
  std::unique_ptr<Session> owned = std::move(lane.owned);
  const auto place = lanes_.find(lane.session);
  // A session that is stepped token by token opens and closes one each time.
  if (closed_lanes_.size() < kMaxClosedLanes) {
    closed_lanes_.push_back(std::move(place->second));
  }
  lanes_.erase(place);
  return owned;
}

absl::Time Backlog::NextDeadline() const {
  return deadlines_.empty() ? absl::InfiniteFuture()
                            : deadlines_.begin()->first;
}

Request* Backlog::TakeOverdue(absl::Time now) {
  if (NextDeadline() > now) return nullptr;
  Request* const overdue = Find(deadlines_.begin()->second);
  deadlines_.erase(deadlines_.begin());
  return overdue;
}

Request* Backlog::First() const {
  return requests_.empty() ? nullptr : requests_.begin()->second;
}

}  // namespace steadystate
