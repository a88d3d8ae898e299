#include "server/base/listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* addresses) const { freeaddrinfo(addresses); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

absl::StatusOr<Addresses> LookUp(const HostPort& address) {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(),
                  &hints, &found);
  if (error != 0) return absl::UnavailableError(gai_strerror(error));
  return Addresses(found);
}

bool IsBothFamilies(const HostPort& address, AnyAddress any) {
  return address.host == "::" ||
         (address.host == "0.0.0.0" && any == AnyAddress::kBothFamilies);
}

void SetPort(int port, sockaddr& address) {
  const auto value = htons(static_cast<uint16_t>(port));
  if (address.sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = value;
  } else {
    reinterpret_cast<sockaddr_in&>(address).sin_port = value;
  }
}

int PortOf(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return address.ss_family == AF_INET6
             ? ntohs(reinterpret_cast<sockaddr_in6&>(address).sin6_port)
             : ntohs(reinterpret_cast<sockaddr_in&>(address).sin_port);
}

void SetOption(int socket, int level, int option, int value) {
  setsockopt(socket, level, option, &value, sizeof(value));
}

// Invalid, and errno set, if the address cannot be had.
Descriptor ListenOn(const addrinfo& address, bool both_families) {
  Descriptor listener(
      socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener.valid()) return listener;
  // Else the port cannot be had for minutes after a server has ended.
  SetOption(listener.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.ai_family == AF_INET6) {
    SetOption(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, both_families ? 0 : 1);
  }
  if (bind(listener.get(), address.ai_addr, address.ai_addrlen) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0) {
    const int error = errno;
    listener.Close();
    errno = error;
  }
  return listener;
}

// As many of the addresses as can be had, all on one port.
absl::StatusOr<Listener> ListenOnAll(const HostPort& address,
                                     bool both_families) {
  STEADYSTATE_ASSIGN_OR_RETURN(const Addresses addresses, LookUp(address));
  Listener listener;
  listener.port = address.port;
  int error = 0;
  for (addrinfo* next = addresses.get(); next != nullptr;
       next = next->ai_next) {
    SetPort(listener.port, *next->ai_addr);
    Descriptor socket = ListenOn(*next, both_families);
    if (socket.valid()) {
      listener.port = PortOf(socket.get());
      listener.sockets.push_back(std::move(socket));
    } else {
      error = errno;
    }
  }
  if (listener.sockets.empty()) return absl::UnavailableError(strerror(error));
  return listener;
}

absl::StatusOr<Listener> ListenOnAnyAddress(const HostPort& address) {
  absl::StatusOr<Listener> both =
      ListenOnAll({.host = "::", .port = address.port}, true);
  if (both.ok()) return both;
  // There are machines without IPv6.
  return ListenOnAll({.host = "0.0.0.0", .port = address.port}, false);
}

}  // namespace

absl::StatusOr<HostPort> ParseHostPort(absl::string_view text) {
  HostPort address;
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos || colon == 0 ||
      !absl::SimpleAtoi(text.substr(colon + 1), &address.port) ||
      address.port < 0 || address.port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text,
                     "' is not an address to listen on: give HOST:PORT with a "
                     "port of 0 to 65535, for instance 127.0.0.1:50051"));
  }
  absl::string_view host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  address.host = std::string(host);
  return address;
}

absl::StatusOr<Listener> Listen(const std::string& host_port, AnyAddress any) {
  STEADYSTATE_ASSIGN_OR_RETURN(const HostPort address,
                               ParseHostPort(host_port));
  absl::StatusOr<Listener> listener = IsBothFamilies(address, any)
                                          ? ListenOnAnyAddress(address)
                                          : ListenOnAll(address, false);
  if (listener.ok()) return listener;
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", host_port,
                   ": the address is taken or not one of this machine (",
                   listener.status().message(), ")"));
}

}  // namespace steadystate
