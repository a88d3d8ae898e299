#ifndef STEADYSTATE_SERVER_RPC_OPEN_STREAMS_H_
#define STEADYSTATE_SERVER_RPC_OPEN_STREAMS_H_

#include <set>

#include "absl/base/thread_annotations.h"
#include "server/base/mutex.h"

namespace steadystate {

// A stream, which may stay open for as long as its client likes, and has to be
// asked to end when the server shuts down.
class OpenStream {
 public:
  virtual ~OpenStream() = default;
  // Takes no more requests, answers what it has, ends. May not use OpenStreams.
  virtual void Drain() = 0;
};

// The streams that are open now. Thread-safe.
class OpenStreams {
 public:
  // `stream` stays valid until it is removed. Drains it if Drain was called
  // before.
  void Add(OpenStream& stream);
  // Waits for a Drain that runs.
  void Remove(OpenStream& stream);

  // Drains all streams, and from now on those that are added.
  void Drain();

 private:
  Mutex mutex_;
  std::set<OpenStream*> streams_ ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
};

inline void OpenStreams::Add(OpenStream& stream) {
  const MutexLock lock(mutex_);
  streams_.insert(&stream);
  if (draining_) stream.Drain();
}

inline void OpenStreams::Remove(OpenStream& stream) {
  const MutexLock lock(mutex_);
  streams_.erase(&stream);
}

inline void OpenStreams::Drain() {
  const MutexLock lock(mutex_);
  draining_ = true;
  for (OpenStream* stream : streams_) stream->Drain();
}

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_OPEN_STREAMS_H_
