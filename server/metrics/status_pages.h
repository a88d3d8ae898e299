#ifndef STEADYSTATE_SERVER_METRICS_STATUS_PAGES_H_
#define STEADYSTATE_SERVER_METRICS_STATUS_PAGES_H_

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "server/base/mutex.h"
#include "server/metrics/health.h"
#include "server/metrics/metrics.h"
#include "server/metrics/scrape_server.h"

namespace steadystate {

// What people, orchestrators and Prometheus find by HTTP: /metrics; /healthz,
// for whoever would restart a server that is stuck; /readyz, for whoever sends
// it requests; and / with links to them. Answers from the process's first
// moments on, when there is nothing yet to measure. Thread-safe.
class StatusPages {
 public:
  // From now on /metrics has what `metrics` counts. Shares it.
  void SetMetrics(const Metrics& metrics) ABSL_LOCKS_EXCLUDED(mutex_);

  // From now on `health` is asked, until then it is kLoading. It is called on
  // any thread, and must not block.
  void SetHealth(std::function<ServerHealth()> health)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The page at `path`, made now; nothing where there is none.
  std::optional<Page> Get(absl::string_view path) const
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  Page MetricsPage() const ABSL_LOCKS_EXCLUDED(mutex_);
  ServerHealth health() const ABSL_LOCKS_EXCLUDED(mutex_);

  mutable Mutex mutex_;
  // Empty until there are metrics.
  std::vector<std::shared_ptr<prometheus::Collectable>> collectables_
      ABSL_GUARDED_BY(mutex_);
  std::function<ServerHealth()> health_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_METRICS_STATUS_PAGES_H_
