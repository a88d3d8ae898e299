#ifndef STEADYSTATE_SERVER_BASE_LISTENER_H_
#define STEADYSTATE_SERVER_BASE_LISTENER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/process.h"

namespace steadystate {

struct HostPort {
  std::string host;  // less the brackets around an IPv6 address
  int port = 0;      // [0, 65535]
};

// The parts of "127.0.0.1:50051", "[::1]:50051" or "localhost:0".
// INVALID_ARGUMENT, the message naming the text, for all that is not such.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view text);

// What 0.0.0.0 stands for; [::] is always every address of both families.
enum class AnyAddress { kIpv4Only, kBothFamilies };

// Sockets that listen on an address: several where a name has several.
struct Listener {
  std::vector<Descriptor> sockets;  // non-blocking, at least one
  int port = 0;                     // the same for all of them
};

// Listens for TCP connections; port 0 picks a free one. Names are looked up. A
// port that another socket listens on is an error. INVALID_ARGUMENT for
// malformed addresses; UNAVAILABLE if the address cannot be had, the message
// naming it and saying why.
absl::StatusOr<Listener> Listen(const std::string& host_port, AnyAddress any);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_BASE_LISTENER_H_
