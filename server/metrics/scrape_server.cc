#include "server/metrics/scrape_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

using std::chrono::milliseconds;

// How long a connection may take from its begin to its end.
constexpr std::chrono::seconds kLifetime(10);
// Those that are accepted in one turn: fewer than there is room for, so that
// who comes with a flood of others still has a turn before it makes room.
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

absl::StatusOr<std::unique_ptr<ScrapeServer>> ScrapeServer::Start(
    const std::string& host_port, std::function<std::string()> page) {
  STEADYSTATE_ASSIGN_OR_RETURN(Listener listener,
                               Listen(host_port, AnyAddress::kIpv4Only));
  auto server = std::unique_ptr<ScrapeServer>(
      new ScrapeServer(std::move(listener), std::move(page)));
  if (!server->end_.descriptor().valid()) {
    return absl::UnavailableError("there is no descriptor left");
  }
  server->thread_ = std::thread(&ScrapeServer::Run, server.get());
  return server;
}

ScrapeServer::ScrapeServer(Listener listener, std::function<std::string()> page)
    : listener_(std::move(listener)), page_(std::move(page)) {
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
      if (!connection->Continue(page_)) connections_.erase(connection);
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
      // room is made for those alone who are.
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

}  // namespace steadystate
