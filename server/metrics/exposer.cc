#include "server/metrics/exposer.h"

#include <exception>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "prometheus/exposer.h"

namespace steadystate {
namespace {

bool HasPort(absl::string_view host_port) {
  const size_t colon = host_port.rfind(':');
  int port = 0;
  return colon != absl::string_view::npos && colon > 0 &&
         absl::SimpleAtoi(host_port.substr(colon + 1), &port) && port >= 0 &&
         port <= 65535;
}

}  // namespace

struct Exposer::Server {
  // The exposer keeps weak pointers only: these keep alive what it scrapes.
  std::vector<std::shared_ptr<prometheus::Collectable>> collectables;
  std::unique_ptr<prometheus::Exposer> exposer;
};

Exposer::Exposer(std::unique_ptr<Server> server) : server_(std::move(server)) {}
Exposer::~Exposer() = default;

absl::StatusOr<std::unique_ptr<Exposer>> Exposer::Start(
    const std::string& host_port, const Metrics& metrics) {
  if (!HasPort(host_port)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", host_port, "' is not HOST:PORT with a port of 0 to ",
                     "65535, for instance 127.0.0.1:9464"));
  }
  auto server = std::make_unique<Server>();
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
