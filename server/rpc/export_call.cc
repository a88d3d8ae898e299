#include "server/rpc/export_call.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "server/base/error.h"
#include "server/base/parking.h"
#include "server/base/status_macros.h"
#include "server/rpc/connection.h"
#include "server/rpc/convert.h"
#include "server/rpc/turn_threads.h"
#include "server/session/snapshot.h"

namespace steadystate {
namespace {

// Of one message: a client takes this in some hundred microseconds.
constexpr size_t kChunkBytes = size_t{256} << 10;
// What a message has beside its chunk.
constexpr size_t kAroundChunk = 64;

// So many tokens a session may go on before its turn comes; what it grows by
// beyond that is counted late.
constexpr uint64_t kMeanwhile = 1024;

}  // namespace

ExportCall* ExportCall::Start(ServiceContext& services,
                              grpc::CallbackServerContext& context,
                              const v1::ExportSessionRequest& request) {
  const std::shared_ptr<ExportCall> call(new ExportCall(services, context));
  call->self_ = call;
  services.open_streams.Add(*call);
  const absl::Status prepared = call->Prepare(request);
  if (!prepared.ok()) call->End(prepared);
  return call.get();
}

ExportCall::ExportCall(ServiceContext& services,
                       grpc::CallbackServerContext& context)
    : services_(services),
      context_(context),
      record_("steadystate.v1.SessionService/ExportSession", context, services),
      order_(services.engine),
      account_(ConnectionOf(context)),
      progress_(nullptr) {}

absl::Status ExportCall::Prepare(const v1::ExportSessionRequest& request) {
  STEADYSTATE_ASSIGN_OR_RETURN(const absl::string_view id,
                               ParseSessionName("name", request.name()));
  STEADYSTATE_ASSIGN_OR_RETURN(const SessionInfo session,
                               services_.engine.GetSession(id));
  work_ = services_.engine.ExportWork(export_);
  work_.session = std::string(id);
  work_.writer = services_.engine.NewWriter();
  work_.client = ConnectionOf(context_);
  work_.deadline = record_.deadline();
  if (request.has_expected_position()) {
    work_.expected_position = request.expected_position();
  }
  const size_t bytes =
      services_.engine.snapshots().bytes_at(session.position + kMeanwhile);
  if (services_.outbound.Reserve(account_, bytes, shared_from_this())) {
    Submit();
  }
  return absl::OkStatus();
}

// Not at once: the thread may be the engine's, and a call that ends here would
// make room for the next one.
void ExportCall::OnOutboundRoom() {
  RunSoon([self = shared_from_this()] { self->Submit(); });
}

void ExportCall::Submit() {
  {
    const MutexLock lock(mutex_);
    if (end_.has_value()) return;  // the client has gone
    submitted_ = true;
  }
  MayPark("ExportCall::Submit");
  const absl::Status submitted =
      order_.Submit(std::move(work_), shared_from_this());
  if (!submitted.ok()) End(submitted);
}

void ExportCall::OnAnswers(std::span<const Answer<WorkRequest>> answers) {
  End(answers.front().end->status());
}

// Nothing comes from elsewhere any more: sends what there is, or finishes.
void ExportCall::End(const absl::Status& status) {
  Tell(services_.outbound.Hold(account_, export_->snapshot.capacity()));
  Tell(services_.outbound.EndReserve(account_));
  Actions actions;
  {
    const MutexLock lock(mutex_);
    end_ = status;
    progress_.End();
    actions = Decide();
  }
  Act(actions);
}

void ExportCall::OnWriteDone(bool ok) {
  const SteadyTime now = services_.engine.clock().Now();
  Actions actions;
  {
    const MutexLock lock(mutex_);
    progress_.WriteDone();
    pace_.Move(message_.chunk().size(), now);
    if (!ok) progress_.Break();
    actions = Decide();
  }
  Act(actions);
}

void ExportCall::OnCancel() {
  bool waits = false;
  {
    const MutexLock lock(mutex_);
    progress_.Break();
    waits = !submitted_ && !end_.has_value();
    if (waits) end_ = absl::CancelledError("the client has gone");
  }
  order_.Cancel();
  if (waits) Tell(services_.outbound.EndReserve(account_));
  Actions actions;
  {
    const MutexLock lock(mutex_);
    actions = Decide();
  }
  Act(actions);
}

// A client that does not read keeps others waiting for the room.
void ExportCall::Tick(SteadyTime now) {
  const bool others_wait = services_.outbound.KeepsOthersWaiting(account_);
  bool lags = false;
  bool stands = false;
  {
    const MutexLock lock(mutex_);
    // Nobody is told so behind all of it.
    lags = others_wait && pace_.Lags(now) && sent_ < export_->snapshot.size();
    stands = pace_.Stands(now);
    // What is being written goes out yet, and the refusal behind it.
    if (lags) end_ = TooSlow("take");
  }
  if (lags) MayPark("ExportCall::Tick, lags");
  if (stands) context_.TryCancel();
}

void ExportCall::OnDone() {
  services_.open_streams.Remove(*this);
  const std::shared_ptr<ExportCall> self = std::move(self_);
  export_->snapshot = std::string();
  Tell(services_.outbound.Hold(account_, 0));
}

ExportCall::Actions ExportCall::Decide() {
  Actions actions;
  // Before its end it is the keeper's.
  const bool whole = end_.has_value() && end_->ok() && !progress_.broken();
  const absl::string_view snapshot =
      whole ? absl::string_view(export_->snapshot) : absl::string_view();
  const bool more = sent_ < snapshot.size();
  if (progress_.BeginWrite(more)) {
    message_.Clear();
    if (sent_ == 0) {
      message_.set_snapshot_bytes(snapshot.size());
      message_.set_position(export_->position);
    }
    const size_t most =
        std::min(kChunkBytes, services_.max_message_bytes - kAroundChunk);
    const absl::string_view chunk = snapshot.substr(sent_, most);
    message_.set_chunk(chunk.data(), chunk.size());
    if (sent_ == 0) pace_.Begin(services_.engine.clock().Now());
    sent_ += chunk.size();
    actions.write = true;
  }
  if (!progress_.writing()) pace_.Rest();
  if (progress_.BeginFinish(more || !end_.has_value())) {
    actions.finish = progress_.broken() && end_->ok()
                         ? absl::CancelledError("the client has gone")
                         : *end_;
  }
  return actions;
}

void ExportCall::Act(const Actions& actions) {
  MayPark("ExportCall::Act");
  if (actions.write) {
    StartWrite(&message_);
    MayPark("ExportCall::Act, write started");
  }
  // The last thing that happens: the call may be over afterwards.
  if (actions.finish.has_value()) {
    Finish(record_.End(*actions.finish));
    MayPark("ExportCall::Act, finished");
  }
}

}  // namespace steadystate
