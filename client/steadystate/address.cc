#include "steadystate/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
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

// An address in brackets, of IPv6; a zone may follow it.
bool IsBracketed(absl::string_view host) {
  if (!absl::ConsumePrefix(&host, "[") || !absl::ConsumeSuffix(&host, "]")) {
    return false;
  }
  in6_addr ignored;
  const std::string address(host.substr(0, host.find('%')));
  return inet_pton(AF_INET6, address.c_str(), &ignored) == 1;
}

// "1.2.3.4:5" or "[::1]:5", as gRPC's forms ipv4: and ipv6: list them.
bool IsNumeric(absl::string_view address, bool is_ipv4) {
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos || !IsPort(address.substr(colon + 1))) {
    return false;
  }
  const std::string host(address.substr(0, colon));
  in_addr ignored;
  return is_ipv4 ? inet_pton(AF_INET, host.c_str(), &ignored) == 1
                 : IsBracketed(host);
}

absl::StatusOr<std::string> ReadNumeric(absl::string_view text) {
  absl::string_view list = text;
  const bool is_ipv4 = absl::ConsumePrefix(&list, "ipv4:");
  if (!is_ipv4) absl::ConsumePrefix(&list, "ipv6:");
  for (const absl::string_view address : absl::StrSplit(list, ',')) {
    if (!IsNumeric(address, is_ipv4)) {
      return NoAddress(
          text,
          absl::StrCat("after ipv", is_ipv4 ? 4 : 6, ": come numbers, such as ",
                       is_ipv4 ? "127.0.0.1:50051" : "[::1]:50051", "; "));
    }
  }
  return std::string(text);
}

}  // namespace

absl::StatusOr<std::string> ReadAddress(absl::string_view text) {
  if (absl::StartsWith(text, "unix:") || absl::StartsWith(text, "dns:")) {
    return std::string(text);
  }
  if (absl::StartsWith(text, "ipv4:") || absl::StartsWith(text, "ipv6:")) {
    return ReadNumeric(text);
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
  const size_t bracket = rest.rfind(']');
  if (rest[0] == '[' || bracket != absl::string_view::npos) {
    const size_t end = bracket == absl::string_view::npos ? 0 : bracket + 1;
    if (!IsBracketed(rest.substr(0, end))) {
      return NoAddress(text, "in brackets is an IPv6 address; ");
    }
    if (end < rest.size() && rest[end] != ':') return NoAddress(text, "");
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
