#ifndef STEADYSTATE_CLIENT_LOAD_SESSION_CARE_H_
#define STEADYSTATE_CLIENT_LOAD_SESSION_CARE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/load/session_pool.h"
#include "client/load/tally.h"
#include "client/mutex.h"
#include "steadystate/client.h"
#include "steadystate/step_stream.h"
#include "steadystate/v1/session.pb.h"

namespace steadystate::client {

// Makes the sessions of a run. Ephemeral ones unless a durability is asked for:
// one stream makes them and has nothing else to do, and they end with it,
// however this process ends. Others have a ttl of kTtl, for the same case.
// Thread-compatible.
class SessionSource {
 public:
  static constexpr absl::Duration kTtl = absl::Minutes(5);

  // `client` outlives the object.
  SessionSource(const Client& client,
                std::optional<v1::Session::Durability> durability);
  // Ends the stream, in order if the server answers.
  ~SessionSource();
  SessionSource(const SessionSource&) = delete;
  SessionSource& operator=(const SessionSource&) = delete;

  // True if sessions end with this object.
  bool ephemeral() const { return !durability_.has_value(); }

  // Makes a session of the server; returns its name. Errors of the server's; or
  // as those of a call, which `options` are for.
  absl::StatusOr<std::string> Make(const CallOptions& options);

 private:
  // Waits for the answer to the step of number `tag`.
  absl::Status Await(uint64_t tag, const CallOptions& options)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const Client& client_;
  const std::optional<v1::Session::Durability> durability_;
  const std::string prefix_;  // of names, which nobody else has
  uint64_t made_ = 0;         // or tried to

  Mutex mutex_;
  CondVar answered_;
  // The latest answer: to which step, and what it was.
  uint64_t answer_tag_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status answer_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);  // the stream's

  std::unique_ptr<StepStream> stream_;  // last, since it calls the others
};

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

  // `client` outlives the object, and so do `source`, which nobody else uses
  // meanwhile and which may be nullptr where none is made, and `canceller`,
  // which ends calls from another thread and may be nullptr. `timeout` is that
  // of one call.
  SessionStore(const Client& client, SessionSource* source,
               absl::Duration timeout, Canceller* canceller);

  // Makes a session of the server for `session` to stand for. REQUIRES: there
  // is a source.
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
  SessionSource* const source_;
  const absl::Duration timeout_;
  Canceller* const canceller_;
  Tally tally_;
  uint64_t unclaimed_ = 0;
};

// Looks after the broken sessions of a pool, on a thread of its own, so that
// requests of the others begin in time. A session that does not come to rest is
// replaced; one that cannot be replaced is retired.
class SessionMender {
 public:
  // Begins the request of a session that goes on, if there is one.
  using BeginFunction = std::function<void(const std::optional<Turn>&)>;

  // `client`, `source` and `pool` outlive the object. `timeout` is that of one
  // call.
  SessionMender(const Client& client, SessionSource& source,
                absl::Duration timeout, SessionPool& pool, BeginFunction begin);
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

#endif  // STEADYSTATE_CLIENT_LOAD_SESSION_CARE_H_
