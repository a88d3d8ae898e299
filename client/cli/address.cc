#include "client/cli/address.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace steadystate::client {
namespace {

constexpr absl::string_view kDefaultHost = "127.0.0.1";
constexpr absl::string_view kDefaultPort = "50051";

bool IsDigits(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return c >= '0' && c <= '9';
  });
}

bool IsPort(absl::string_view text) {
  int port = 0;
  return IsDigits(text) && absl::SimpleAtoi(text, &port) && port > 0 &&
         port <= 65535;
}

absl::Status NoAddress(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is not the address of a server: ", why,
                   "give HOST:PORT, such as ", kDefaultAddress,
                   ", localhost:50051 or [::1]:50051"));
}

}  // namespace

absl::StatusOr<std::string> ReadAddress(absl::string_view text) {
  for (const absl::string_view form : {"unix:", "dns:", "ipv4:", "ipv6:"}) {
    if (absl::StartsWith(text, form)) return std::string(text);
  }
  absl::string_view rest = text;
  if (absl::StartsWith(rest, "https://")) {
    return NoAddress(text,
                     "the server has no encryption, which a proxy adds; ");
  }
  if (absl::ConsumePrefix(&rest, "http://") ||
      absl::ConsumePrefix(&rest, "grpc://")) {
    absl::ConsumeSuffix(&rest, "/");
  }
  if (rest.empty() || absl::StrContains(rest, '/') ||
      absl::StrContains(rest, ' ')) {
    return NoAddress(text, "");
  }
  if (IsDigits(rest)) {
    if (!IsPort(rest)) return NoAddress(text, "ports are 1 to 65535; ");
    return absl::StrCat(kDefaultHost, ":", rest);
  }
  const size_t colon = rest.rfind(':');
  if (colon == absl::string_view::npos || rest.back() == ']') {
    return absl::StrCat(rest, ":", kDefaultPort);
  }
  absl::string_view host = rest.substr(0, colon);
  if (absl::StrContains(host, ':') && host[0] != '[') {
    return NoAddress(text, "an IPv6 address is in brackets; ");
  }
  if (!IsPort(rest.substr(colon + 1))) {
    return NoAddress(text, "ports are 1 to 65535; ");
  }
  if (host.empty()) host = kDefaultHost;
  return absl::StrCat(host, rest.substr(colon));
}

}  // namespace steadystate::client
