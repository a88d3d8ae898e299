#ifndef STEADYSTATE_CLIENT_LOAD_SESSION_STORE_H_
#define STEADYSTATE_CLIENT_LOAD_SESSION_STORE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "client/load/load_session.h"
#include "client/load/tally.h"

namespace steadystate::client {

// Makes, asks for and deletes sessions of a run on the server, one call at a
// time, and counts the errors that this brings. Confined to one thread.
class SessionStore {
 public:
  // What comes of asking the server.
  enum class Outcome : uint8_t {
    kDone,
    kNotYet,  // the server is still at work on the session, or refuses
    kSilent,  // no answer in time
    kNobody,  // the server cannot be reached
  };

  // `client` outlives the object, and so does `canceller`, which ends calls
  // from another thread and may be nullptr. `timeout` is that of one call.
  SessionStore(const Client& client, absl::Duration timeout,
               Canceller* canceller);

  // Makes a session of the server for `session` to stand for.
  absl::Status Create(LoadSession& session);

  // Learns where a session stands whose last request failed or was cut.
  Outcome Settle(LoadSession& session);

  // Deletes it, if there is one. What was not settled never will be.
  Outcome Delete(LoadSession& session);

  const Tally& tally() const { return tally_; }
  // Sessions that the server may have made without its answer coming here.
  uint64_t unclaimed() const { return unclaimed_; }

 private:
  Outcome Count(const absl::Status& status);
  CallOptions Options() const { return {timeout_, canceller_}; }

  const Client& client_;
  const absl::Duration timeout_;
  Canceller* const canceller_;
  Tally tally_;
  uint64_t unclaimed_ = 0;
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_SESSION_STORE_H_
