#include "server/engine/backlog.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/base/error.h"

namespace steadystate {
namespace {

// Lanes that are kept for the next session that needs one.
constexpr size_t kMaxClosedLanes = 8192;

// A queue moves within some batches: soon enough to be worth a short wait.
constexpr absl::Duration kQueueRetry = absl::Milliseconds(100);

absl::Status QueueFull(absl::string_view message, uint64_t bound) {
  return MakeError(ErrorReason::kQueueFull, message,
                   {{"bounds", absl::StrCat(bound)}}, kQueueRetry);
}

}  // namespace

absl::Status Backlog::Check(const Session* session, WriterId writer,
                            uint64_t input_bytes) const {
  const Lane* const lane = session == nullptr ? nullptr : session->lane;
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
  if (session.lane == nullptr) OpenLane(session, writer);
  Request& added = *request;
  added.lane = session.lane;
  session.lane->requests.push_back(std::move(request));
  requests_.emplace(added.id, &added);
  if (added.deadline != SteadyTime::InfiniteFuture()) {
    deadlines_.emplace(added.deadline, added.id);
  }
  input_bytes_ += added.task->input_bytes();
  return added;
}

Request* Backlog::Find(RequestId id) const {
  const auto found = requests_.find(id);
  return found == requests_.end() ? nullptr : found->second;
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
  if (removed->deadline != SteadyTime::InfiniteFuture()) {
    deadlines_.erase({removed->deadline, removed->id});
  }
  input_bytes_ -= removed->task->input_bytes();
  if (removed->begun) --begun_;
  return removed;
}

// A session that is stepped token by token opens and closes one each time.
void Backlog::OpenLane(Session& session, WriterId writer) {
  if (closed_lanes_.empty()) {
    lanes_.push_back(std::make_unique<Lane>());
    lanes_.back()->index = lanes_.size() - 1;
    closed_lanes_.push_back(lanes_.back().get());
  }
  Lane& lane = *closed_lanes_.back();
  closed_lanes_.pop_back();
  lane.session = &session;
  lane.writer = writer;
  session.lane = &lane;
}

std::unique_ptr<Session> Backlog::CloseLane(Lane& lane) {
  std::unique_ptr<Session> owned = std::move(lane.owned);
  lane.session->lane = nullptr;
  if (closed_lanes_.size() < kMaxClosedLanes) {
    closed_lanes_.push_back(&lane);
    return owned;
  }
  // The last one takes its place.
  const size_t index = lane.index;
  lanes_.back()->index = index;
  std::swap(lanes_[index], lanes_.back());
  lanes_.pop_back();
  return owned;
}

SteadyTime Backlog::NextDeadline() const {
  return deadlines_.empty() ? SteadyTime::InfiniteFuture()
                            : deadlines_.begin()->first;
}

Request* Backlog::TakeOverdue(SteadyTime now) {
  if (NextDeadline() > now) return nullptr;
  Request* const overdue = Find(deadlines_.begin()->second);
  deadlines_.erase(deadlines_.begin());
  return overdue;
}

Request* Backlog::First() const {
  return requests_.empty() ? nullptr : requests_.begin()->second;
}

}  // namespace steadystate
