#include "server/rpc/connection_guard.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/base/clock.h"
#include "server/base/logging.h"
#include "server/rpc/connection.h"

namespace steadystate {
namespace {

// Fewer bytes since the last look are not worth one: some 500 resets.
constexpr uint64_t kBytesWorthALook = 16 << 10;

constexpr const char* kReasons[] = {"resets", "bytes", "unfinished"};

bool IsWorthALook(const ConnectionTable::Connection& connection) {
  if (connection.cut) return false;
  const uint64_t bytes = BytesRead(connection.fd);
  // Fewer than before are another socket's.
  return bytes >= connection.bytes_seen + kBytesWorthALook ||
         (bytes >= connection.bytes_seen &&
          connection.conduct.unfinished() >= kBytesWorthALook);
}

uint64_t Unfinished(const ConnectionTable::Connection& connection) {
  return connection.cut ? 0 : connection.conduct.unfinished();
}

uint64_t SumUnfinished(ConnectionTable& table) {
  uint64_t sum = 0;
  for (const ConnectionTable::Connection& connection : table.connections()) {
    sum += Unfinished(connection);
  }
  return sum;
}

// How long after a round the next one begins: where descriptors were out, some
// could not be cut.
constexpr absl::Duration kRoundGap = absl::Milliseconds(100);

}  // namespace

uint64_t BytesRead(int fd) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
      size < offsetof(tcp_info, tcpi_bytes_received) +
                 sizeof(info.tcpi_bytes_received)) {
    return 0;
  }
  int unread = 0;
  if (ioctl(fd, SIOCINQ, &unread) != 0 || unread < 0) return 0;
  const uint64_t received = info.tcpi_bytes_received;
  return received - std::min(received, static_cast<uint64_t>(unread));
}

ConnectionGuard::ConnectionGuard(const ConductLimits& limits, TakenBytes& taken,
                                 Metrics& metrics)
    : limits_(limits), taken_(taken), metrics_(metrics) {}

void ConnectionGuard::Watch(ConnectionTable::Connection& connection) {
  connection.taken = std::make_unique<TakenBytes::Count>(
      taken_, ClientOf(connection.name), connection.fd);
}

void ConnectionGuard::Inspect(ConnectionTable& table) {
  bool listed = false;
  for (ConnectionTable::Connection& connection : table.connections()) {
    if (!IsWorthALook(connection)) continue;
    if (connection.counters == 0 && !listed) {
      FindSockets(table);
      listed = true;
    }
    Inspect(connection);
  }
  BoundUnfinished(table);
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

void ConnectionGuard::Inspect(ConnectionTable::Connection& connection) {
  if (connection.counters == 0) return;
  std::optional<ConnectionActivity> activity =
      ConnectionCounters::Read(connection.counters);
  if (!activity.has_value()) return;
  activity->bytes_taken = connection.taken->Get();
  connection.bytes_seen =
      std::max(connection.bytes_seen, BytesRead(connection.fd));
  const std::optional<ConnectionCut> cut =
      connection.conduct.Judge(ConnectionConduct::Clock::now(),
                               connection.bytes_seen, *activity, limits_);
  if (cut.has_value()) Cut(connection, *cut);
}

void ConnectionGuard::BoundUnfinished(ConnectionTable& table) {
  // One alone may hold half.
  if (SumUnfinished(table) <= limits_.unfinished / 2) return;
  table.Sweep();  // those that have been closed hold nothing any more
  uint64_t sum = SumUnfinished(table);
  std::vector<ConnectionTable::Connection*> most_first;
  for (ConnectionTable::Connection& connection : table.connections()) {
    if (Unfinished(connection) > 0) most_first.push_back(&connection);
  }
  std::sort(most_first.begin(), most_first.end(),
            [](auto* a, auto* b) { return Unfinished(*a) > Unfinished(*b); });
  for (ConnectionTable::Connection* connection : most_first) {
    const uint64_t held = Unfinished(*connection);
    const uint64_t left =
        limits_.unfinished - std::min(sum, limits_.unfinished);
    if (held <= left) return;
    Cut(*connection, ConnectionCut::kUnfinished);
    sum -= held;
  }
}

void ConnectionGuard::Cut(ConnectionTable::Connection& connection,
                          ConnectionCut reason) {
  if (!ConnectionTable::Cut(connection)) return;
  connection.cut = true;
  metrics_.ConnectionWasCut(reason);
  LogWarning("connection cut off",
             {{"peer", connection.name},
              {"reason", kReasons[static_cast<size_t>(reason)]},
              {"bytes", connection.bytes_seen},
              {"unfinished_bytes", connection.conduct.unfinished()}});
}

ConnectionCutter::ConnectionCutter(ConnectionTable table, absl::Duration grace)
    : table_(std::move(table)), thread_(&ConnectionCutter::Run, this, grace) {}

ConnectionCutter::~ConnectionCutter() {
  {
    const MutexLock lock(mutex_);
    ended_ = true;
    ended_changed_.SignalAll();
  }
  thread_.join();
}

void ConnectionCutter::Run(absl::Duration grace) {
  if (EndsWithin(grace)) return;
  table_.Sweep();
  LogWarning("connections did not end in time and are cut off",
             {{"connections", table_.size()}});
  do {
    for (const ConnectionTable::Connection& connection : table_.connections()) {
      ConnectionTable::Cut(connection);
    }
    table_.Sweep();
  } while (!EndsWithin(kRoundGap));
}

bool ConnectionCutter::EndsWithin(absl::Duration duration) {
  const Clock& clock = Clock::Real();
  const SteadyTime end = clock.Now() + duration;
  const MutexLock lock(mutex_);
  while (!ended_) {
    const absl::Duration left = end - clock.Now();
    if (left <= absl::ZeroDuration()) return false;
    ended_changed_.WaitFor(mutex_, absl::ToChronoNanoseconds(left));
  }
  return true;
}

}  // namespace steadystate
