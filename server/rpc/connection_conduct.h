#ifndef STEADYSTATE_SERVER_RPC_CONNECTION_CONDUCT_H_
#define STEADYSTATE_SERVER_RPC_CONNECTION_CONDUCT_H_

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/metrics/metrics.h"

namespace steadystate {

// What gRPC has counted of a connection since its begin.
struct ConnectionActivity {
  uint64_t calls_begun = 0;
  uint64_t calls_answered = 0;  // to their end, with whatever status
  uint64_t calls_reset = 0;     // ended otherwise: cancelled, most of them
  uint64_t messages = 0;        // either way
  uint64_t bytes_taken = 0;     // of messages, by the server, see TakenBytes

  uint64_t calls_open() const {
    const uint64_t ended = calls_answered + calls_reset;
    return calls_begun > ended ? calls_begun - ended : 0;
  }
  bool operator==(const ConnectionActivity&) const = default;
};

// What a client may do before its connection is cut off.
struct ConductLimits {
  // Calls that may be open. gRPC counts a reset late while resets keep coming,
  // so what has been begun beyond these, and not answered, counts as reset.
  uint64_t open_calls = 1024;
  // Calls reset at once, and a second; one that is answered makes up for four.
  uint64_t resets = 4096;
  uint64_t resets_per_second = 100;
  // Bytes during which no call begins, ends or has a message: so many for each
  // open call, whose next message may be on its way, or for one if there is
  // none.
  uint64_t bytes_per_call = 0;
  // Bytes that gRPC holds of messages that have not ended, or that nobody has
  // asked it for, of all connections together, as far as can be told: one may
  // hold as much as it leaves.
  uint64_t unfinished = 0;
};

// What one connection has done lately, judged: gRPC bounds neither how many
// calls a client resets, each of which leaves memory behind, nor how long a
// header is, all of which is read again with each frame, nor what it holds of
// messages that do not end. Thread-compatible.
class ConnectionConduct {
 public:
  using Clock = std::chrono::steady_clock;

  // Why the connection is to be cut off by itself, if so. `bytes` have been
  // received since its begin. `activity` was counted before them.
  std::optional<ConnectionCut> Judge(Clock::time_point now, uint64_t bytes,
                                     const ConnectionActivity& activity,
                                     const ConductLimits& limits);

  // What gRPC holds of messages that have not been taken, as far as can be
  // told, in bytes.
  uint64_t unfinished() const { return unfinished_; }

 private:
  void CountUnfinished(uint64_t bytes, const ConnectionActivity& activity,
                       const ConductLimits& limits);

  ConnectionActivity last_;
  uint64_t last_resets_ = 0;
  std::optional<Clock::time_point> last_time_;
  double resets_ = 0;  // less what time and answers made up for
  uint64_t last_bytes_ = 0;
  uint64_t bytes_at_progress_ = 0;  // when `last_` last changed
  uint64_t unfinished_ = 0;
};

// A connection as gRPC's counters name it: "ipv4:127.0.0.1:40000".
std::string ConnectionName(const sockaddr_storage& peer);

// Reads what gRPC counts for channelz, of the server that was started last in
// this process. Costs some 10 us a connection. Thread-compatible.
class ConnectionCounters {
 public:
  ConnectionCounters();

  struct Socket {
    int64_t id = 0;
    std::string name;
  };
  // The open connections that have not been told before, and some that have.
  std::vector<Socket> NewSockets();

  // What has been counted of an open connection; nothing once it is closed.
  static std::optional<ConnectionActivity> Read(int64_t socket);

 private:
  int64_t server_ = 0;
  int64_t next_socket_ = 0;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_CONNECTION_CONDUCT_H_
