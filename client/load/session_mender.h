#ifndef STEADYSTATE_CLIENT_LOAD_SESSION_MENDER_H_
#define STEADYSTATE_CLIENT_LOAD_SESSION_MENDER_H_

#include <functional>
#include <future>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "client/canceller.h"
#include "client/client.h"
#include "client/load/session_pool.h"
#include "client/load/session_store.h"

namespace steadystate::client {

// Looks after the broken sessions of a pool, on a thread of its own, so that
// requests of the others begin in time. A session that does not come to rest is
// replaced; one that cannot be replaced is retired.
class SessionMender {
 public:
  // Begins the request of a session that goes on, if there is one.
  using BeginFunction = std::function<void(const std::optional<Turn>&)>;

  // `client` and `pool` outlive the object. `timeout` is that of one call.
  SessionMender(const Client& client, absl::Duration timeout, SessionPool& pool,
                BeginFunction begin);
  ~SessionMender() { Stop(); }
  SessionMender(const SessionMender&) = delete;
  SessionMender& operator=(const SessionMender&) = delete;

  // Ends the thread, within about a second. What is broken remains so.
  void Stop();

  // What it counted. REQUIRES: Stop was called.
  const SessionStore& store() const { return store_; }

 private:
  struct Patient {
    LoadSession* session;
    LoadTime due;      // to be looked at
    LoadTime give_up;  // to wait for its rest
  };

  void Run();
  void Attend(Patient patient);
  LoadTime NextDue() const;

  SessionPool& pool_;
  const BeginFunction begin_;
  Canceller canceller_;
  SessionStore store_;
  std::vector<Patient> patients_;  // of the thread
  std::future<void> done_;         // last, since the thread uses the others
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_SESSION_MENDER_H_
