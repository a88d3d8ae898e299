#include "server/rpc/stream_step_reactor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/parking.h"
#include "server/base/status_macros.h"
#include "server/rpc/answer.h"
#include "server/rpc/connection.h"
#include "server/rpc/field_check.h"
#include "server/rpc/piece_memory.h"
#include "server/rpc/run_soon.h"
#include "server/rpc/status.h"

namespace steadystate {
namespace {

constexpr absl::string_view kMethod =
    "steadystate.v1.GenerationService/StreamStep";

// Requests of one stream that may be in flight. More wait in HTTP/2's window.
constexpr size_t kMaxPending = 1024;
// Steps of one message for which memory is kept until the next one.
constexpr size_t kKeptSteps = 256;
// The cost of what is taken up under one lock, at most, but for the last step:
// for more there may be no room yet.
constexpr size_t kCostAtOnce = size_t{24} << 10;
// So long before a request is answered, it is fetched.
constexpr size_t kAnswersAhead = 4;

}  // namespace

StreamStepReactor* StreamStepReactor::Start(
    ServiceContext& services, grpc::CallbackServerContext& context) {
  const std::shared_ptr<StreamStepReactor> reactor(
      new StreamStepReactor(services, context));
  reactor->self_ = reactor;
  services.metrics.AddStreams(1);
  services.open_streams.Add(*reactor);
  reactor->Proceed();
  return reactor.get();
}

StreamStepReactor::StreamStepReactor(ServiceContext& services,
                                     grpc::CallbackServerContext& context)
    : services_(services),
      context_(context),
      record_(kMethod, context, services),
      writer_(services.engine.NewWriter()),
      client_(ConnectionOf(context)),
      message_(services.max_steps_per_message, services.max_message_bytes),
      outbound_(std::min(kCoalescedBytes, services.max_message_bytes)),
      outbound_room_(services.outbound, client_) {}

void StreamStepReactor::OnReadDone(bool ok) {
  {
    const MutexLock lock(mutex_);
    reading_ = ok && !finished_ ? Reading::kHandling : Reading::kIdle;
    reads_ended_ = reads_ended_ || !ok;
    ok = reading_ == Reading::kHandling;
  }
  if (ok) {
    const absl::Status taken = TakeMessage();
    if (!taken.ok()) Refuse(taken);
    Submit();
  }
  Proceed();
}

absl::Status StreamStepReactor::TakeMessage() {
  services_.taken.Add(client_, received_.Length());
  STEADYSTATE_RETURN_IF_ERROR(message_.Take(received_));
  if (message_.bytes() <= InboundBudget::kSmallBytes) return absl::OkStatus();
  return ChargeMessage();
}

absl::Status StreamStepReactor::ChargeMessage() {
  if (charged_ > 0) return absl::OkStatus();
  STEADYSTATE_RETURN_IF_ERROR(services_.inbound.Add(client_, message_.bytes()));
  charged_ = message_.bytes();
  return absl::OkStatus();
}

void StreamStepReactor::Refuse(const absl::Status& status) {
  DropMessage();
  const MutexLock lock(mutex_);
  refusal_ = status;
}

void StreamStepReactor::DropMessage() {
  message_.Clear();
  const size_t charged = std::exchange(charged_, 0);
  if (charged == 0) return;
  services_.inbound.Remove(client_, charged);
}

void StreamStepReactor::OnWriteDone(bool ok) {
  Actions actions;
  OutboundBudget::Woken woken;
  bool submit = false;
  {
    const MutexLock lock(mutex_);
    writing_ = false;
    outbound_.WriteDone();
    // With nothing in flight, what the call has of its own may do.
    if (pending_count_ == 0 && outbound_.empty()) {
      woken = outbound_room_.Release();
    }
    submit = ok && reading_ == Reading::kStalled && HasRoom();
    if (submit) reading_ = Reading::kHandling;
    if (ok) actions = Decide();
  }
  Tell(woken);
  if (!ok) {
    Break();
    return;
  }
  Act(std::move(actions));
  if (!submit) return;
  Submit();
  Proceed();
}

void StreamStepReactor::OnCancel() { Break(); }

void StreamStepReactor::OnDone() {
  DropMessage();
  services_.open_streams.Remove(*this);
  services_.metrics.AddStreams(-1);
  // The engine has nothing of this object any more, unless it is about to
  // return from OnRoundEnd, which has a reference of its own.
  const std::shared_ptr<StreamStepReactor> self = std::move(self_);
}

void StreamStepReactor::Drain() {
  Actions actions;
  {
    const MutexLock lock(mutex_);
    draining_ = true;
    actions = Decide();
  }
  Act(std::move(actions));
}

void StreamStepReactor::Break() {
  std::vector<RequestId> ids;
  OutboundBudget::Woken woken;
  Actions actions;
  {
    const MutexLock lock(mutex_);
    broken_ = true;
    outbound_.Clear();
    woken = outbound_room_.Release();
    ids = PendingIds();
    actions = Decide();
  }
  for (const RequestId id : ids) services_.engine.Cancel(id);
  Tell(woken);
  Act(std::move(actions));
}

std::vector<RequestId> StreamStepReactor::PendingIds() const {
  std::vector<RequestId> ids;
  for (const std::unique_ptr<Pending>& pending : pool_) {
    if (pending->engine_id != 0) ids.push_back(pending->engine_id);
  }
  return ids;
}

void StreamStepReactor::Submit() {
  do {
    TakeSteps();
    services_.engine.Steps(std::span(submissions_).first(serials_.size()));
    NoteSubmitted();
  } while (!GiveBack());
}

void StreamStepReactor::TakeSteps() {
  bool room = true;
  while (room && !message_.done()) {
    const absl::Status read = message_.Read();
    if (!read.ok()) {
      Refuse(read);
      return;
    }
    ConvertSteps();
    room = TakeUp();
  }
}

void StreamStepReactor::ConvertSteps() {
  size_t cost = 0;
  for (size_t i = 0; i < message_.size() && cost < kCostAtOnce; ++i) {
    cost += ConvertStep(message_[i], message_.refusal(i));
  }
}

size_t StreamStepReactor::ConvertStep(const StepMessage::Request& from,
                                      const absl::Status& refusal) {
  const size_t place = serials_.size() + converted_;
  if (place == submissions_.size()) submissions_.emplace_back();
  StepRequest& request = submissions_[place].request;
  Arrival arrival = {
      .request_id = &from.request_id(),
      .session = &from.step().session(),
      .refusal =
          refusal.ok()
              ? Convert(from.request_id(),
                        from.has_step() ? &from.step() : nullptr, request)
              : refusal};
  if (arrival.refusal.ok()) {
    arrival.cost = AnswerMemory(request.outputs, services_.engine) +
                   request.tokens.size() * sizeof(int32_t) +
                   request.embeddings.size() * sizeof(float);
    ++converted_;
  } else {
    // Its memory would go to the next step, which may be small, and with that
    // to the engine, which knows nothing of it.
    request = {};
  }
  arrivals_.push_back(std::move(arrival));
  return arrivals_.back().cost;
}

bool StreamStepReactor::TakeUp() {
  converted_ = 0;
  const MutexLock lock(mutex_);
  bool room = ReserveForArrivals();
  for (size_t i = 0; room && i < arrivals_.size(); ++i) {
    Arrival& arrival = arrivals_[i];
    Pending& pending =
        AddPending(*arrival.request_id, *arrival.session, arrival.cost);
    if (arrival.refusal.ok()) {
      StepSubmission& submission = submissions_[serials_.size()];
      submission.sink = this;
      submission.tag = pending.index;
      serials_.push_back(pending.serial);
    } else {
      Answer(pending, std::move(arrival.refusal));
    }
    message_.Consume();
    room = !broken_ && HasRoom();
  }
  arrivals_.clear();
  return room;
}

bool StreamStepReactor::GiveBack() {
  if (!message_.done()) {
    // It is about to wait, however small it is.
    const absl::Status charged = ChargeMessage();
    if (!charged.ok()) Refuse(charged);
  }
  const bool done = message_.done();
  if (done) DropMessage();
  const MutexLock lock(mutex_);
  // Room that came too early for OnWriteDone to see that it was wanted.
  if (!done && !broken_ && HasRoom()) return false;
  // Meanwhile it takes no more than its bytes.
  if (!done) message_.Unread();
  reading_ = done ? Reading::kIdle : Reading::kStalled;
  return true;
}

absl::Status StreamStepReactor::Convert(const std::string& request_id,
                                        const v1::StepRequest* step,
                                        StepRequest& to) const {
  if (request_id.size() > kMaxRequestIdBytes) {
    return OutOfBounds("request_id", absl::StrCat(request_id.size(), " bytes"),
                       absl::StrCat("at most ", kMaxRequestIdBytes, " bytes"));
  }
  if (step == nullptr) return MissingField("request", "give a step");
  STEADYSTATE_RETURN_IF_ERROR(services_.converter.ToStepRequest(*step, to));
  to.writer = writer_;
  to.client = client_;
  to.deadline = record_.deadline();
  return absl::OkStatus();
}

void StreamStepReactor::NoteSubmitted() {
  std::vector<RequestId> cancelled;
  {
    const MutexLock lock(mutex_);
    for (size_t i = 0; i < serials_.size(); ++i) {
      Pending& pending = *pool_[submissions_[i].tag];
      // It may have been answered already.
      if (pending.serial != serials_[i]) continue;
      if (!submissions_[i].refusal.ok()) {
        Answer(pending, submissions_[i].refusal);
        submissions_[i].request = {};
        continue;
      }
      pending.engine_id = submissions_[i].id;
      if (broken_) cancelled.push_back(pending.engine_id);
    }
  }
  serials_.clear();
  if (submissions_.size() > kKeptSteps) {
    submissions_.resize(kKeptSteps);
    submissions_.shrink_to_fit();
  }
  for (const RequestId id : cancelled) services_.engine.Cancel(id);
}

void StreamStepReactor::OnSteps(std::span<const StepAnswer> answers) {
  const MutexLock lock(mutex_);
  round_open_ = true;
  for (size_t i = 0; i < answers.size(); ++i) {
    // Where there are thousands of sessions they come from memory.
    if (i + kAnswersAhead < answers.size()) {
      __builtin_prefetch(pool_[answers[i + kAnswersAhead].tag].get());
    }
    Answer(*pool_[answers[i].tag], *answers[i].result);
  }
}

void StreamStepReactor::OnRoundEnd() {
  // The open round has kept the object until here, but nothing does once the
  // lock is released.
  const std::shared_ptr<StreamStepReactor> self = shared_from_this();
  Actions actions;
  {
    const MutexLock lock(mutex_);
    round_open_ = false;
    actions = Decide();
  }
  Act(std::move(actions));
}

void StreamStepReactor::OnRoom() {
  Actions actions;
  {
    const MutexLock lock(mutex_);
    room_awaited_ = false;
    actions = Decide();
  }
  Act(std::move(actions));
}

bool StreamStepReactor::HasRoom() const {
  return pending_count_ < kMaxPending &&
         outbound_.memory() + pending_cost_ < kOutboundBytes &&
         !outbound_room_.awaited();
}

bool StreamStepReactor::ReserveForArrivals() {
  size_t cost = pending_cost_;
  for (const Arrival& arrival : arrivals_) cost += arrival.cost;
  return !broken_ &&
         outbound_room_.Reserve(outbound_.memory(), cost, shared_from_this());
}

// The thread may be the engine's.
void StreamStepReactor::OnOutboundRoom() {
  {
    const MutexLock lock(mutex_);
    outbound_room_.Came();
    if (reading_ != Reading::kStalled || broken_ || !HasRoom()) return;
    reading_ = Reading::kHandling;
  }
  RunSoon([self = shared_from_this()] {
    self->Submit();
    self->Proceed();
  });
}

bool StreamStepReactor::MayRead() const {
  return reading_ == Reading::kIdle && !reads_ended_ && !broken_ &&
         !draining_ && refusal_.ok() && HasRoom();
}

bool StreamStepReactor::HasInboundRoom() {
  if (room_awaited_) return false;
  if (services_.inbound.HasRoomForAll()) return true;
  room_awaited_ = !services_.inbound.MayRead(client_, weak_from_this());
  return !room_awaited_;
}

bool StreamStepReactor::MayFinish() const {
  return (reads_ended_ || broken_ || draining_ || !refusal_.ok()) &&
         !writing_ && outbound_.empty() && pending_count_ == 0 &&
         !round_open_ && reads_starting_ == 0 &&
         reading_ != Reading::kHandling && reading_ != Reading::kStalled;
}

absl::Status StreamStepReactor::EndStatus() const {
  if (broken_ || context_.IsCancelled()) {
    return MakeError(ErrorReason::kCancelled, "the client has gone");
  }
  if (!refusal_.ok()) return refusal_;
  if (reads_ended_) return absl::OkStatus();
  return DrainingError();
}

StreamStepReactor::Actions StreamStepReactor::Decide() {
  Actions actions;
  if (finished_) return actions;
  actions.woken = outbound_room_.Count(outbound_.memory(), pending_count_ > 0);
  if (broken_ && reading_ == Reading::kStalled) reading_ = Reading::kIdle;
  if (!writing_ && !outbound_.empty()) {
    writing_ = true;
    actions.write = &outbound_.Next();
  }
  if (MayRead() && HasInboundRoom()) {
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

void StreamStepReactor::Act(Actions actions) {
  while (true) {
    MayPark("StreamStepReactor::Act");
    Tell(actions.woken);
    // writing_ keeps the call from being finished until this has been written.
    if (actions.write != nullptr) {
      StartWrite(actions.write);
      MayPark("StreamStepReactor::Act, write started");
    }
    if (!actions.read) break;
    StartRead(&received_);
    MayPark("StreamStepReactor::Act, read started");
    // In one go with what is to be done next: nobody else may decide, in
    // between, that the call is at its end.
    const MutexLock lock(mutex_);
    --reads_starting_;
    actions = Decide();
  }
  // The last thing that happens: the object may be gone afterwards.
  if (actions.finish.has_value()) {
    Finish(record_.End(*actions.finish));
    MayPark("StreamStepReactor::Act, finished");
  }
}

void StreamStepReactor::Proceed() {
  Actions actions;
  {
    const MutexLock lock(mutex_);
    actions = Decide();
  }
  Act(std::move(actions));
}

}  // namespace steadystate
