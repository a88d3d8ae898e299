#include "server/rpc/import_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/parking.h"
#include "server/base/status_macros.h"
#include "server/engine/engine.h"
#include "server/rpc/answer.h"
#include "server/rpc/connection.h"
#include "server/rpc/convert.h"
#include "server/rpc/received.h"
#include "server/rpc/turn_threads.h"

namespace steadystate {
namespace {

// Of one message, and what may stand around it.
constexpr size_t kMaxChunkBytes = size_t{1} << 20;
constexpr size_t kMaxImportMessageBytes = kMaxChunkBytes + (size_t{16} << 10);

absl::Status Gone() { return absl::CancelledError("the client has gone"); }

absl::Status StandsStill() {
  return MakeError(ErrorReason::kDeadlineExceeded,
                   absl::StrCat("no bytes of the snapshot have come for ",
                                absl::FormatDuration(kMaxStandstill),
                                ": send them without a break"));
}

absl::Status ChunkTooLarge(size_t bytes) {
  return OutOfBounds("chunk", absl::StrCat("of ", bytes, " bytes"),
                     absl::StrCat("at most ", kMaxChunkBytes, " bytes"));
}

}  // namespace

ImportCall* ImportCall::Start(ServiceContext& services,
                              grpc::CallbackServerContext& context,
                              v1::Session& response) {
  const std::shared_ptr<ImportCall> call(
      new ImportCall(services, context, response));
  call->self_ = call;
  services.open_streams.Add(*call);
  call->Proceed();
  return call.get();
}

ImportCall::ImportCall(ServiceContext& services,
                       grpc::CallbackServerContext& context,
                       v1::Session& response)
    : services_(services),
      context_(context),
      record_("steadystate.v1.SessionService/ImportSession", context, services),
      response_(response),
      order_(services.engine),
      account_(ConnectionOf(context)),
      progress_(&starts_) {
  pace_.Begin(services.engine.clock().Now());
}

void ImportCall::OnReadDone(bool ok) {
  bool submit = false;
  {
    const MutexLock lock(mutex_);
    if (ok && !progress_.TakeMessage()) return;
    if (!ok) {
      progress_.MessageDone();
      progress_.End();
      submit = !end_.has_value() && !progress_.broken();
    }
  }
  if (ok) {
    Handle();
  } else if (submit) {
    Submit();
  } else {
    Proceed();
  }
}

// The message is this thread's.
void ImportCall::Handle() {
  absl::Status status = ReadMessage();
  if (status.ok() && !begun_) {
    const absl::StatusOr<bool> room = TakeFirst();
    if (room.ok() && !*room) {
      // It waits, or is not wanted any more.
      Proceed();
      return;
    }
    status = room.status();
  }
  if (status.ok()) status = Append();
  if (!status.ok()) {
    End(status);
    return;
  }
  Proceed();
}

absl::Status ImportCall::ReadMessage() {
  const size_t bytes = received_.Length();
  services_.taken.Add(ConnectionOf(context_), bytes);
  if (bytes > kMaxImportMessageBytes) return ChunkTooLarge(bytes);
  return ReadRequest(received_, message_);
}

absl::StatusOr<bool> ImportCall::TakeFirst() {
  begun_ = true;
  STEADYSTATE_RETURN_IF_ERROR(
      CheckRange<uint64_t>("snapshot_bytes", message_.snapshot_bytes(), 1,
                           services_.engine.max_snapshot_bytes()));
  STEADYSTATE_ASSIGN_OR_RETURN(options_,
                               services_.converter.ToSessionOptions(message_));
  expected_bytes_ = static_cast<size_t>(message_.snapshot_bytes());
  {
    const MutexLock lock(mutex_);
    if (end_.has_value()) {
      progress_.MessageDone();
      return false;
    }
    progress_.MessageWaits();
  }
  // From here on another thread may have it.
  const bool room =
      services_.outbound.Reserve(account_, expected_bytes_, shared_from_this());
  MayPark("ImportCall::TakeFirst");
  if (!room) return false;
  const MutexLock lock(mutex_);
  return progress_.message_waits() && progress_.TakeMessage();
}

absl::Status ImportCall::Append() {
  const std::string& chunk = message_.chunk();
  if (chunk.size() > kMaxChunkBytes) return ChunkTooLarge(chunk.size());
  if (chunk.size() > expected_bytes_ - snapshot_.size()) {
    return OutOfBounds("snapshot_bytes", expected_bytes_,
                       "the number of bytes in all chunks, which is more");
  }
  if (snapshot_.empty()) snapshot_.reserve(expected_bytes_);
  snapshot_ += chunk;
  const SteadyTime now = services_.engine.clock().Now();
  {
    const MutexLock lock(mutex_);
    pace_.Move(chunk.size(), now);
    progress_.MessageDone();
  }
  MayPark("ImportCall::Append");
  return absl::OkStatus();
}

// The client has said all that it had to say.
void ImportCall::Submit() {
  if (!begun_) {
    End(MissingField("snapshot_bytes", "the size of the snapshot"));
    return;
  }
  if (snapshot_.size() < expected_bytes_) {
    End(OutOfBounds(
        "snapshot_bytes", expected_bytes_,
        absl::StrCat("the number of bytes in all chunks, ", snapshot_.size())));
    return;
  }
  {
    const MutexLock lock(mutex_);
    submitted_ = !end_.has_value();
    if (!submitted_) return;
  }
  WorkRequest work = services_.engine.ImportWork(std::move(snapshot_),
                                                 std::move(options_), created_);
  work.writer = services_.engine.NewWriter();
  work.client = ConnectionOf(context_);
  work.deadline = record_.deadline();
  const absl::Status status =
      order_.Submit(std::move(work), shared_from_this());
  if (!status.ok()) End(status);
}

void ImportCall::OnOutboundRoom() {
  {
    const MutexLock lock(mutex_);
    if (!progress_.message_waits() || !progress_.TakeMessage()) return;
  }
  // The thread may be the engine's.
  RunSoon([self = shared_from_this()] {
    const absl::Status status = self->Append();
    if (status.ok()) {
      self->Proceed();
    } else {
      self->End(status);
    }
  });
}

void ImportCall::OnAnswers(std::span<const Answer<WorkRequest>> answers) {
  const absl::Status& status = answers.front().end->status();
  if (status.ok()) {
    ToProto(*created_, services_.engine.model().description().id, response_);
  }
  End(status);
}

void ImportCall::End(const absl::Status& status) {
  Actions actions;
  {
    const MutexLock lock(mutex_);
    if (!end_.has_value()) end_ = status;
    progress_.MessageDone();
    progress_.End();
    actions = Decide();
  }
  Act(std::move(actions));
}

void ImportCall::GiveUp(const absl::Status& why) {
  if (submitted_ || end_.has_value()) return;
  end_ = why;
  if (progress_.message_waits()) progress_.MessageDone();
}

void ImportCall::OnCancel() {
  Actions actions;
  {
    const MutexLock lock(mutex_);
    progress_.Break();
    GiveUp(Gone());
    actions = Decide();
  }
  order_.Cancel();
  Act(std::move(actions));
}

void ImportCall::Drain() {
  Actions actions;
  {
    const MutexLock lock(mutex_);
    progress_.End();
    GiveUp(DrainingError());
    actions = Decide();
  }
  Act(std::move(actions));
}

// A client that has been given room uses it, or leaves it to others.
void ImportCall::Tick(SteadyTime now) {
  const bool others_wait = services_.outbound.KeepsOthersWaiting(account_);
  Actions actions;
  {
    const MutexLock lock(mutex_);
    if (progress_.message_waits()) pace_.Begin(now);
    const bool stands = pace_.Stands(now);
    if (!stands && !(others_wait && pace_.Lags(now))) return;
    progress_.End();
    GiveUp(stands ? StandsStill() : TooSlow("give"));
    actions = Decide();
  }
  Act(std::move(actions));
}

void ImportCall::OnDone() {
  services_.open_streams.Remove(*this);
  const std::shared_ptr<ImportCall> self = std::move(self_);
  snapshot_ = std::string();
  Tell(services_.outbound.EndReserve(account_));
}

ImportCall::Actions ImportCall::Decide() {
  Actions actions;
  if (progress_.MayRead() && !end_.has_value()) {
    progress_.BeginRead();
    actions.read = true;
  }
  if (progress_.BeginFinish(!end_.has_value())) actions.finish = *end_;
  return actions;
}

void ImportCall::Act(Actions actions) {
  MayPark("ImportCall::Act");
  while (actions.read) {
    StartRead(&received_);
    MayPark("ImportCall::Act, read started");
    // A thread that would have finished the call left that to us.
    if (!starts_.Started()) return;
    const MutexLock lock(mutex_);
    actions = Decide();
  }
  // The last thing that happens: the object may be gone afterwards.
  if (actions.finish.has_value()) {
    Finish(record_.End(*actions.finish));
    MayPark("ImportCall::Act, finished");
  }
}

void ImportCall::Proceed() {
  Actions actions;
  {
    const MutexLock lock(mutex_);
    actions = Decide();
  }
  Act(std::move(actions));
}

}  // namespace steadystate
