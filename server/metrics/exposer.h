#ifndef STEADYSTATE_SERVER_METRICS_EXPOSER_H_
#define STEADYSTATE_SERVER_METRICS_EXPOSER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/metrics/metrics.h"

namespace steadystate {

class ScrapeServer;

// The text exposition of everything that is collected: of a Metrics, of its
// collectables(). Thread-safe.
std::string Exposition(
    const std::vector<std::shared_ptr<prometheus::Collectable>>& collectables);

// Serves http://HOST:PORT/metrics for Prometheus while it lives.
class Exposer {
 public:
  // `host_port` is "127.0.0.1:9464"; port 0 picks a free one. INVALID_ARGUMENT
  // for malformed addresses, UNAVAILABLE if the port cannot be had, the message
  // naming it.
  static absl::StatusOr<std::unique_ptr<Exposer>> Start(
      const std::string& host_port, const Metrics& metrics);
  ~Exposer();

  // The port that is listened on.
  int port() const;

 private:
  explicit Exposer(std::unique_ptr<ScrapeServer> server);
  const std::unique_ptr<ScrapeServer> server_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_METRICS_EXPOSER_H_
