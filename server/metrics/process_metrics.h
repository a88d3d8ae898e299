#ifndef STEADYSTATE_SERVER_METRICS_PROCESS_METRICS_H_
#define STEADYSTATE_SERVER_METRICS_PROCESS_METRICS_H_

#include <vector>

#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"

namespace steadystate {

// The process_* metrics, read from /proc when they are scraped. Thread-safe.
class ProcessMetrics final : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_METRICS_PROCESS_METRICS_H_
