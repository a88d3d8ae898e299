#include "server/metrics/exposer.h"

#include <utility>

#include "prometheus/collectable.h"
#include "prometheus/text_serializer.h"
#include "server/base/status_macros.h"
#include "server/metrics/scrape_server.h"

namespace steadystate {

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

Exposer::Exposer(std::unique_ptr<ScrapeServer> server)
    : server_(std::move(server)) {}

Exposer::~Exposer() = default;

absl::StatusOr<std::unique_ptr<Exposer>> Exposer::Start(
    const std::string& host_port, const Metrics& metrics) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      std::unique_ptr<ScrapeServer> server,
      ScrapeServer::Start(host_port, [collectables = metrics.collectables()] {
        return Exposition(collectables);
      }));
  return std::unique_ptr<Exposer>(new Exposer(std::move(server)));
}

int Exposer::port() const { return server_->port(); }

}  // namespace steadystate
