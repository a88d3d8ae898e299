#include "server/rpc/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "absl/hash/hash.h"

namespace steadystate {

// The peer's address has the port that the connection comes from.
ClientId ClientOf(absl::string_view connection) {
  const ClientId id = absl::HashOf(connection);
  return id == 0 ? 1 : id;
}

ClientId ConnectionOf(const grpc::CallbackServerContext& context) {
  return ClientOf(context.peer());
}

TakenBytes::Count::Count(TakenBytes& bytes, ClientId client, int fd)
    : bytes_(bytes), client_(client) {
  const MutexLock lock(bytes_.mutex_);
  Client& entry = bytes_.clients_[client_];
  ++entry.counts;
  entry.fd = fd;
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

bool TakenBytes::IsConnected(ClientId client) const {
  const MutexLock lock(mutex_);
  const auto found = clients_.find(client);
  if (found == clients_.end()) return true;
  tcp_info info{};
  socklen_t size = sizeof(info);
  return getsockopt(found->second.fd, IPPROTO_TCP, TCP_INFO, &info, &size) !=
             0 ||
         info.tcpi_state == TCP_ESTABLISHED;
}

void TakenBytes::Add(ClientId client, size_t bytes) {
  const MutexLock lock(mutex_);
  const auto found = clients_.find(client);
  if (found != clients_.end()) found->second.bytes += bytes;
}

}  // namespace steadystate
