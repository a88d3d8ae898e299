#ifndef STEADYSTATE_SERVER_RPC_OPEN_STREAMS_H_
#define STEADYSTATE_SERVER_RPC_OPEN_STREAMS_H_

#include <optional>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"

namespace steadystate {

// A stream, which may stay open for a long time, and has to hear of what
// happens to the server. None of these calls may use OpenStreams.
class OpenStream {
 public:
  virtual ~OpenStream() = default;
  // The server is about to shut down, and takes requests until then: tells the
  // client, once however often this is called, without waiting for it.
  virtual void GoAway(absl::Time /*requests_until*/) {}
  // Takes no more requests, answers what it has, ends. By default it ends
  // anyway.
  virtual void Drain() {}
  // Some time has passed: ends if its client keeps others waiting.
  virtual void Tick(SteadyTime /*now*/) {}
};

// The streams that are open now. Thread-safe. Where there are many, those who
// add and remove some wait for a few of them at most.
class OpenStreams {
 public:
  // `stream` stays valid until it is removed. Tells it what the others were
  // told before: GoAway, Drain.
  void Add(OpenStream& stream);
  // Waits until nobody calls the stream.
  void Remove(OpenStream& stream);

  // Tells all streams, and from now on those that are added.
  void GoAway(absl::Time requests_until);
  void Drain();

  // Ticks all streams.
  void Tick(SteadyTime now);

 private:
  // Visits those that are there all the time, a few under one lock.
  void ForEach(absl::FunctionRef<void(OpenStream&)> visit)
      ABSL_LOCKS_EXCLUDED(mutex_);

  Mutex mutex_;
  std::set<OpenStream*> streams_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Time> requests_until_ ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_OPEN_STREAMS_H_
