#ifndef STEADYSTATE_SERVER_BASE_LISTENER_H_
#define STEADYSTATE_SERVER_BASE_LISTENER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/process.h"

namespace steadystate {

struct HostPort {
  std::string host;  // less the brackets around an IPv6 address
  int port = 0;      // [0, 65535]
};

// The parts of "127.0.0.1:50051", "[::1]:50051" or "localhost:0".
// INVALID_ARGUMENT for all that is not such, the message naming the text and,
// for what people write instead ("50051", ":50051", "localhost", "http://..."),
// the form that is meant.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view text);

// What 0.0.0.0 stands for; [::] is always every address of both families.
enum class AnyAddress { kIpv4Only, kBothFamilies };

// Sockets that have an address, and listen once they have been told to: several
// where a name has several.
struct Listener {
  std::vector<Descriptor> sockets;  // non-blocking, at least one
  int port = 0;                     // the same for all of them
  std::string host_port;            // what was asked for
};

// Takes an address without listening on it yet, so that connections are refused
// as long as nobody would answer them. Port 0 picks a free one. Errors as
// Listen; an address that another process has taken just so is told only by
// StartListening.
absl::StatusOr<Listener> Bind(const std::string& host_port, AnyAddress any);

// Listens on an address that was taken. UNAVAILABLE as Listen.
absl::Status StartListening(const Listener& listener);

// Listens for TCP connections; port 0 picks a free one. Names are looked up. A
// port that another socket listens on is an error. INVALID_ARGUMENT for
// malformed addresses; UNAVAILABLE if the address cannot be had, the message
// naming it and saying why.
absl::StatusOr<Listener> Listen(const std::string& host_port, AnyAddress any);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_BASE_LISTENER_H_
