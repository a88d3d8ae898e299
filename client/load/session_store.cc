#include "client/load/session_store.h"

#include "client/error.h"

namespace steadystate::client {

SessionStore::SessionStore(const Client& client, absl::Duration timeout,
                           Canceller* canceller)
    : client_(client), timeout_(timeout), canceller_(canceller) {}

SessionStore::Outcome SessionStore::Count(const absl::Status& status) {
  if (status.ok()) return Outcome::kDone;
  if (canceller_ != nullptr && canceller_->cancelled() &&
      absl::IsCancelled(status) && !GetErrorDetails(status)) {
    // The tester's own doing says nothing about the server.
    ++tally_.given_up;
    return Outcome::kSilent;
  }
  tally_.CountError(status);
  if (GetErrorDetails(status)) return Outcome::kNotYet;
  return absl::IsUnavailable(status) ? Outcome::kNobody : Outcome::kSilent;
}

absl::Status SessionStore::Create(LoadSession& session) {
  const auto made = client_.CreateSession({}, Options());
  if (made.ok()) {
    session.Replace(made->name());
  } else if (!GetErrorDetails(made.status())) {
    ++unclaimed_;
  }
  Count(made.status());
  return made.status();
}

SessionStore::Outcome SessionStore::Settle(LoadSession& session) {
  if (session.doubt() == LoadSession::Doubt::kNone) return Outcome::kDone;
  if (session.exists()) {
    v1::GetSessionRequest request;
    request.set_name(session.name());
    const auto found = client_.GetSession(request, Options());
    const Outcome outcome = Count(found.status());
    if (found.ok() && found->state() == v1::Session::IDLE) {
      session.Reconcile(found->position(), tally_);
      return Outcome::kDone;
    }
    if (found.ok()) return Outcome::kNotYet;
    if (!absl::IsNotFound(found.status())) return outcome;
    session.Gone();
  }
  session.GiveUpReconciling(tally_);
  return Outcome::kDone;
}

SessionStore::Outcome SessionStore::Delete(LoadSession& session) {
  session.GiveUpReconciling(tally_);
  if (!session.exists()) return Outcome::kDone;
  v1::DeleteSessionRequest request;
  request.set_name(session.name());
  const absl::Status status = client_.DeleteSession(request, Options());
  const Outcome outcome = Count(status);
  if (!status.ok() && !absl::IsNotFound(status)) return outcome;
  session.Gone();
  return Outcome::kDone;
}

}  // namespace steadystate::client
