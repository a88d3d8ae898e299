#include "server/metrics/scrape_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "prometheus/collectable.h"
#include "prometheus/text_serializer.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

// A response whose body is that of `page`, or would be if `head_only`.
std::string Response(const Page& page, bool head_only = false,
                     absl::string_view more_fields = "") {
  return absl::StrCat("HTTP/1.1 ", page.status, "\r\nContent-Type: ", page.type,
                      "\r\nContent-Length: ", page.body.size(),
                      "\r\nConnection: close\r\n", more_fields, "\r\n",
                      head_only ? absl::string_view() : page.body);
}

std::string AnswerRequestLine(absl::string_view line, const Pages& pages) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  if (words.size() != 3 || words[0].empty() || words[1].empty() ||
      !absl::StartsWith(words[2], "HTTP/1.")) {
    return Response({.body = "This is not an HTTP/1.1 request.\n",
                     .status = "400 Bad Request"});
  }
  const bool head_only = words[0] == "HEAD";
  if (!head_only && words[0] != "GET") {
    return Response(
        {.body = "Ask with GET or HEAD.\n", .status = "405 Method Not Allowed"},
        false, "Allow: GET, HEAD\r\n");
  }
  const std::optional<Page> page =
      pages(words[1].substr(0, words[1].find('?')));
  if (!page.has_value()) {
    return Response({.body = "There is no such page here: / says which are.\n",
                     .status = "404 Not Found"},
                    head_only);
  }
  return Response(*page, head_only);
}

// Most reads of one turn, so that no connection holds up the others.
constexpr int kReadsPerTurn = 4;

bool WouldWait() { return errno == EAGAIN || errno == EINTR; }

using std::chrono::milliseconds;

// How long a connection may take from its begin to its end.
constexpr std::chrono::seconds kLifetime(10);
// Those that are accepted in one turn: fewer than there is room for, so that
// a client within a flood of others still has a turn before it makes room.
constexpr int kAcceptsPerTurn = 4;
// How long no connection is accepted after the system refused one.
constexpr milliseconds kPause(100);

bool IsOutOfDescriptors() { return errno == EMFILE || errno == ENFILE; }

// Concern one connection only: the next may be accepted.
bool IsPassing() { return errno == ECONNABORTED || errno == EINTR; }

// For poll(2): rounded up, so that the time has come when it returns.
int WaitUntil(ScrapeConnection::Clock::time_point time) {
  const auto left =
      std::chrono::ceil<milliseconds>(time - ScrapeConnection::Clock::now());
  return static_cast<int>(std::max<int64_t>(left.count(), 0));
}

}  // namespace

std::optional<std::string> AnswerScrape(absl::string_view received,
                                        const Pages& pages) {
  const size_t end = std::min(received.find("\r\n\r\n"), received.find("\n\n"));
  if (std::min(end, received.size()) > kMaxScrapeRequestBytes) {
    return Response({.body = absl::StrCat("The head of a request has at most ",
                                          kMaxScrapeRequestBytes, " bytes.\n"),
                     .status = "431 Request Header Fields Too Large"});
  }
  if (end == absl::string_view::npos) return std::nullopt;
  const absl::string_view line = received.substr(0, received.find('\n'));
  return AnswerRequestLine(absl::StripSuffix(line, "\r"), pages);
}

short ScrapeConnection::events() const {
  return asked_ && sent_ < answer_.size() ? POLLOUT : POLLIN;
}

bool ScrapeConnection::Continue(const Pages& pages) {
  if (!asked_ && !Read(pages)) return false;
  if (!asked_) return true;
  if (sent_ < answer_.size() && !Write()) return false;
  return sent_ < answer_.size() || Discard();
}

// False if the peer has gone before it asked.
bool ScrapeConnection::Read(const Pages& pages) {
  std::array<char, 4096> buffer;
  for (int i = 0; i < kReadsPerTurn && !asked_; ++i) {
    const ssize_t count = recv(fd(), buffer.data(), buffer.size(), 0);
    if (count < 0) return WouldWait();
    if (count == 0) return false;
    received_.append(buffer.data(), static_cast<size_t>(count));
    std::optional<std::string> answer = AnswerScrape(received_, pages);
    if (!answer.has_value()) continue;
    asked_ = true;
    answer_ = *std::move(answer);
    received_ = std::string();
  }
  return true;
}

bool ScrapeConnection::Write() {
  while (sent_ < answer_.size()) {
    const ssize_t count = send(fd(), answer_.data() + sent_,
                               answer_.size() - sent_, MSG_NOSIGNAL);
    if (count < 0) return WouldWait();
    sent_ += static_cast<size_t>(count);
  }
  shutdown(fd(), SHUT_WR);
  return true;
}

// Closing with bytes unread would reset the connection, and with it the answer
// that is still on its way: so what comes is read until the peer has closed.
bool ScrapeConnection::Discard() {
  std::array<char, 4096> buffer;
  for (int i = 0; i < kReadsPerTurn; ++i) {
    const ssize_t count = recv(fd(), buffer.data(), buffer.size(), 0);
    if (count < 0) return WouldWait();
    if (count == 0) return false;
  }
  return true;
}

