#include "server/rpc/stream_step_reactor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"
#include "server/rpc/answer.h"
#include "server/rpc/field_check.h"
#include "server/rpc/status.h"

namespace steadystate {
namespace {

constexpr absl::string_view kMethod =
    "steadystate.v1.GenerationService/StreamStep";

// Requests of one stream that may be in flight. More wait in HTTP/2's window.
constexpr size_t kMaxPending = 1024;

constexpr size_t kMaxRequestIdBytes = 128;
// What an answer repeats of a request's session where that is no name.
constexpr size_t kMaxEchoBytes = 128;
// Tag and length of a result within its message.
constexpr size_t kResultFramingBytes = 8;

}  // namespace

StreamStepReactor* StreamStepReactor::Start(
    ServiceContext& services, grpc::CallbackServerContext& context) {
  const std::shared_ptr<StreamStepReactor> reactor(
      new StreamStepReactor(services, context));
  reactor->self_ = reactor;
  services.metrics.AddStreams(1);
  services.open_streams.Add(*reactor);
  Actions actions;
  actions.read = true;
  reactor->Act(actions);
  return reactor.get();
}

StreamStepReactor::StreamStepReactor(ServiceContext& services,
                                     grpc::CallbackServerContext& context)
    : services_(services),
      context_(context),
      record_(kMethod, context, services.metrics),
      writer_(services.engine.NewWriter()),
      outbound_(std::min(kCoalescedBytes, services.max_message_bytes)) {}

void StreamStepReactor::OnReadDone(bool ok) {
  {
    const MutexLock lock(mutex_);
    reading_ = ok && !finished_ ? Reading::kHandling : Reading::kIdle;
    reads_ended_ = reads_ended_ || !ok;
    ok = reading_ == Reading::kHandling;
  }
  if (ok) Submit();
  Actions actions;
  {
    const MutexLock lock(mutex_);
    reading_ = Reading::kIdle;
    actions = Decide();
  }
  Act(actions);
}

void StreamStepReactor::OnWriteDone(bool ok) {
  Actions actions;
  {
    const MutexLock lock(mutex_);
    writing_ = false;
    outbound_.WriteDone();
    if (ok) actions = Decide();
  }
  if (ok) {
    Act(actions);
  } else {
    Break();
  }
}

void StreamStepReactor::OnCancel() { Break(); }

void StreamStepReactor::OnDone() {
  services_.open_streams.Remove(*this);
  services_.metrics.AddStreams(-1);
  // The engine may hold nothing of this object: nothing is pending.
  const std::shared_ptr<StreamStepReactor> self = std::move(self_);
}

void StreamStepReactor::Drain() {
  Actions actions;
  {
    const MutexLock lock(mutex_);
    draining_ = true;
    actions = Decide();
  }
  Act(actions);
}

void StreamStepReactor::Break() {
  std::vector<RequestId> ids;
  Actions actions;
  {
    const MutexLock lock(mutex_);
    broken_ = true;
    outbound_.Clear();
    ids = PendingIds();
    actions = Decide();
  }
  for (const RequestId id : ids) services_.engine.Cancel(id);
  Act(actions);
}

std::vector<RequestId> StreamStepReactor::PendingIds() const {
  std::vector<RequestId> ids;
  for (const std::unique_ptr<Pending>& pending : pool_) {
    if (pending->engine_id != 0) ids.push_back(pending->engine_id);
  }
  return ids;
}

absl::StatusOr<StepRequest> StreamStepReactor::ConvertRequest() const {
  if (request_.request_id().size() > kMaxRequestIdBytes) {
    return OutOfBounds("request_id",
                       absl::StrCat(request_.request_id().size(), " bytes"),
                       absl::StrCat("at most ", kMaxRequestIdBytes, " bytes"));
  }
  if (!request_.has_step()) return MissingField("request", "give a step");
  STEADYSTATE_ASSIGN_OR_RETURN(
      StepRequest step, services_.converter.ToStepRequest(request_.step()));
  step.writer = writer_;
  step.deadline = record_.deadline();
  return step;
}

void StreamStepReactor::Submit() {
  absl::StatusOr<StepRequest> step = ConvertRequest();
  size_t cost = 0;
  if (step.ok()) {
    cost = services_.converter.AnswerBytes(step->outputs) +
           step->tokens.size() * sizeof(int32_t) +
           step->embeddings.size() * sizeof(float);
  }
  Pending& pending = AddPending(cost);
  if (!step.ok()) {
    Answer(pending, std::move(step).status());
    return;
  }
  const uint64_t serial = pending.serial;
  const RequestId id = services_.engine.Step(
      *std::move(step), [this, &pending](absl::StatusOr<StepResult> result) {
        Answer(pending, std::move(result));
      });
  bool cancel = false;
  {
    const MutexLock lock(mutex_);
    // It may have been answered already.
    if (pending.serial == serial) {
      pending.engine_id = id;
      cancel = broken_;
    }
  }
  if (cancel) services_.engine.Cancel(id);
}

StreamStepReactor::Pending& StreamStepReactor::AddPending(size_t cost) {
  const MutexLock lock(mutex_);
  if (free_.empty()) {
    pool_.push_back(std::make_unique<Pending>());
    free_.push_back(pool_.back().get());
  }
  Pending& pending = *free_.back();
  free_.pop_back();
  pending.request_id =
      std::string(Excerpt(request_.request_id(), kMaxRequestIdBytes));
  pending.session =
      std::string(Excerpt(request_.step().session(), kMaxEchoBytes));
  pending.cost = cost;
  pending.serial = next_serial_++;
  const auto [last, inserted] = last_.try_emplace(pending.session, &pending);
  pending.first = inserted;
  if (!inserted) {
    last->second->next = &pending;
    last->second = &pending;
  }
  ++pending_count_;
  pending_cost_ += cost;
  return pending;
}

void StreamStepReactor::Answer(Pending& pending,
                               absl::StatusOr<StepResult> result) {
  v1::StreamStepResponse::Result answer;
  answer.set_request_id(std::move(pending.request_id));
  answer.set_session(pending.session);
  if (result.ok()) {
    ToProto(*result, pending.session, *answer.mutable_step());
  } else {
    const PublicError error = ToPublicError(std::move(result).status());
    services_.metrics.ErrorAnswered(Name(error.details.reason));
    *answer.mutable_error() = ToRpcStatus(error);
  }
  Actions actions;
  {
    const MutexLock lock(mutex_);
    pending.answer = std::move(answer);
    if (!pending.first) return;
    Release(&pending);
    actions = Decide();
  }
  Act(actions);
}

void StreamStepReactor::Release(Pending* pending) {
  while (pending != nullptr && pending->answer.has_value()) {
    if (!broken_) {
      const size_t bytes =
          pending->answer->ByteSizeLong() + kResultFramingBytes;
      *outbound_.RoomFor(bytes).add_results() = *std::move(pending->answer);
    }
    --pending_count_;
    pending_cost_ -= pending->cost;
    Pending* const next = pending->next;
    if (next == nullptr) last_.erase(pending->session);
    *pending = Pending();
    free_.push_back(pending);
    pending = next;
    if (pending != nullptr) pending->first = true;
  }
}

bool StreamStepReactor::MayRead() const {
  return reading_ == Reading::kIdle && !reads_ended_ && !broken_ &&
         !draining_ && pending_count_ < kMaxPending &&
         outbound_.bytes() + pending_cost_ < kOutboundBytes;
}

bool StreamStepReactor::MayFinish() const {
  return (reads_ended_ || broken_ || draining_) && !writing_ &&
         outbound_.empty() && pending_count_ == 0 && reads_starting_ == 0 &&
         reading_ != Reading::kHandling;
}

absl::Status StreamStepReactor::EndStatus() const {
  if (broken_ || context_.IsCancelled()) {
    return MakeError(ErrorReason::kCancelled, "the client has gone");
  }
  if (reads_ended_) return absl::OkStatus();
  return DrainingError();
}

StreamStepReactor::Actions StreamStepReactor::Decide() {
  Actions actions;
  if (finished_) return actions;
  if (!writing_ && !outbound_.empty()) {
    writing_ = true;
    actions.write = &outbound_.Next();
  }
  if (MayRead()) {
    reading_ = Reading::kOutstanding;
    ++reads_starting_;
    actions.read = true;
  }
  if (MayFinish()) {
    finished_ = true;
    actions.finish = EndStatus();
  }
  return actions;
}

void StreamStepReactor::Act(const Actions& actions) {
  if (actions.write != nullptr) StartWrite(actions.write);
  if (actions.read) {
    StartRead(&request_);
    Actions more;
    {
      const MutexLock lock(mutex_);
      --reads_starting_;
      more = Decide();
    }
    Act(more);
    return;
  }
  // The last thing that happens: the object may be gone afterwards.
  if (actions.finish.has_value()) Finish(record_.End(*actions.finish));
}

}  // namespace steadystate
