#include "server/rpc/taken_bytes.h"

namespace steadystate {

TakenBytes::Count::Count(TakenBytes& bytes, ClientId client)
    : bytes_(bytes), client_(client) {
  const MutexLock lock(bytes_.mutex_);
  Client& entry = bytes_.clients_[client_];
  ++entry.counts;
  before_ = entry.bytes;
}

TakenBytes::Count::~Count() {
  const MutexLock lock(bytes_.mutex_);
  const auto found = bytes_.clients_.find(client_);
  if (--found->second.counts == 0) bytes_.clients_.erase(found);
}

uint64_t TakenBytes::Count::Get() const {
  const MutexLock lock(bytes_.mutex_);
  return bytes_.clients_.find(client_)->second.bytes - before_;
}

void TakenBytes::Add(ClientId client, size_t bytes) {
  const MutexLock lock(mutex_);
  const auto found = clients_.find(client);
  if (found != clients_.end()) found->second.bytes += bytes;
}

}  // namespace steadystate
