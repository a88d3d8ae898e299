#ifndef STEADYSTATE_CLIENT_LOAD_SESSION_DELETER_H_
#define STEADYSTATE_CLIENT_LOAD_SESSION_DELETER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "client/load/load_clock.h"
#include "client/load/load_session.h"
#include "client/load/session_store.h"
#include "client/load/tally.h"
#include "client/mutex.h"

namespace steadystate::client {

// Deletes the sessions of a run at its end, several at a time. Goes on for as
// long as the server answers; one that is silent is given some time for all of
// them together, and less after an interruption. Used once.
class SessionDeleter {
 public:
  using Sessions = std::vector<std::unique_ptr<LoadSession>>;

  // The arguments outlive the object. `timeout` is that of one call.
  SessionDeleter(const Client& client, absl::Duration timeout,
                 const Sessions& sessions,
                 const std::function<bool()>& interrupted);

  // Learns where they stand, if need be, and deletes them.
  void Run();

  Tally tally() const;
  // Sessions that could not be deleted.
  uint64_t left_behind() const;

 private:
  void Work();
  // Asks at least once, unless the server is silent, and again while that may
  // help.
  void Insist(const std::function<SessionStore::Outcome()>& ask);
  // True while the server may still answer.
  bool Patient() const;

  const Client& client_;
  const absl::Duration timeout_;
  const Sessions& sessions_;
  const std::function<bool()>& interrupted_;
  std::atomic<size_t> next_ = 0;
  LoadTime retry_until_;
  std::atomic<LoadTime> last_answer_;

  mutable Mutex mutex_;
  CondVar progress_;
  Tally tally_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_SESSION_DELETER_H_
