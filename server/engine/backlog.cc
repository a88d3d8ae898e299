#include "server/engine/backlog.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"
#include "server/engine/request_errors.h"
#include "server/session/session_id.h"

namespace steadystate {
namespace {

// Lanes that are kept for the next session that needs one.
constexpr size_t kMaxClosedLanes = 8192;
// Clients without requests that are kept, beside twice as many as have some.
constexpr size_t kMaxIdleClients = 1024;

// A queue, or whoever uses a session, moves on within some batches: soon enough
// to be worth a short wait.
constexpr absl::Duration kQueueRetry = absl::Milliseconds(100);

absl::Status QueueFull(absl::string_view message, uint64_t bound) {
  return MakeError(ErrorReason::kQueueFull, message,
                   {{"bounds", absl::StrCat(bound)}}, kQueueRetry);
}

// The requests of a lane that do not join: those of its writers.
size_t CountOfWriters(const Lane& lane) {
  return static_cast<size_t>(std::count_if(
      lane.requests.begin(), lane.requests.end(),
      [](const auto& request) { return !request->task->base().joins; }));
}

void NoteWriter(Lane& lane, WriterId writer) {
  if (lane.writer == 0) lane.writer = writer;
  if (lane.writer != writer) lane.repeater = writer;
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
                            WriterId writer, uint64_t input_bytes,
                            bool behind_others) {
  const Lane* const lane = session == nullptr ? nullptr : session->lane;
  if (lane != nullptr) {
    if (lane->writer != 0 && lane->writer != writer &&
        lane->repeater != writer && !behind_others) {
      return MakeError(
          ErrorReason::kSessionBusy,
          absl::StrCat("another call is using session '", session->id,
                       "': wait for its answer, or send both on "
                       "one stream"),
          {{"session", session->id}}, kQueueRetry);
    }
    // The first one has its turn and does not wait. All those of a stream that
    // broke may be there when they are repeated.
    const size_t most =
        limits_.max_queued_per_session * (behind_others ? 2 : 1);
    if (lane->requests.size() > most &&
        (behind_others || CountOfWriters(*lane) > most)) {
      return QueueFull(
          absl::StrCat(lane->requests.size() - 1, " requests wait on ",
                       Called(session->id), ": wait for an answer"),
          limits_.max_queued_per_session);
    }
  }
  const Client& counted = ClientOf(client);
  STEADYSTATE_RETURN_IF_ERROR(CheckWaiting(counted));
  return CheckInput(counted, input_bytes);
}

bool Backlog::MayRepeat(const Session& session, const RequestBase& request) {
  if (session.lane == nullptr || session.lane->writer == request.writer ||
      !request.keyed()) {
    return false;
  }
  if (session.recorded.MayHave(RecordedKeys::KeyOf(
          request.request_id, *request.expected_position))) {
    return true;
  }
  const auto& queued = session.lane->requests;
  return std::any_of(queued.begin(), queued.end(), [&](const auto& other) {
    const RequestBase& base = other->task->base();
    return base.request_id == request.request_id &&
           base.expected_position == request.expected_position;
  });
}

absl::Status Backlog::CheckRepeat(const Session& session, const Task& task) {
  const RequestBase& request = task.base();
  if (session.lane == nullptr || session.lane->writer == request.writer ||
      !request.keyed()) {
    return absl::OkStatus();
  }
  for (const auto& other : session.lane->requests) {
    const RequestBase& base = other->task->base();
    if (base.request_id == request.request_id &&
        base.expected_position == request.expected_position &&
        other->task->digest() != task.digest()) {
      return RequestIdReused(request.request_id, *request.expected_position);
    }
  }
  return absl::OkStatus();
}

absl::Status Backlog::CheckWaiting(const Client& client) const {
  const size_t free =
      limits_.max_queued - std::min(waiting(), limits_.max_queued);
  if (free == 0) {
    return QueueFull(absl::StrCat(limits_.max_queued,
                                  " requests wait on this server: try again"),
                     limits_.max_queued);
  }
  if (client.waiting > 0 && client.waiting >= free) {
    return QueueFull(
        absl::StrCat(client.waiting, " requests of this connection wait, and ",
                     free, " more of all may: wait for an answer"),
        limits_.max_queued);
  }
  return absl::OkStatus();
}

absl::Status Backlog::CheckInput(const Client& client,
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
  if (client.input_bytes > 0 && client.input_bytes + input_bytes > left) {
    return QueueFull(
        absl::StrCat("the inputs of this connection's requests in progress "
                     "take ",
                     client.input_bytes, " bytes, and would leave ", left,
                     " of ", all, " to all: wait for an answer"),
        all);
  }
  return absl::OkStatus();
}

Client& Backlog::ClientOf(ClientId id) {
  if (id == recent_->id) return *recent_;
  if (id == 0) return process_;
  std::unique_ptr<Client>& client = clients_[id];
  if (client == nullptr) {
    client = std::make_unique<Client>();
    client->id = id;
  }
  recent_ = client.get();
  return *recent_;
}

// Seldom: each time there are as many new ones as were kept.
void Backlog::ForgetIdleClients() {
  if (clients_.size() < kMaxIdleClients + 2 * active_clients_) return;
  recent_ = &process_;
  absl::erase_if(clients_,
                 [](const auto& entry) { return entry.second->requests == 0; });
}

Request& Backlog::Add(Session& session, ClientId client, WriterId writer,
                      std::unique_ptr<Request> request) {
  Request& added = *request;
  if (session.lane == nullptr) OpenLane(session);
  if (!added.task->base().joins) NoteWriter(*session.lane, writer);
  added.id = Name(added);
  added.lane = session.lane;
  session.lane->requests.push_back(std::move(request));
  if (added.deadline != SteadyTime::InfiniteFuture()) {
    deadlines_.emplace(added.deadline, added.id);
  }
  CountIn(added, client);
  return added;
}

RequestId Backlog::Name(Request& request) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const uint32_t index = free_slots_.back();
  free_slots_.pop_back();
  Slot& slot = slots_[index];
  slot.request = &request;
  // No id is 0.
  return (RequestId{slot.uses} << 32) + index + 1;
}

Request* Backlog::Find(RequestId id) const {
  const uint64_t index = (id & UINT32_MAX) - 1;
  if (id == 0 || index >= slots_.size()) return nullptr;
  const Slot& slot = slots_[index];
  return slot.uses == id >> 32 ? slot.request : nullptr;
}

void Backlog::CountIn(Request& request, ClientId id) {
  Client& client = ClientOf(id);
  request.client = &client;
  const uint64_t input_bytes = request.task->input_bytes();
  ++size_;
  input_bytes_ += input_bytes;
  if (id == 0) return;
  if (client.requests == 0) ++active_clients_;
  ++client.requests;
  ++client.waiting;
  client.input_bytes += input_bytes;
}

void Backlog::CountOut(const Request& removed) {
  const uint64_t input_bytes = removed.task->input_bytes();
  --size_;
  input_bytes_ -= input_bytes;
  if (removed.begun) --begun_;
  Client& client = *removed.client;
  if (client.id == 0) return;
  client.input_bytes -= input_bytes;
  if (!removed.begun) --client.waiting;
  if (--client.requests > 0) return;
  --active_clients_;
  ForgetIdleClients();
}

void Backlog::MarkBegun(Request& request) {
  request.begun = true;
  ++begun_;
  if (request.client->id != 0) --request.client->waiting;
}

std::unique_ptr<Request> Backlog::Remove(Request& request) {
  auto& queue = request.lane->requests;
  const auto place = std::find_if(
      queue.begin(), queue.end(),
      [&request](const auto& queued) { return queued.get() == &request; });
  std::unique_ptr<Request> removed = std::move(*place);
  queue.erase(place);
  if (std::all_of(queue.begin(), queue.end(), [](const auto& queued) {
        return queued->task->base().joins;
      })) {
    request.lane->writer = request.lane->repeater = 0;
  }
  const auto index = static_cast<uint32_t>((removed->id & UINT32_MAX) - 1);
  slots_[index].request = nullptr;
  ++slots_[index].uses;
  free_slots_.push_back(index);
  if (removed->deadline != SteadyTime::InfiniteFuture()) {
    deadlines_.erase({removed->deadline, removed->id});
  }
  CountOut(*removed);
  removed->client = nullptr;
  return removed;
}

// A session that is stepped token by token opens and closes one each time.
void Backlog::OpenLane(Session& session) {
  if (closed_lanes_.empty()) {
    lanes_.push_back(std::make_unique<Lane>());
    lanes_.back()->index = lanes_.size() - 1;
    closed_lanes_.push_back(lanes_.back().get());
  }
  Lane& lane = *closed_lanes_.back();
  closed_lanes_.pop_back();
  lane.session = &session;
  lane.writer = lane.repeater = 0;
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
  all.reserve(size_);
  for (const Slot& slot : slots_) {
    if (slot.request != nullptr) all.push_back(slot.request);
  }
  return all;
}

}  // namespace steadystate
