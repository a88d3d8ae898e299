#ifndef STEADYSTATE_CLIENT_LOAD_HTTP_GET_H_
#define STEADYSTATE_CLIENT_LOAD_HTTP_GET_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace steadystate::client {

// Where a page is.
struct HttpAddress {
  std::string host;
  std::string port;
  std::string path;
};

// Reads "http://HOST:PORT/PATH". Without PATH it is /metrics, without PORT 80,
// and the scheme may be left out; an IPv6 HOST stands in brackets.
// INVALID_ARGUMENT, for people.
absl::StatusOr<HttpAddress> ParseHttpAddress(absl::string_view url);

// Fetches a page by HTTP/1.0, without encryption, on the calling thread.
// UNAVAILABLE if nobody listens there, DEADLINE_EXCEEDED if the page has not
// come within `timeout`, FAILED_PRECONDITION if the answer is no page, or
// longer than 16 MiB.
absl::StatusOr<std::string> HttpGet(const HttpAddress& address,
                                    absl::Duration timeout);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_HTTP_GET_H_
