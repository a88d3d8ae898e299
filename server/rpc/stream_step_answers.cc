// What becomes of a stream's requests: their answers leave in the order of each
// session's requests, refusals included.
#include <algorithm>
#include <utility>

#include "server/base/error.h"
#include "server/rpc/answer.h"
#include "server/rpc/status.h"
#include "server/rpc/stream_step_reactor.h"

namespace steadystate {
namespace {

// Sessions of one stream that are remembered, beside those with requests.
constexpr size_t kMaxLanes = 2048;
// What an answer repeats of a request's session where that is no name.
constexpr size_t kMaxEchoBytes = 128;
// Tag and length of a result within its message.
constexpr size_t kResultFramingBytes = 8;

}  // namespace

StreamStepReactor::Pending& StreamStepReactor::AddPending(
    const std::string& request_id, const std::string& session, size_t cost) {
  if (free_.empty()) {
    pool_.push_back(std::make_unique<Pending>());
    pool_.back()->index = pool_.size() - 1;
    free_.push_back(pool_.back().get());
  }
  Pending& pending = *free_.back();
  free_.pop_back();
  const absl::string_view id = Excerpt(request_id, kMaxRequestIdBytes);
  pending.request_id.assign(id.data(), id.size());
  pending.lane = LaneOf(Excerpt(session, kMaxEchoBytes));
  pending.cost = cost;
  pending.serial = next_serial_++;
  Pending* const last = std::exchange(pending.lane->second, &pending);
  pending.first = last == nullptr;
  if (last != nullptr) last->next = &pending;
  ++pending_count_;
  pending_cost_ += cost;
  return pending;
}

StreamStepReactor::Lanes::pointer StreamStepReactor::LaneOf(
    absl::string_view session) {
  const auto found = lanes_.find(session);
  if (found != lanes_.end()) return &*found;
  if (lanes_.size() >= kMaxLanes) {
    absl::erase_if(lanes_,
                   [](const auto& lane) { return lane.second == nullptr; });
  }
  return &*lanes_.emplace(session, nullptr).first;
}

void StreamStepReactor::Answer(Pending& pending,
                               const absl::StatusOr<StepResult>& result) {
  if (result.ok() && pending.first && !broken_) {
    const size_t bytes = WireBytes(*result) + pending.request_id.size() +
                         2 * pending.lane->first.size();
    Fill(pending, result, *outbound_.RoomFor(bytes).add_results());
    Release(Forget(pending));
    return;
  }
  Fill(pending, result, pending.answer.emplace());
  if (pending.first) Release(&pending);
}

void StreamStepReactor::Fill(const Pending& pending,
                             const absl::StatusOr<StepResult>& result,
                             Result& answer) const {
  if (result.ok()) {
    ToProto(*result, pending.lane->first, *answer.mutable_step());
  } else {
    const PublicError error = ToPublicError(result.status());
    services_.metrics.ErrorAnswered(Name(error.details.reason));
    *answer.mutable_error() = ToRpcStatus(error);
  }
  answer.set_request_id(pending.request_id);
  answer.set_session(pending.lane->first);
}

void StreamStepReactor::Release(Pending* pending) {
  while (pending != nullptr) {
    pending->first = true;
    if (!pending->answer.has_value()) return;
    if (!broken_) {
      const size_t bytes =
          pending->answer->ByteSizeLong() + kResultFramingBytes;
      *outbound_.RoomFor(bytes).add_results() = *std::move(pending->answer);
    }
    pending = Forget(*pending);
  }
}

StreamStepReactor::Pending* StreamStepReactor::Forget(Pending& pending) {
  --pending_count_;
  pending_cost_ -= pending.cost;
  if (pending.next == nullptr) pending.lane->second = nullptr;
  pending.serial = 0;
  pending.engine_id = 0;
  pending.answer.reset();
  free_.push_back(&pending);
  return std::exchange(pending.next, nullptr);
}

}  // namespace steadystate
