#include "server/engine/backlog.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"

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

// Trying again would not help.
absl::Status InputTooLarge(uint64_t bytes, uint64_t bound) {
  return MakeError(
      ErrorReason::kInvalidArgument,
      absl::StrCat("the request's inputs take ", bytes, " bytes; at most ",
                   bound, " have room here: send them in several requests"),
      {{"value", absl::StrCat(bytes)}, {"bounds", absl::StrCat(bound)}});
}

}  // namespace

absl::Status Backlog::Check(const Session* session, ClientId client,
                            WriterId writer, uint64_t input_bytes) const {
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
  const Share share = ShareOf(client);
  STEADYSTATE_RETURN_IF_ERROR(CheckWaiting(share));
  return CheckInput(share, input_bytes);
}

absl::Status Backlog::CheckWaiting(const Share& share) const {
  const size_t free =
      limits_.max_queued - std::min(waiting(), limits_.max_queued);
  if (free == 0) {
    return QueueFull(absl::StrCat(limits_.max_queued,
                                  " requests wait on this server: try again"),
                     limits_.max_queued);
  }
  if (share.waiting > 0 && share.waiting >= free) {
    return QueueFull(
        absl::StrCat(share.waiting, " requests of this connection wait, and ",
                     free, " more of all may: wait for an answer"),
        limits_.max_queued);
  }
  return absl::OkStatus();
}

absl::Status Backlog::CheckInput(const Share& share,
                                 uint64_t input_bytes) const {
  const uint64_t all = limits_.max_input_bytes;
  const bool small = input_bytes <= kSmallInputBytes;
  const uint64_t bound = small ? all : LargestInput(all);
  if (input_bytes > bound) return InputTooLarge(input_bytes, bound);
  if (input_bytes > bound - std::min(input_bytes_, bound)) {
    return QueueFull(
        absl::StrCat("the inputs of requests in progress take ", input_bytes_,
                     " of ", bound, " bytes, and this one ", input_bytes,
                     ": try again"),
        bound);
  }
  const uint64_t left = all - input_bytes_ - input_bytes;
  if (share.input_bytes > 0 && share.input_bytes + input_bytes > left) {
    return QueueFull(
        absl::StrCat("the inputs of this connection's requests in progress "
                     "take ",
                     share.input_bytes, " bytes, and would leave ", left,
                     " of ", all, " to all: wait for an answer"),
        all);
  }
  return absl::OkStatus();
}

Backlog::Share Backlog::ShareOf(ClientId client) const {
  const auto found = clients_.find(client);
  return found == clients_.end() ? Share() : found->second;
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
  const uint64_t input_bytes = added.task->input_bytes();
  input_bytes_ += input_bytes;
  if (added.client != 0) {
    Share& share = clients_[added.client];
    ++share.requests;
    ++share.waiting;
    share.input_bytes += input_bytes;
  }
  return added;
}

Request* Backlog::Find(RequestId id) const {
  const auto found = requests_.find(id);
  return found == requests_.end() ? nullptr : found->second;
}

void Backlog::MarkBegun(Request& request) {
  request.begun = true;
  ++begun_;
  if (request.client != 0) --clients_.find(request.client)->second.waiting;
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
  if (removed->client != 0) LessenShare(*removed);
  return removed;
}

void Backlog::LessenShare(const Request& removed) {
  const auto found = clients_.find(removed.client);
  Share& share = found->second;
  share.input_bytes -= removed.task->input_bytes();
  if (!removed.begun) --share.waiting;
  if (--share.requests == 0) clients_.erase(found);
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

void Backlog::CloseLane(Lane& lane) {
  lane.session->lane = nullptr;
  if (closed_lanes_.size() < kMaxClosedLanes) {
    closed_lanes_.push_back(&lane);
    return;
  }
  // The last one takes its place.
  const size_t index = lane.index;
  lanes_.back()->index = index;
  std::swap(lanes_[index], lanes_.back());
  lanes_.pop_back();
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

std::vector<Request*> Backlog::All() const {
  std::vector<Request*> all;
  all.reserve(requests_.size());
  for (const auto& [id, request] : requests_) all.push_back(request);
  return all;
}

}  // namespace steadystate
