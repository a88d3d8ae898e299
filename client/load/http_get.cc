#include "client/load/http_get.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace steadystate::client {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxAnswerBytes = size_t{16} << 20;
constexpr size_t kPieceBytes = size_t{64} << 10;

std::string Name(const HttpAddress& address) {
  return absl::StrCat("http://", address.host, ":", address.port, address.path);
}

absl::Status Failure(const HttpAddress& address, absl::string_view what) {
  return absl::UnavailableError(
      absl::StrCat("no answer from ", Name(address), ": ", what));
}

// A connection that is closed at the end, and every wait on it ends in time.
class Connection {
 public:
  Connection(const HttpAddress& address, absl::Duration timeout)
      : address_(address),
        deadline_(Clock::now() + absl::ToChronoNanoseconds(timeout)) {}
  ~Connection() {
    if (fd_ >= 0) close(fd_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  absl::Status Open();
  absl::Status Send(absl::string_view text);
  // All that comes until the server ends the connection.
  absl::StatusOr<std::string> Receive();

 private:
  // Waits until `events` are possible.
  absl::Status Wait(short events) const;
  absl::Status OpenOne(const addrinfo& place);

  const HttpAddress& address_;
  const Clock::time_point deadline_;
  int fd_ = -1;
};

absl::Status Connection::Wait(short events) const {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline_ - Clock::now());
    if (left.count() <= 0) break;
    pollfd waiting{fd_, events, 0};
    const int ready = poll(&waiting, 1, static_cast<int>(left.count()));
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) {
      return Failure(address_, std::strerror(errno));
    }
  }
  return absl::DeadlineExceededError(
      absl::StrCat("no answer from ", Name(address_), " in time"));
}

absl::Status Connection::OpenOne(const addrinfo& place) {
  fd_ =
      socket(place.ai_family, place.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC,
             place.ai_protocol);
  if (fd_ < 0) return Failure(address_, std::strerror(errno));
  int error = 0;
  if (connect(fd_, place.ai_addr, place.ai_addrlen) != 0) error = errno;
  if (error == EINPROGRESS) {
    const absl::Status ready = Wait(POLLOUT);
    socklen_t size = sizeof(error);
    getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
    if (!ready.ok()) return ready;
  }
  return error == 0 ? absl::OkStatus()
                    : Failure(address_, std::strerror(error));
}

absl::Status Connection::Open() {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* places = nullptr;
  const int error = getaddrinfo(address_.host.c_str(), address_.port.c_str(),
                                &hints, &places);
  if (error != 0) return Failure(address_, gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(places,
                                                             freeaddrinfo);
  absl::Status opened;
  for (const addrinfo* place = places; place != nullptr;
       place = place->ai_next) {
    opened = OpenOne(*place);
    if (opened.ok()) break;
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }
  return opened;
}

absl::Status Connection::Send(absl::string_view text) {
  while (!text.empty()) {
    const absl::Status ready = Wait(POLLOUT);
    if (!ready.ok()) return ready;
    const ssize_t sent = send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
      return Failure(address_, std::strerror(errno));
    }
    if (sent > 0) text.remove_prefix(static_cast<size_t>(sent));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Connection::Receive() {
  std::string answer;
  std::array<char, kPieceBytes> piece;
  while (true) {
    const absl::Status ready = Wait(POLLIN);
    if (!ready.ok()) return ready;
    const ssize_t got = recv(fd_, piece.data(), piece.size(), 0);
    if (got == 0) return answer;
    if (got < 0) {
      if (errno == EAGAIN || errno == EINTR) continue;
      return Failure(address_, std::strerror(errno));
    }
    answer.append(piece.data(), static_cast<size_t>(got));
    if (answer.size() > kMaxAnswerBytes) {
      return absl::FailedPreconditionError(
          absl::StrCat("the answer of ", Name(address_), " is longer than ",
                       kMaxAnswerBytes, " bytes"));
    }
  }
}

}  // namespace

absl::StatusOr<HttpAddress> ParseHttpAddress(absl::string_view url) {
  const auto refuse = [url](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", url, "' ", why, "; give it as http://HOST:PORT/metrics"));
  };
  absl::string_view rest = url;
  if (absl::StartsWith(rest, "https://")) {
    return refuse("is encrypted, which cannot be read");
  }
  absl::ConsumePrefix(&rest, "http://");
  for (const char letter : rest) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(letter))) {
      return refuse("has letters that no address has");
    }
  }
  HttpAddress address;
  const size_t slash = rest.find('/');
  address.path = slash == absl::string_view::npos
                     ? "/metrics"
                     : std::string(rest.substr(slash));
  absl::string_view place = rest.substr(0, slash);
  const size_t bracket = place.rfind(']');
  const size_t colon = place.rfind(':');
  const bool has_port = colon != absl::string_view::npos &&
                        (bracket == absl::string_view::npos || colon > bracket);
  address.port = has_port ? std::string(place.substr(colon + 1)) : "80";
  place = place.substr(0, has_port ? colon : place.size());
  absl::ConsumePrefix(&place, "[");
  absl::ConsumeSuffix(&place, "]");
  address.host = std::string(place);
  uint32_t port = 0;
  // A port alone is one of this machine.
  if (address.host.empty() && has_port) address.host = "127.0.0.1";
  if (address.host.empty()) return refuse("names no host");
  if (!absl::SimpleAtoi(address.port, &port) || port == 0 || port > 65535) {
    return refuse("has no port of 1 to 65535");
  }
  return address;
}

absl::StatusOr<std::string> HttpGet(const HttpAddress& address,
                                    absl::Duration timeout) {
  Connection connection(address, timeout);
  const absl::Status opened = connection.Open();
  if (!opened.ok()) return opened;
  const absl::Status sent = connection.Send(
      absl::StrCat("GET ", address.path, " HTTP/1.0\r\nHost: ", address.host,
                   "\r\nAccept: text/plain\r\n\r\n"));
  if (!sent.ok()) return sent;
  auto answer = connection.Receive();
  if (!answer.ok()) return answer.status();
  const size_t body = answer->find("\r\n\r\n");
  const std::string first = answer->substr(0, answer->find("\r\n"));
  if (!absl::StartsWith(first, "HTTP/")) {
    return absl::FailedPreconditionError(absl::StrCat(
        "what listens at ", Name(address),
        " does not speak HTTP/1, as the server's gRPC port does not: give its "
        "metrics port, which is 9464 unless it was started with "
        "--metrics_listen"));
  }
  if (!absl::StrContains(first, " 200") || body == std::string::npos) {
    return absl::FailedPreconditionError(
        absl::StrCat(Name(address), " is no page: it answers '",
                     absl::CHexEscape(first.substr(0, 80)), "'"));
  }
  return answer->substr(body + 4);
}

}  // namespace steadystate::client
