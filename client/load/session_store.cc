#include "client/load/session_store.h"

#include "absl/time/clock.h"
#include "client/error.h"

namespace steadystate::client {
namespace {

// A request that was cancelled may go on for a while on the server. Of all
// sessions together.
constexpr absl::Duration kPatience = absl::Seconds(5);
constexpr absl::Duration kPoll = absl::Milliseconds(5);

}  // namespace

SessionStore::SessionStore(const Client& client, absl::Duration timeout)
    : client_(client), timeout_(timeout), patience_(kPatience) {}

absl::Status SessionStore::Count(const absl::Status& status) {
  if (!status.ok()) tally_.CountError(status);
  answers_ = status.ok() || GetErrorDetails(status).has_value();
  return status;
}

absl::Status SessionStore::Create(LoadSession& session, Canceller* canceller) {
  const auto made =
      client_.CreateSession({}, {.timeout = timeout_, .canceller = canceller});
  if (made.ok()) session.Replace(made->name());
  return Count(made.status());
}

void SessionStore::Reconcile(LoadSession& session) {
  if (session.doubt() == LoadSession::Doubt::kNone) return;
  const auto found = GetWhenIdle(session);
  if (found.ok()) {
    session.Reconcile(found->position(), tally_);
  } else {
    session.GiveUpReconciling(tally_);
  }
}

absl::StatusOr<v1::Session> SessionStore::GetWhenIdle(LoadSession& session) {
  if (!session.exists()) return absl::NotFoundError("deleted by somebody");
  v1::GetSessionRequest request;
  request.set_name(session.name());
  while (MayAsk()) {
    auto found = client_.GetSession(request, {.timeout = timeout_});
    if (absl::IsNotFound(found.status())) session.Gone();
    if (!Count(found.status()).ok() || found->state() == v1::Session::IDLE) {
      return found;
    }
    absl::SleepFor(kPoll);
    patience_ -= kPoll;
  }
  return absl::DeadlineExceededError("the session is still at work");
}

bool SessionStore::Mend(LoadSession& session) {
  const bool replace = session.mending().replace;
  Reconcile(session);
  if (!replace && session.exists()) return true;
  Delete(session);
  return Create(session, nullptr).ok();
}

void SessionStore::Delete(LoadSession& session) {
  Reconcile(session);
  if (!session.exists() || !answers_) return;
  v1::DeleteSessionRequest request;
  request.set_name(session.name());
  Count(client_.DeleteSession(request, {.timeout = timeout_})).IgnoreError();
  session.Gone();
}

}  // namespace steadystate::client
