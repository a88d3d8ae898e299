#include "server/rpc/stream_step_reactor.h"

#include <utility>

#include "server/base/error.h"
#include "server/base/parking.h"
#include "server/rpc/answer.h"
#include "server/rpc/connection.h"
#include "server/rpc/turn_threads.h"

namespace steadystate {
namespace {

// Requests of one stream that may be in flight. More wait in HTTP/2's window.
constexpr size_t kMaxPending = 1024;
// So long before a request is answered, it is fetched.
constexpr size_t kAnswersAhead = 4;

}  // namespace

StreamStepReactor* StreamStepReactor::Start(
    const StepProtocol& protocol, ServiceContext& services,
    grpc::CallbackServerContext& context) {
  const std::shared_ptr<StreamStepReactor> reactor(
      new StreamStepReactor(protocol, services, context));
  reactor->self_ = reactor;
  services.metrics.AddStreams(1);
  services.open_streams.Add(*reactor);
  reactor->Proceed();
  return reactor.get();
}

StreamStepReactor::StreamStepReactor(const StepProtocol& protocol,
                                     ServiceContext& services,
                                     grpc::CallbackServerContext& context)
    : protocol_(protocol),
      services_(services),
      context_(context),
      record_(protocol.method(), context, services),
      client_(ConnectionOf(context)),
      intake_(protocol.NewSource(), services.engine, services.inbound,
              {.writer = services.engine.NewWriter(),
               .client = client_,
               .deadline = record_.deadline()}),
      progress_(&starts_),
      outbound_(protocol.shared_bytes(), protocol.message()),
      outbound_room_(services.outbound, client_),
      order_(protocol) {}

void StreamStepReactor::OnReadDone(bool ok) {
  if (ok) {
    services_.taken.Add(client_, received_.Length());
    const absl::Status taken = intake_.Take(received_);
    if (!taken.ok()) Refuse(taken);
    Submit();
    return;
  }
  Actions actions;
  {
    const MutexLock lock(mutex_);
    reads_ended_ = true;
    progress_.MessageDone();
    progress_.End();
    actions = Decide();
  }
  Act(std::move(actions));
}

void StreamStepReactor::Refuse(const absl::Status& status) {
  intake_.Drop();
  const MutexLock lock(mutex_);
  refusal_ = status;
  progress_.End();
}

void StreamStepReactor::Submit() {
  Actions actions;
  intake_.BeginTexts();
  do {
    TakeSteps();
    if (!intake_.submissions().empty()) {
      services_.engine.Submit(intake_.submissions());
    }
    if (GoOnElsewhere()) return;
  } while (!GiveBack(actions));
  Act(std::move(actions));
}

bool StreamStepReactor::GoOnElsewhere() {
  if (intake_.done() || intake_.text_bytes() < kShortTextBytes) return false;
  std::vector<RequestId> unwanted;
  {
    const MutexLock lock(mutex_);
    if (progress_.broken()) return false;
    unwanted = NoteSubmitted();
  }
  for (const RequestId id : unwanted) services_.engine.Cancel(id);
  const absl::Status charged = intake_.WillWait();
  if (!charged.ok()) {
    Refuse(charged);
    return false;
  }
  intake_.Unread();
  absl::Status refused;
  {
    // The work may be done, and have left more, before Run returns: it looks
    // for its place under the same lock, so that ticket_ is the latest one.
    const MutexLock lock(mutex_);
    if (progress_.broken()) return false;
    const absl::StatusOr<TurnTicket> ticket = services_.texts.Run(
        client_, kShortTextBytes,
        [self = shared_from_this()](const absl::Status& turn) {
          if (turn.ok()) {
            MayPark("StreamStepReactor::GoOnElsewhere");
          } else {
            self->Refuse(turn);
          }
          self->Submit();
        });
    // From here on intake_ may be the other thread's.
    if (ticket.ok()) {
      ticket_ = *ticket;
      return true;
    }
    refused = ticket.status();
  }
  Refuse(refused);
  return false;
}

void StreamStepReactor::TakeSteps() {
  bool room = true;
  while (room && !intake_.done() && intake_.text_bytes() < kShortTextBytes) {
    const absl::Status looked = intake_.Look();
    if (!looked.ok()) {
      Refuse(looked);
      return;
    }
    room = TakeUp();
  }
}

bool StreamStepReactor::TakeUp() {
  const std::shared_ptr<StreamStepReactor> self = shared_from_this();
  const MutexLock lock(mutex_);
  bool room = progress_.TakeMessage() && !progress_.broken() &&
              outbound_room_.Reserve(outbound_.memory(),
                                     order_.cost() + intake_.cost(), self);
  for (const StepIntake::Arrival& arrival : intake_.arrivals()) {
    if (!room) break;
    const AnswerOrder::Tag tag = order_.Add(arrival.names, arrival.cost);
    if (Submission<StepRequest>* const submission = intake_.TakeUp()) {
      submission->receiver = self;
      submission->tag = tag;
    } else {
      RefuseStep(tag, arrival.refusal);
    }
    room = HasRoom();
  }
  return room;
}

bool StreamStepReactor::GiveBack(Actions& actions) {
  if (!intake_.done()) {
    // It is about to wait, however small it is.
    const absl::Status charged = intake_.WillWait();
    if (!charged.ok()) Refuse(charged);
  }
  const bool done = intake_.done();
  if (done) intake_.Drop();
  std::vector<RequestId> unwanted;
  {
    const MutexLock lock(mutex_);
    unwanted = NoteSubmitted();
    // Room that came too early for OnWriteDone to see that it was wanted.
    if (!done && !progress_.broken() && !progress_.finished() && HasRoom()) {
      return false;
    }
    if (done) {
      progress_.MessageDone();
    } else {
      // Meanwhile it takes no more than its bytes.
      intake_.Unread();
      progress_.MessageWaits();
    }
    actions = Decide();
  }
  for (const RequestId id : unwanted) services_.engine.Cancel(id);
  return true;
}

std::vector<RequestId> StreamStepReactor::NoteSubmitted() {
  std::vector<RequestId> unwanted;
  for (const Submission<StepRequest>& submission : intake_.submissions()) {
    if (!submission.refusal.ok()) {
      RefuseStep(submission.tag, submission.refusal);
    } else if (order_.NoteId(submission.tag, submission.id) &&
               progress_.broken()) {
      unwanted.push_back(submission.id);
    }
  }
  intake_.ClearSubmissions();
  return unwanted;
}

void StreamStepReactor::RefuseStep(AnswerOrder::Tag tag,
                                   const absl::Status& refusal) {
  const PublicError error = ToPublicError(refusal);
  services_.metrics.ErrorAnswered(Name(error.details.reason));
  order_.Refuse(tag, error, Out());
}

void StreamStepReactor::OnAnswers(
    std::span<const Answer<StepRequest>> answers) {
  const MutexLock lock(mutex_);
  for (size_t i = 0; i < answers.size(); ++i) {
    // Where there are thousands of sessions they come from memory.
    if (i + kAnswersAhead < answers.size()) {
      order_.Prefetch(answers[i + kAnswersAhead].tag);
    }
    const absl::StatusOr<StepResult>& result = *answers[i].end;
    if (result.ok()) {
      order_.Answer(answers[i].tag, *result, Out());
    } else {
      RefuseStep(answers[i].tag, result.status());
    }
  }
}

void StreamStepReactor::OnRoundEnd() {
  MayPark("StreamStepReactor::OnRoundEnd");
  Proceed();
}

void StreamStepReactor::OnWriteDone(bool ok) {
  Actions actions;
  OutboundBudget::Woken woken;
  bool submit = false;
  {
    const MutexLock lock(mutex_);
    progress_.WriteDone();
    outbound_.WriteDone();
    // With nothing in flight, what the call has of its own may do.
    if (order_.count() == 0 && outbound_.empty()) {
      woken = outbound_room_.Release();
    }
    submit = ok && progress_.message_waits() && HasRoom();
    if (submit) progress_.TakeMessage();
    if (ok) actions = Decide();
  }
  Tell(woken);
  if (!ok) {
    OnCancel();
    return;
  }
  Act(std::move(actions));
  if (submit) Submit();
}

void StreamStepReactor::OnCancel() {
  std::vector<RequestId> ids;
  OutboundBudget::Woken woken;
  Actions actions;
  TurnTicket ticket = 0;
  {
    const MutexLock lock(mutex_);
    progress_.Break();
    ticket = ticket_;
    outbound_.Clear();
    order_.DropAnswers();
    woken = outbound_room_.Release();
    ids = order_.Ids();
    actions = Decide();
  }
  for (const RequestId id : ids) services_.engine.Cancel(id);
  Tell(woken);
  Act(std::move(actions));
  // The call may be over; its work there would go on.
  services_.texts.Forget(ticket);
}

void StreamStepReactor::OnDone() {
  intake_.Drop();
  EndSessions();
  services_.open_streams.Remove(*this);
  services_.metrics.AddStreams(-1);
  // The engine may have a reference until the end of a round.
  const std::shared_ptr<StreamStepReactor> self = std::move(self_);
}

// The sessions that the stream has made end with it. If the server ended it,
// other calls may be at work on them, which go on until the server is gone, and
// the sessions with them: nobody makes more.
void StreamStepReactor::EndSessions() {
  if (!intake_.made_sessions()) return;
  {
    const MutexLock lock(mutex_);
    if (drained_) return;
  }
  services_.engine.EndWriter(intake_.writer());
}

// Travels with answers that wait, or alone. A client that does not read has one
// message more that waits for it.
void StreamStepReactor::GoAway(absl::Time requests_until) {
  Actions actions;
  {
    const MutexLock lock(mutex_);
    if (going_away_ || progress_.broken() || progress_.finished()) return;
    going_away_ = true;
    protocol_.GoAway(requests_until, outbound_);
    actions = Decide();
  }
  Act(std::move(actions));
}

void StreamStepReactor::Drain() {
  Actions actions;
  {
    const MutexLock lock(mutex_);
    drained_ = true;
    progress_.End();
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

// The thread may be the engine's.
void StreamStepReactor::OnOutboundRoom() {
  {
    const MutexLock lock(mutex_);
    outbound_room_.Came();
    if (!progress_.message_waits() || !HasRoom()) return;
    progress_.TakeMessage();
  }
  RunSoon([self = shared_from_this()] { self->Submit(); });
}

bool StreamStepReactor::HasRoom() const {
  return order_.count() < kMaxPending &&
         outbound_.memory() + order_.cost() < kOutboundBytes &&
         !outbound_room_.awaited();
}

bool StreamStepReactor::HasInboundRoom() {
  if (room_awaited_) return false;
  if (services_.inbound.HasRoomForAll()) return true;
  room_awaited_ = !services_.inbound.MayRead(client_, weak_from_this());
  return !room_awaited_;
}

absl::Status StreamStepReactor::EndStatus() const {
  if (progress_.broken() || context_.IsCancelled()) {
    return MakeError(ErrorReason::kCancelled, "the client has gone");
  }
  if (!refusal_.ok()) return refusal_;
  if (reads_ended_) return absl::OkStatus();
  return DrainingError();
}

StreamStepReactor::Actions StreamStepReactor::Decide() {
  Actions actions;
  if (progress_.finished()) return actions;
  actions.woken = outbound_room_.Count(outbound_.memory(), order_.count() > 0);
  if (progress_.BeginWrite(!outbound_.empty())) {
    actions.write = &outbound_.Next();
  }
  if (progress_.MayRead() && HasRoom() && HasInboundRoom()) {
    progress_.BeginRead();
    actions.read = true;
  }
  const bool busy = !outbound_.empty() || order_.count() > 0;
  if (progress_.BeginFinish(busy)) actions.finish = EndStatus();
  return actions;
}

void StreamStepReactor::Act(Actions actions) {
  while (true) {
    MayPark("StreamStepReactor::Act");
    Tell(actions.woken);
    // A write under way keeps the call from being finished until it is done.
    if (actions.write != nullptr) {
      StartWrite(actions.write);
      MayPark("StreamStepReactor::Act, write started");
    }
    if (!actions.read) break;
    StartRead(&received_);
    MayPark("StreamStepReactor::Act, read started");
    // A thread that would have finished the call left that to us.
    if (!starts_.Started()) return;
    const MutexLock lock(mutex_);
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
