#ifndef STEADYSTATE_SERVER_METRICS_PROCESS_METRICS_H_
#define STEADYSTATE_SERVER_METRICS_PROCESS_METRICS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"

namespace steadystate {

// What is read when it is scraped: the process_* metrics from /proc, and how
// many lines the log has lost. Thread-safe.
class ProcessMetrics final : public prometheus::Collectable {
 public:
  explicit ProcessMetrics(absl::string_view model) : model_(model) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const std::string model_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_METRICS_PROCESS_METRICS_H_
