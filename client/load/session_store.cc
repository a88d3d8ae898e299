#include "client/load/session_store.h"

namespace steadystate::client {

absl::Status SessionStore::Count(const absl::Status& status) {
  if (!status.ok()) tally_.CountError(status);
  return status;
}

absl::Status SessionStore::Create(LoadSession& session, Canceller* canceller) {
  const auto made =
      client_.CreateSession({}, {.timeout = timeout_, .canceller = canceller});
  if (made.ok()) session.Replace(made->name());
  return Count(made.status());
}

void SessionStore::Reconcile(LoadSession& session) {
  if (!session.uncertain()) return;
  if (!session.exists()) {
    session.GiveUpReconciling(tally_);
    return;
  }
  v1::GetSessionRequest request;
  request.set_name(session.name());
  const auto found = client_.GetSession(request, {.timeout = timeout_});
  if (Count(found.status()).ok()) {
    session.Reconcile(found->position(), tally_);
    return;
  }
  if (absl::IsNotFound(found.status())) session.Gone();
  session.GiveUpReconciling(tally_);
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
  if (!session.exists()) return;
  v1::DeleteSessionRequest request;
  request.set_name(session.name());
  Count(client_.DeleteSession(request, {.timeout = timeout_})).IgnoreError();
  session.Gone();
}

}  // namespace steadystate::client
