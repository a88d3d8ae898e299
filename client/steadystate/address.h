#ifndef STEADYSTATE_CLIENT_STEADYSTATE_ADDRESS_H_
#define STEADYSTATE_CLIENT_STEADYSTATE_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace steadystate::client {

// Where a server is looked for that nobody names.
inline constexpr absl::string_view kDefaultAddress = "127.0.0.1:50051";

// The "HOST:PORT" that people mean by an address: by "localhost" the usual
// port there, by ":50052" and "50052" that port of this machine, by
// "http://host:50051/" what is between. Addresses of gRPC's own forms, such as
// "unix:/run/socket" and "dns:///host:50051", stay as they are.
// INVALID_ARGUMENT, with the form to use, for "https://..." and for what is no
// address.
absl::StatusOr<std::string> ReadAddress(absl::string_view text);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_STEADYSTATE_ADDRESS_H_
