#include "server/rpc/connection_table.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/base/process.h"

namespace steadystate {
namespace {

ino_t InodeOf(int fd) {
  struct stat info {};
  return fstat(fd, &info) == 0 ? info.st_ino : 0;
}

// At its start a server has some 25 descriptors open; the metrics port takes
// up to 20.
constexpr uint64_t kMinReserve = 48;
constexpr uint64_t kMaxReserve = 256;

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

size_t ReservedDescriptors(uint64_t limit) {
  return std::clamp(limit / 8, kMinReserve, kMaxReserve);
}

absl::StatusOr<ConnectionCaps> ResolveConnectionCaps(
    uint64_t max_connections, uint64_t max_connections_per_peer,
    uint64_t descriptor_limit) {
  const uint64_t reserve = ReservedDescriptors(descriptor_limit);
  const uint64_t fitting =
      descriptor_limit > reserve ? descriptor_limit - reserve : 1;
  if (max_connections > fitting) {
    return absl::InvalidArgumentError(
        absl::StrCat("--max_connections is ", max_connections,
                     ", but the limit of ", descriptor_limit,
                     " open files leaves ", fitting, " after a reserve of ",
                     reserve, ": raise the limit or take at most ", fitting));
  }
  const uint64_t in_all = max_connections == 0 ? fitting : max_connections;
  if (max_connections_per_peer > in_all) {
    return absl::InvalidArgumentError(
        absl::StrCat("--max_connections_per_peer is ", max_connections_per_peer,
                     ", but there are at most ", in_all,
                     " connections in all: take at most ", in_all));
  }
  const uint64_t per_peer = max_connections_per_peer == 0
                                ? (in_all + 1) / 2
                                : max_connections_per_peer;
  return ConnectionCaps{.in_all = in_all, .per_peer = per_peer};
}

}  // namespace steadystate