absl::StatusOr<std::unique_ptr<ScrapeServer>> ScrapeServer::Start(
    const std::string& host_port, Pages pages) {
  STEADYSTATE_ASSIGN_OR_RETURN(Listener listener,
                               Bind(host_port, AnyAddress::kIpv4Only));
  return Start(std::move(listener), std::move(pages));
}

absl::StatusOr<std::unique_ptr<ScrapeServer>> ScrapeServer::Start(
    Listener listener, Pages pages) {
  STEADYSTATE_RETURN_IF_ERROR(StartListening(listener));
  auto server = std::unique_ptr<ScrapeServer>(
      new ScrapeServer(std::move(listener), std::move(pages)));
  if (!server->end_.descriptor().valid()) {
    return absl::UnavailableError("there is no descriptor left");
  }
  server->thread_ = std::thread(&ScrapeServer::Run, server.get());
  return server;
}

ScrapeServer::ScrapeServer(Listener listener, Pages pages)
    : listener_(std::move(listener)), pages_(std::move(pages)) {
  Refill();
}

ScrapeServer::~ScrapeServer() {
  if (!thread_.joinable()) return;
  end_.Signal();
  thread_.join();
}

void ScrapeServer::Run() {
  while (Wait()) {
    for (const Connections::iterator connection : ready_) {
      if (!connection->Continue(pages_)) connections_.erase(connection);
    }
    // Last, for it may close connections.
    Refill();
    for (const Descriptor* socket : ready_listeners_) AcceptFrom(*socket);
  }
}

bool ScrapeServer::Wait() {
  ready_.clear();
  ready_listeners_.clear();
  const Clock::time_point now = Clock::now();
  connections_.remove_if([now](const ScrapeConnection& connection) {
    return connection.deadline() <= now;
  });
  std::vector<pollfd> polled = {{end_.descriptor().get(), POLLIN, 0}};
  for (const ScrapeConnection& connection : connections_) {
    polled.push_back({connection.fd(), connection.events(), 0});
  }
  const size_t first_listener = polled.size();
  const bool pauses = accept_again_ > now;
  for (const Descriptor& socket : listener_.sockets) {
    if (!pauses) polled.push_back({socket.get(), POLLIN, 0});
  }
  int timeout = pauses ? WaitUntil(accept_again_) : -1;
  if (!connections_.empty()) {
    const int first = WaitUntil(connections_.front().deadline());
    timeout = timeout < 0 ? first : std::min(timeout, first);
  }
  if (poll(polled.data(), polled.size(), timeout) <= 0) return true;
  size_t i = 1;
  for (auto next = connections_.begin(); next != connections_.end(); ++next) {
    if (polled[i++].revents != 0) ready_.push_back(next);
  }
  for (; i < polled.size(); ++i) {
    if (polled[i].revents != 0) {
      ready_listeners_.push_back(&listener_.sockets[i - first_listener]);
    }
  }
  return polled.front().revents == 0;
}

void ScrapeServer::AcceptFrom(const Descriptor& socket) {
  bool made_room = false;
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    Descriptor accepted(
        accept4(socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (accepted.valid()) {
      if (connections_.size() == kMaxConnections) MakeRoom();
      connections_.emplace_back(std::move(accepted), Clock::now() + kLifetime);
      // Where descriptors are out, accepting fails even if nobody is there:
      // room is made only for a connection that waits.
      if (made_room) return;
    } else if (IsOutOfDescriptors()) {
      made_room = !made_room && MakeRoom();
      if (made_room) continue;
      accept_again_ = Clock::now() + kPause;
      return;
    } else if (!IsPassing()) {
      if (errno != EAGAIN) accept_again_ = Clock::now() + kPause;
      return;
    }
  }
}

// Frees a descriptor: one of the reserve, else the oldest connection that has
// not asked, else the oldest. False if there is none.
bool ScrapeServer::MakeRoom() {
  if (connections_.size() < kMaxConnections) {
    for (Descriptor& reserved : reserve_) {
      if (!reserved.valid()) continue;
      reserved.Close();
      return true;
    }
  }
  if (connections_.empty()) return false;
  const auto idle = std::find_if(
      connections_.begin(), connections_.end(),
      [](const ScrapeConnection& connection) { return !connection.asked(); });
  connections_.erase(idle == connections_.end() ? connections_.begin() : idle);
  return true;
}

// Takes back what was given of the reserve, as far as descriptors are there.
void ScrapeServer::Refill() {
  for (Descriptor& reserved : reserve_) {
    if (reserved.valid()) continue;
    reserved = Descriptor(fcntl(end_.descriptor().get(), F_DUPFD_CLOEXEC, 0));
  }
}

std::string Exposition(
    const std::vector<std::shared_ptr<prometheus::Collectable>>& collectables) {
  std::vector<prometheus::MetricFamily> all;
  for (const auto& collectable : collectables) {
    for (prometheus::MetricFamily& family : collectable->Collect()) {
      all.push_back(std::move(family));
    }
  }
  return prometheus::TextSerializer().Serialize(all);
}

}  // namespace steadystate
