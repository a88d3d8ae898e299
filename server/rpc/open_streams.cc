#include "server/rpc/open_streams.h"

namespace steadystate {

void OpenStreams::Add(OpenStream& stream) {
  const MutexLock lock(mutex_);
  streams_.insert(&stream);
  if (draining_) stream.Drain();
}

void OpenStreams::Remove(OpenStream& stream) {
  const MutexLock lock(mutex_);
  streams_.erase(&stream);
}

void OpenStreams::Drain() {
  const MutexLock lock(mutex_);
  draining_ = true;
  for (OpenStream* stream : streams_) stream->Drain();
}

}  // namespace steadystate
