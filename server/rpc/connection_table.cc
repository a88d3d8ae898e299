#include "server/rpc/connection_table.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/stat.h>

#include <cstring>

#include "server/base/descriptor.h"

namespace steadystate {
namespace {

ino_t InodeOf(int fd) {
  struct stat info {};
  return fstat(fd, &info) == 0 ? info.st_ino : 0;
}

}  // namespace

PeerNetwork PeerOf(const sockaddr_storage& address) {
  if (address.ss_family != AF_INET6) {
    const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(address);
    return {.ipv6 = false, .bits = ntohl(ipv4.sin_addr.s_addr)};
  }
  const in6_addr& ipv6 =
      reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&ipv6)) {
    uint32_t bits = 0;
    memcpy(&bits, &ipv6.s6_addr[12], sizeof(bits));
    return {.ipv6 = false, .bits = ntohl(bits)};
  }
  PeerNetwork peer = {.ipv6 = true};
  memcpy(&peer.bits, ipv6.s6_addr, sizeof(peer.bits));
  return peer;
}

size_t ConnectionTable::CountOf(const PeerNetwork& peer) const {
  const auto found = counts_.find(peer);
  return found == counts_.end() ? 0 : found->second;
}

ConnectionTable::Connection& ConnectionTable::Add(int fd,
                                                  const PeerNetwork& peer,
                                                  std::string name) {
  Connection connection;
  connection.fd = fd;
  connection.inode = InodeOf(fd);
  connection.peer = peer;
  connection.name = std::move(name);
  connections_.push_back(std::move(connection));
  ++counts_[peer];
  return connections_.back();
}

void ConnectionTable::Sweep() {
  std::erase_if(connections_, [this](const Connection& connection) {
    if (IsOpen(connection)) return false;
    Forget(connection.peer);
    return true;
  });
}

// The number may be another file's in the next moment: so it is a descriptor of
// our own that is looked at and then used. To connect a socket to nothing
// resets it and drops what waits in it; shutdown(2) would leave that to read.
bool ConnectionTable::Cut(const Connection& connection) {
  const Descriptor own(fcntl(connection.fd, F_DUPFD_CLOEXEC, 0));
  if (!own.valid() || InodeOf(own.get()) != connection.inode) return false;
  sockaddr nothing{};
  nothing.sa_family = AF_UNSPEC;
  return connect(own.get(), &nothing, sizeof(nothing)) == 0;
}

bool ConnectionTable::IsOpen(const Connection& connection) {
  return InodeOf(connection.fd) == connection.inode;
}

void ConnectionTable::Forget(const PeerNetwork& peer) {
  const auto found = counts_.find(peer);
  if (--found->second == 0) counts_.erase(found);
}

}  // namespace steadystate
