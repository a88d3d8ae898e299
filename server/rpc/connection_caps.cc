#include "server/rpc/connection_caps.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace steadystate {
namespace {

// At its start a server has some 25 descriptors open; the metrics port takes
// up to 20.
constexpr uint64_t kMinReserve = 48;
constexpr uint64_t kMaxReserve = 256;

}  // namespace

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
        absl::StrCat("max_connections is ", max_connections,
                     ", but the limit of ", descriptor_limit,
                     " open files leaves ", fitting, " after a reserve of ",
                     reserve, ": raise the limit or take at most ", fitting));
  }
  const uint64_t in_all = max_connections == 0 ? fitting : max_connections;
  if (max_connections_per_peer > in_all) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_connections_per_peer is ", max_connections_per_peer,
                     ", but there are at most ", in_all,
                     " connections in all: take at most ", in_all));
  }
  const uint64_t per_peer = max_connections_per_peer == 0
                                ? (in_all + 1) / 2
                                : max_connections_per_peer;
  return ConnectionCaps{.in_all = in_all, .per_peer = per_peer};
}

}  // namespace steadystate
