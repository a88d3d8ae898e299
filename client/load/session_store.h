#ifndef STEADYSTATE_CLIENT_LOAD_SESSION_STORE_H_
#define STEADYSTATE_CLIENT_LOAD_SESSION_STORE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "client/load/load_session.h"
#include "client/load/tally.h"

namespace steadystate::client {

// Makes, mends and deletes the sessions of a run on the server, and counts the
// errors that this brings. A server that does not answer is not asked again, so
// that the end of a run does not take a timeout for every session. Confined to
// one thread.
class SessionStore {
 public:
  // `client` outlives the object. `timeout` is that of one call.
  SessionStore(const Client& client, absl::Duration timeout);

  // Makes a session of the server for `session` to stand for. With a canceller
  // it can be interrupted.
  absl::Status Create(LoadSession& session, Canceller* canceller);

  // Learns where a session stands whose last request failed, and replaces it if
  // it has to be. False if it is of no more use.
  bool Mend(LoadSession& session);

  // Learns where it stands, if need be, and deletes it, if there is one.
  void Delete(LoadSession& session);

  const Tally& tally() const { return tally_; }

 private:
  absl::Status Count(const absl::Status& status);
  // True while the server answers and there is patience left.
  bool MayAsk() const { return answers_ && patience_ > absl::ZeroDuration(); }
  void Reconcile(LoadSession& session);
  absl::StatusOr<v1::Session> GetWhenIdle(LoadSession& session);

  const Client& client_;
  const absl::Duration timeout_;
  absl::Duration patience_;  // to wait for sessions that are still at work
  bool answers_ = true;      // the server did, last time
  Tally tally_;
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_SESSION_STORE_H_
