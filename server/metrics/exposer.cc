#include "server/metrics/exposer.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "prometheus/exposer.h"
#include "server/base/mutex.h"

namespace steadystate {
namespace {

bool HasPort(absl::string_view host_port) {
  const size_t colon = host_port.rfind(':');
  int port = 0;
  return colon != absl::string_view::npos && colon > 0 &&
         absl::SimpleAtoi(host_port.substr(colon + 1), &port) && port >= 0 &&
         port <= 65535;
}

// Begins a connection to a port of this machine, without waiting for it.
void Knock(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* address = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints,
                  &address) != 0) {
    return;
  }
  const int knocker =
      socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (knocker >= 0) {
    connect(knocker, address->ai_addr, address->ai_addrlen);
    close(knocker);
  }
  freeaddrinfo(address);
}

// The host of HOST:PORT, less the brackets around an IPv6 address.
std::string HostOf(const std::string& host_port) {
  std::string host = host_port.substr(0, host_port.rfind(':'));
  if (host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return host;
}

}  // namespace

struct Exposer::Server {
  std::string host;
  // The exposer keeps weak pointers only: these keep alive what it scrapes.
  std::vector<std::shared_ptr<prometheus::Collectable>> collectables;
  std::unique_ptr<prometheus::Exposer> exposer;
};

Exposer::Exposer(std::unique_ptr<Server> server) : server_(std::move(server)) {}

// The HTTP server below looks whether it shall end when somebody connects, else
// only every two seconds.
Exposer::~Exposer() {
  const int port = this->port();
  Mutex mutex;
  CondVar has_ended;
  bool ended = false;
  std::thread knocking([&] {
    MutexLock lock(mutex);
    while (!ended) {
      Knock(server_->host, port);
      has_ended.WaitFor(mutex, std::chrono::milliseconds(5));
    }
  });
  server_->exposer.reset();
  {
    MutexLock lock(mutex);
    ended = true;
  }
  has_ended.SignalAll();
  knocking.join();
}

absl::StatusOr<std::unique_ptr<Exposer>> Exposer::Start(
    const std::string& host_port, const Metrics& metrics) {
  if (!HasPort(host_port)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", host_port, "' is not HOST:PORT with a port of 0 to ",
                     "65535, for instance 127.0.0.1:9464"));
  }
  auto server = std::make_unique<Server>();
  server->host = HostOf(host_port);
  server->collectables = metrics.collectables();
  try {
    server->exposer = std::make_unique<prometheus::Exposer>(host_port);
    for (const auto& collectable : server->collectables) {
      server->exposer->RegisterCollectable(collectable, "/metrics");
    }
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        absl::StrCat("cannot serve metrics on ", host_port,
                     ": the port is taken or not ours (", error.what(), ")"));
  }
  return std::unique_ptr<Exposer>(new Exposer(std::move(server)));
}

int Exposer::port() const {
  return server_->exposer->GetListeningPorts().front();
}

}  // namespace steadystate
