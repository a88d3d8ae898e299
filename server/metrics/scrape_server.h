#ifndef STEADYSTATE_SERVER_METRICS_SCRAPE_SERVER_H_
#define STEADYSTATE_SERVER_METRICS_SCRAPE_SERVER_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/listener.h"
#include "server/base/process.h"

namespace prometheus {
class Collectable;
}

namespace steadystate {

// The text exposition of everything that is collected: of a Metrics, of its
// collectables(). Thread-safe.
std::string Exposition(
    const std::vector<std::shared_ptr<prometheus::Collectable>>& collectables);

// Most bytes of a request up to the empty line that ends its head.
inline constexpr size_t kMaxScrapeRequestBytes = 8 << 10;

// What is served at one path.
struct Page {
  std::string body;
  absl::string_view status = "200 OK";
  absl::string_view type = "text/plain; charset=utf-8";
};

// Makes the page of a path, such as "/metrics"; nothing where there is none.
using Pages = std::function<std::optional<Page>(absl::string_view path)>;

// The HTTP response to the request that `received` begins with, or nothing
// while more of its head has to come: what `pages` has, for GET and HEAD, 404
// for other paths, 405 for other methods, 400 for what is not HTTP, 431 for a
// head longer than kMaxScrapeRequestBytes. Each of them says that the
// connection ends.
std::optional<std::string> AnswerScrape(absl::string_view received,
                                        const Pages& pages);

// One HTTP connection: a request is read, answered, and the connection ends.
// Never waits. Thread-compatible.
class ScrapeConnection {
 public:
  using Clock = std::chrono::steady_clock;

  // Owns `socket`, which is non-blocking, and lives until `deadline` at most.
  ScrapeConnection(Descriptor socket, Clock::time_point deadline)
      : socket_(std::move(socket)), deadline_(deadline) {}

  int fd() const { return socket_.get(); }
  Clock::time_point deadline() const { return deadline_; }
  // Whether the whole request has come.
  bool asked() const { return asked_; }
  // The events to poll for.
  short events() const;

  // Goes on as far as it can without waiting. False once the connection is at
  // its end. `pages` are what is served.
  bool Continue(const Pages& pages);

 private:
  bool Read(const Pages& pages);
  bool Write();
  bool Discard();

  Descriptor socket_;
  Clock::time_point deadline_;
  std::string received_;
  bool asked_ = false;
  std::string answer_;
  size_t sent_ = 0;
};

// Serves pages over HTTP, on one thread that waits for nobody: what a peer
// has to send or read has a deadline, and where more peers than kMaxConnections
// are there, the oldest that has not asked yet makes room for the newest. So a
// scrape is answered beside any number of connections that do nothing. It has
// descriptors in reserve to accept with where the process has no more.
class ScrapeServer {
 public:
  static constexpr size_t kMaxConnections = 16;
  static constexpr size_t kReserve = 2;
  // The descriptors that it takes, beside one for each address listened on.
  static constexpr size_t kDescriptors = kMaxConnections + kReserve + 1;

  // `pages` makes what is served; it is called on the server's thread.
  // INVALID_ARGUMENT for malformed addresses, UNAVAILABLE if the address or
  // descriptors cannot be had.
  static absl::StatusOr<std::unique_ptr<ScrapeServer>> Start(
      const std::string& host_port, Pages pages);
  // The same, on an address that was taken before (Bind).
  static absl::StatusOr<std::unique_ptr<ScrapeServer>> Start(Listener listener,
                                                             Pages pages);
  // Ends at once, whatever is in flight.
  ~ScrapeServer();

  // The port that is listened on.
  int port() const { return listener_.port; }

 private:
  using Clock = ScrapeConnection::Clock;
  using Connections = std::list<ScrapeConnection>;

  ScrapeServer(Listener listener, Pages pages);
  void Run();
  // Polls until something happens; false if it is the end.
  bool Wait();
  void AcceptFrom(const Descriptor& socket);
  bool MakeRoom();
  void Refill();

  const Listener listener_;
  const Pages pages_;
  const WakeUp end_;

  // The thread's own.
  Connections connections_;  // the oldest first
  std::array<Descriptor, kReserve> reserve_;
  Clock::time_point accept_again_;
  std::vector<const Descriptor*> ready_listeners_;
  std::vector<Connections::iterator> ready_;

  std::thread thread_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_METRICS_SCRAPE_SERVER_H_
