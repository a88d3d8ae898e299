#include "server/rpc/acceptor.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/status/status.h"

namespace steadystate {
namespace {

using std::chrono::milliseconds;

// How often closed connections are looked for without need.
constexpr std::chrono::seconds kSweepPeriod(1);
// Where connections are refused, they are looked for more often, but for no
// more than a tenth of the time.
constexpr milliseconds kMinSweepGap(10);
constexpr int kSweepShare = 10;
// How often the guard looks at the connections, for a twentieth of the time at
// most. Meanwhile much can come.
constexpr milliseconds kInspectionPeriod(50);
constexpr int kInspectionShare = 20;
// Connections that are accepted in one turn.
constexpr int kAcceptsPerTurn = 64;
// How long nothing is accepted where there are no descriptors.
constexpr milliseconds kPause(50);
// Data that a peer does not acknowledge for as long ends the connection, as
// with gRPC's own loop.
constexpr int kUserTimeoutMs = 20'000;

bool IsOutOfDescriptors() { return errno == EMFILE || errno == ENFILE; }

// Errors of the one connection: the next may be accepted. Linux passes on what
// the network said of it.
bool IsPassing() {
  switch (errno) {
    case EINTR:
    case ECONNABORTED:
    case EPERM:
    case EPROTO:
    case ENOPROTOOPT:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENONET:
      return true;
    default:
      return false;
  }
}

Descriptor AcceptOne(int listener, sockaddr_storage* address) {
  socklen_t size = sizeof(*address);
  return Descriptor(accept4(listener, reinterpret_cast<sockaddr*>(address),
                            &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

void SetTcpOption(int socket, int option, int value) {
  setsockopt(socket, IPPROTO_TCP, option, &value, sizeof(value));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Start(
    Listener listener, const ConnectionCaps& caps, Metrics& metrics,
    Handler handler, std::unique_ptr<ConnectionGuard> guard) {
  auto acceptor = std::unique_ptr<Acceptor>(
      new Acceptor(std::move(listener), caps, metrics, std::move(handler),
                   std::move(guard)));
  if (!acceptor->end_.descriptor().valid()) {
    return absl::UnavailableError("there is no descriptor left");
  }
  acceptor->thread_ = std::thread(&Acceptor::Run, acceptor.get());
  return acceptor;
}

Acceptor::Acceptor(Listener listener, const ConnectionCaps& caps,
                   Metrics& metrics, Handler handler,
                   std::unique_ptr<ConnectionGuard> guard)
    : listener_(std::move(listener)),
      caps_(caps),
      metrics_(metrics),
      handler_(std::move(handler)),
      guard_(std::move(guard)) {}

Acceptor::~Acceptor() { Stop(); }

ConnectionTable Acceptor::Stop() {
  if (thread_.joinable()) {
    end_.Signal();
    thread_.join();
  }
  listener_.sockets.clear();
  return std::exchange(table_, {});
}

void Acceptor::Run() {
  while (Wait()) {
    if (Clock::now() >= next_sweep_) Sweep();
    Inspect();
    if (!spare_.valid()) {
      spare_ = Descriptor(fcntl(end_.descriptor().get(), F_DUPFD_CLOEXEC, 0));
    }
    for (const int listener : ready_) AcceptFrom(listener);
    metrics_.SetConnections(table_.size());
  }
}

bool Acceptor::Wait() {
  ready_.clear();
  const Clock::time_point now = Clock::now();
  const bool pauses = accept_again_ > now;
  std::vector<pollfd> polled = {{end_.descriptor().get(), POLLIN, 0}};
  for (const Descriptor& socket : listener_.sockets) {
    if (!pauses) polled.push_back({socket.get(), POLLIN, 0});
  }
  Clock::time_point until = next_sweep_;
  if (guard_ != nullptr && table_.size() > 0) {
    until = std::min(until, next_inspection_);
  }
  if (pauses) until = std::min(until, accept_again_);
  const auto left = std::chrono::ceil<milliseconds>(until - now);
  const int timeout = static_cast<int>(std::max<int64_t>(left.count(), 0));
  if (poll(polled.data(), polled.size(), timeout) <= 0) return true;
  for (size_t i = 1; i < polled.size(); ++i) {
    if (polled[i].revents != 0) ready_.push_back(polled[i].fd);
  }
  return polled.front().revents == 0;
}

void Acceptor::AcceptFrom(int listener) {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    sockaddr_storage address{};
    Descriptor accepted = AcceptOne(listener, &address);
    if (accepted.valid()) {
      Take(std::move(accepted), address, listener);
    } else if (IsOutOfDescriptors()) {
      RefuseOne(listener);
      return;
    } else if (!IsPassing()) {
      if (errno != EAGAIN) accept_again_ = Clock::now() + kPause;
      return;
    }
  }
}

void Acceptor::Take(Descriptor socket, const sockaddr_storage& address,
                    int listener) {
  const PeerNetwork peer = PeerOf(address);
  if (!HasRoomFor(peer) && Clock::now() >= may_sweep_) Sweep();
  if (table_.size() >= caps_.in_all) {
    metrics_.ConnectionRefused(ConnectionRefusal::kMaxConnections);
    return;
  }
  if (table_.CountOf(peer) >= caps_.per_peer) {
    metrics_.ConnectionRefused(ConnectionRefusal::kMaxConnectionsPerPeer);
    return;
  }
  SetTcpOption(socket.get(), TCP_NODELAY, 1);
  SetTcpOption(socket.get(), TCP_USER_TIMEOUT, kUserTimeoutMs);
  ConnectionTable::Connection& connection =
      table_.Add(socket.get(), peer, ConnectionName(address));
  if (guard_ != nullptr) guard_->Watch(connection);
  metrics_.ConnectionAccepted();
  handler_(std::move(socket), listener);
}

bool Acceptor::HasRoomFor(const PeerNetwork& peer) const {
  return table_.size() < caps_.in_all && table_.CountOf(peer) < caps_.per_peer;
}

void Acceptor::Sweep() {
  const Clock::time_point start = Clock::now();
  table_.Sweep();
  const Clock::time_point end = Clock::now();
  next_sweep_ = end + kSweepPeriod;
  may_sweep_ = end + std::max<Clock::duration>(kMinSweepGap,
                                               kSweepShare * (end - start));
}

void Acceptor::Inspect() {
  const Clock::time_point start = Clock::now();
  if (guard_ == nullptr || start < next_inspection_) return;
  guard_->Inspect(table_);
  const Clock::time_point end = Clock::now();
  next_inspection_ =
      end + std::max<Clock::duration>(kInspectionPeriod,
                                      kInspectionShare * (end - start));
}

// Whoever waits is told so, instead of being kept waiting; and the listener
// does not stay readable, which would have the loop turn without end. Where
// descriptors are out, accepting fails even if nobody waits.
void Acceptor::RefuseOne(int listener) {
  accept_again_ = Clock::now() + kPause;
  if (!spare_.valid()) return;
  spare_.Close();
  sockaddr_storage address{};
  // Counted before it is closed, which is what the peer sees.
  const Descriptor refused = AcceptOne(listener, &address);
  if (refused.valid()) {
    metrics_.ConnectionRefused(ConnectionRefusal::kDescriptors);
  }
}

}  // namespace steadystate
