#ifndef STEADYSTATE_SERVER_RPC_TEXT_THREADS_H_
#define STEADYSTATE_SERVER_RPC_TEXT_THREADS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/mutex.h"
#include "server/engine/request.h"
#include "server/rpc/fair_share.h"

namespace steadystate {

// Texts up to this many bytes become tokens on gRPC's own threads: that takes a
// millisecond at most.
inline constexpr size_t kShortTextBytes = size_t{4} << 10;

// Names a piece of work that may wait. 0: none.
using TextTicket = uint64_t;

// Threads for what takes long with a request: turning a text into tokens,
// seconds for megabytes, or tokens into a text, or listing a thousand sessions.
// gRPC has but two threads on a small machine, and while they are busy all
// streams stand still.
//
// There are two, one for work of more than kLongTextBytes and one for the rest,
// so that a few kilobytes never wait behind megabytes. Each serves clients in
// turn: who sends twenty texts makes others wait for one of them. Thread-safe.
class TextThreads {
 public:
  // Called once: on a thread, with OK when its turn has come, or with why it
  // shall not be done; or within Forget.
  using Work = std::function<void(const absl::Status& turn)>;

  // Beyond this a text has the second thread: it takes some ten milliseconds.
  static constexpr size_t kLongTextBytes = size_t{64} << 10;
  // Of all clients together, of which one has a ninth at most; and what every
  // client may have whatever others do (FairShare).
  static constexpr size_t kMaxWaiting = 512;
  static constexpr size_t kMaxWaitingBytes = size_t{256} << 20;
  static constexpr size_t kParts = 8;
  static constexpr size_t kOwnWaiting = 4;
  static constexpr size_t kOwnWaitingBytes = kLongTextBytes;

  TextThreads();
  // Tells what waits that it shall not be done.
  ~TextThreads();

  // Queues the work on a text of `bytes`. QUEUE_FULL, DRAINING: it is not
  // called.
  absl::StatusOr<TextTicket> Run(ClientId client, size_t bytes, Work work);

  // Calls work that still waits with CANCELLED, at once, and forgets it; else
  // does nothing. REQUIRES: nothing is locked that the work may lock.
  void Forget(TextTicket ticket);

  // From now on refuses work with DRAINING, also what waits.
  void Drain();

 private:
  struct Job {
    TextTicket ticket = 0;
    size_t bytes = 0;
    Work work;
  };
  using Jobs = std::deque<Job>;

  struct Lane {
    CondVar changed;
    std::deque<ClientId> turns;  // those that have jobs, next one first
    absl::flat_hash_map<ClientId, Jobs> jobs;
    std::thread thread;
  };

  absl::Status CheckRoom(ClientId client, size_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The job of the client whose turn it is, which then is the last in turn.
  Job TakeNext(Lane& lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Job TakeOut(Lane& lane, TextTicket ticket)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes a job, and its client from those in turn if it was the last.
  Job Remove(Lane& lane, ClientId client, Jobs::iterator place)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Loop(Lane& lane);

  Mutex mutex_;
  std::array<Lane, 2> lanes_;  // of short work and of long; see mutex_
  FairShare waiting_ ABSL_GUARDED_BY(mutex_){kMaxWaiting, kOwnWaiting, kParts};
  FairShare waiting_bytes_ ABSL_GUARDED_BY(mutex_){kMaxWaitingBytes,
                                                   kOwnWaitingBytes, kParts};
  TextTicket last_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_TEXT_THREADS_H_
