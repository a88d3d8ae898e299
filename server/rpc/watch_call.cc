#include "server/rpc/watch_call.h"

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/parking.h"
#include "server/base/status_macros.h"
#include "server/rpc/answer.h"
#include "server/rpc/connection.h"
#include "server/rpc/convert.h"

namespace steadystate {
namespace {

// After so many events that do not concern it a client is told a new cursor, so
// that its last one is not forgotten.
constexpr uint64_t kUntold = SessionEvents::kCapacity / 4;

}  // namespace

WatchCall* WatchCall::Start(ServiceContext& services,
                            grpc::CallbackServerContext& context,
                            const v1::WatchSessionsRequest& request) {
  const std::shared_ptr<WatchCall> call(new WatchCall(services, context));
  call->self_ = call;
  services.open_streams.Add(*call);
  const absl::Status prepared = call->Prepare(request);
  if (!prepared.ok()) call->End(prepared);
  return call.get();
}

WatchCall::WatchCall(ServiceContext& services,
                     grpc::CallbackServerContext& context)
    : services_(services),
      events_(services.engine.session_events()),
      record_("steadystate.v1.SessionService/WatchSessions", context, services),
      client_(ConnectionOf(context)),
      account_(client_),
      progress_(nullptr) {}

absl::Status WatchCall::Prepare(const v1::WatchSessionsRequest& request) {
  if (!request.session().empty()) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        const absl::string_view id,
        ParseSessionName("session", request.session()));
    filter_.id = std::string(id);
  }
  if (request.cursor().empty()) {
    place_ = events_.next();
  } else {
    STEADYSTATE_ASSIGN_OR_RETURN(place_, events_.Parse(request.cursor()));
  }
  if (services_.outbound.Reserve(account_, kMessageMemory,
                                 shared_from_this())) {
    OnOutboundRoom();
  }
  return absl::OkStatus();
}

void WatchCall::OnOutboundRoom() {
  {
    const MutexLock lock(mutex_);
    if (end_.has_value() || progress_.broken()) return;
    busy_ = true;
  }
  const absl::Status added =
      services_.watchers.Add(client_, shared_from_this());
  MayPark("WatchCall::OnOutboundRoom");
  Actions actions;
  {
    const MutexLock lock(mutex_);
    busy_ = false;
    if (!added.ok()) NoteEnd(added);
    actions = Decide(false);
  }
  Act(actions);
}

void WatchCall::Look() {
  if (!MayFill()) return;
  const absl::StatusOr<SessionEvents::Page> page =
      events_.Read(filter_, place_, kMostEvents);
  const bool has_message = page.ok() && Fill(*page);
  MayPark("WatchCall::Look");
  Actions actions;
  {
    const MutexLock lock(mutex_);
    busy_ = false;
    if (!page.ok()) NoteEnd(page.status());
    asks_ = asks_ || (page.ok() && page->more);
    actions = Decide(has_message);
  }
  Act(actions);
}

// Whether the message is there to be filled in, by this thread alone.
bool WatchCall::MayFill() {
  const MutexLock lock(mutex_);
  if (end_.has_value() || progress_.broken()) return false;
  asks_ = progress_.writing() || busy_;
  if (asks_) return false;
  busy_ = true;
  return true;
}

// False: there is nothing to tell.
bool WatchCall::Fill(const SessionEvents::Page& page) {
  place_ = page.next;
  if (page.events.empty() && told_.has_value() && place_ - *told_ < kUntold) {
    return false;
  }
  told_ = place_;
  message_.Clear();
  for (const SessionEvent& event : page.events) {
    ToProto(event, *message_.add_events());
  }
  message_.set_cursor(events_.CursorOf(place_));
  return true;
}

void WatchCall::OnWriteDone(bool ok) {
  Actions actions;
  {
    const MutexLock lock(mutex_);
    progress_.WriteDone();
    if (!ok) progress_.Break();
    actions = Decide(false);
  }
  Act(actions);
}

void WatchCall::OnCancel() {
  Actions actions;
  {
    const MutexLock lock(mutex_);
    progress_.Break();
    actions = Decide(false);
  }
  Act(actions);
}

void WatchCall::Drain() { End(DrainingError()); }

void WatchCall::End(const absl::Status& status) {
  Actions actions;
  {
    const MutexLock lock(mutex_);
    NoteEnd(status);
    actions = Decide(false);
  }
  Act(actions);
}

void WatchCall::OnDone() {
  services_.open_streams.Remove(*this);
  const std::shared_ptr<WatchCall> self = std::move(self_);
  services_.watchers.Remove(client_, self);
  Tell(services_.outbound.EndReserve(account_));
}

void WatchCall::NoteEnd(const absl::Status& status) {
  if (!end_.has_value()) end_ = status;
  progress_.End();
}

WatchCall::Actions WatchCall::Decide(bool has_message) {
  Actions actions;
  const bool ends = end_.has_value() || progress_.broken();
  actions.write = progress_.BeginWrite(has_message && !ends);
  if (!busy_ && !progress_.writing()) {
    actions.ask = std::exchange(asks_, false) && !ends;
  }
  if (progress_.BeginFinish(busy_)) {
    actions.finish =
        end_.has_value() ? *end_ : absl::CancelledError("the client has gone");
  }
  return actions;
}

void WatchCall::Act(const Actions& actions) {
  MayPark("WatchCall::Act");
  if (actions.ask) services_.watchers.Ask(shared_from_this());
  if (actions.write) {
    StartWrite(&message_);
    MayPark("WatchCall::Act, write started");
  }
  // The last thing that happens: the call may be over afterwards.
  if (actions.finish.has_value()) {
    Finish(record_.End(*actions.finish));
    MayPark("WatchCall::Act, finished");
  }
}

}  // namespace steadystate
