#include "server/rpc/connection_guard.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "server/base/logging.h"

namespace steadystate {
namespace {

// Fewer bytes since the last look are not worth one: some 500 resets.
constexpr uint64_t kBytesWorthALook = 16 << 10;

// What the system has received of a connection, 0 if it does not say. The
// descriptor may be another file's by now: so nothing is done with it here.
uint64_t BytesReceived(int fd) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
      size < offsetof(tcp_info, tcpi_bytes_received) +
                 sizeof(info.tcpi_bytes_received)) {
    return 0;
  }
  return info.tcpi_bytes_received;
}

}  // namespace

ConnectionGuard::ConnectionGuard(const ConductLimits& limits, Metrics& metrics)
    : limits_(limits), metrics_(metrics) {}

void ConnectionGuard::Inspect(ConnectionTable& table) {
  bool listed = false;
  for (ConnectionTable::Connection& connection : table.connections()) {
    const uint64_t bytes = BytesReceived(connection.fd);
    if (bytes < connection.bytes_seen + kBytesWorthALook) continue;
    if (connection.counters == 0 && !listed) {
      FindSockets(table);
      listed = true;
    }
    Inspect(connection, bytes);
  }
}

void ConnectionGuard::FindSockets(ConnectionTable& table) {
  absl::flat_hash_map<std::string, int64_t> found;
  for (ConnectionCounters::Socket& socket : counters_.NewSockets()) {
    found[std::move(socket.name)] = socket.id;
  }
  for (ConnectionTable::Connection& connection : table.connections()) {
    if (connection.counters != 0) continue;
    const auto socket = found.find(connection.name);
    if (socket != found.end()) connection.counters = socket->second;
  }
}

void ConnectionGuard::Inspect(ConnectionTable::Connection& connection,
                              uint64_t bytes) {
  if (connection.counters == 0) return;
  const std::optional<ConnectionActivity> activity =
      ConnectionCounters::Read(connection.counters);
  if (!activity.has_value()) return;
  connection.bytes_seen = bytes;
  const std::optional<ConnectionCut> cut = connection.conduct.Judge(
      ConnectionConduct::Clock::now(), bytes, *activity, limits_);
  if (!cut.has_value() || !ConnectionTable::Cut(connection)) return;
  metrics_.ConnectionWasCut(*cut);
  LogWarning("connection cut off",
             {{"peer", connection.name},
              {"reason", *cut == ConnectionCut::kResets ? "resets" : "bytes"},
              {"bytes", bytes},
              {"calls_reset", activity->calls_reset},
              {"calls_answered", activity->calls_answered}});
}

}  // namespace steadystate
