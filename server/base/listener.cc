#include "server/base/listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
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
  if (error != 0) return absl::NotFoundError(gai_strerror(error));
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
Descriptor BindTo(const addrinfo& address, bool both_families) {
  Descriptor listener(
      socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener.valid()) return listener;
  // Else the port cannot be had for minutes after a server has ended.
  SetOption(listener.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.ai_family == AF_INET6) {
    SetOption(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, both_families ? 0 : 1);
  }
  if (bind(listener.get(), address.ai_addr, address.ai_addrlen) != 0) {
    const int error = errno;
    listener.Close();
    errno = error;
  }
  return listener;
}

// As many of the addresses as can be had, all on one port.
absl::StatusOr<Listener> BindToAll(const HostPort& address,
                                   bool both_families) {
  STEADYSTATE_ASSIGN_OR_RETURN(const Addresses addresses, LookUp(address));
  Listener listener;
  listener.port = address.port;
  int error = 0;
  for (addrinfo* next = addresses.get(); next != nullptr;
       next = next->ai_next) {
    SetPort(listener.port, *next->ai_addr);
    Descriptor socket = BindTo(*next, both_families);
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

absl::StatusOr<Listener> BindToAnyAddress(const HostPort& address) {
  absl::StatusOr<Listener> both =
      BindToAll({.host = "::", .port = address.port}, true);
  if (both.ok()) return both;
  // There are machines without IPv6.
  return BindToAll({.host = "0.0.0.0", .port = address.port}, false);
}

absl::Status CannotHave(absl::string_view host_port, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat(
      "cannot listen on ", host_port,
      ": the address is taken or not one of this machine (", why,
      "); another port can be given, and port 0 picks a free one"));
}

absl::Status UnknownName(absl::string_view host_port, absl::string_view host,
                         absl::string_view why) {
  return absl::UnavailableError(absl::StrCat(
      "cannot listen on ", host_port, ": the name ", host, " is not known (",
      why, "); give an address of this machine, such as 127.0.0.1"));
}

bool IsPort(absl::string_view text) {
  int port = 0;
  return !text.empty() &&
         absl::ascii_isdigit(static_cast<unsigned char>(text.front())) &&
         absl::SimpleAtoi(text, &port) && port <= 65535;
}

// What is probably meant by a text that is not HOST:PORT.
std::string Meant(absl::string_view text) {
  for (const absl::string_view scheme : {"http://", "https://", "grpc://"}) {
    absl::string_view rest = text;
    if (!absl::ConsumePrefix(&rest, scheme)) continue;
    rest = rest.substr(0, rest.find('/'));
    return absl::StrCat("give HOST:PORT without ", scheme,
                        ParseHostPort(rest).ok()
                            ? absl::StrCat(", that is ", rest)
                            : ", for instance 127.0.0.1:50051");
  }
  absl::string_view port = text;
  absl::ConsumePrefix(&port, ":");
  if (IsPort(port)) {
    return absl::StrCat("give 127.0.0.1:", port,
                        " to listen for programs of this machine, 0.0.0.0:",
                        port, " for those of others too");
  }
  const bool is_name =
      !text.empty() && text.find_first_of(":/ ") == absl::string_view::npos;
  if (is_name) return absl::StrCat("give a port too, as in ", text, ":50051");
  return "give HOST:PORT with a port of 0 to 65535, for instance "
         "127.0.0.1:50051";
}

}  // namespace

absl::StatusOr<HostPort> ParseHostPort(absl::string_view text) {
  HostPort address;
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos || colon == 0 ||
      absl::StrContains(text, '/') || !IsPort(text.substr(colon + 1)) ||
      !absl::SimpleAtoi(text.substr(colon + 1), &address.port)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", text, "' is not an address to listen on: ", Meant(text)));
  }
  absl::string_view host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  address.host = std::string(host);
  return address;
}

absl::StatusOr<Listener> Bind(const std::string& host_port, AnyAddress any) {
  STEADYSTATE_ASSIGN_OR_RETURN(const HostPort address,
                               ParseHostPort(host_port));
  absl::StatusOr<Listener> listener = IsBothFamilies(address, any)
                                          ? BindToAnyAddress(address)
                                          : BindToAll(address, false);
  if (absl::IsNotFound(listener.status())) {
    return UnknownName(host_port, address.host, listener.status().message());
  }
  if (!listener.ok()) {
    return CannotHave(host_port, listener.status().message());
  }
  listener->host_port = host_port;
  return listener;
}

absl::Status StartListening(const Listener& listener) {
  for (const Descriptor& socket : listener.sockets) {
    if (listen(socket.get(), SOMAXCONN) != 0) {
      return CannotHave(listener.host_port, strerror(errno));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Listener> Listen(const std::string& host_port, AnyAddress any) {
  STEADYSTATE_ASSIGN_OR_RETURN(Listener listener, Bind(host_port, any));
  STEADYSTATE_RETURN_IF_ERROR(StartListening(listener));
  return listener;
}

}  // namespace steadystate
