#ifndef STEADYSTATE_CLIENT_LOAD_PROMETHEUS_TEXT_H_
#define STEADYSTATE_CLIENT_LOAD_PROMETHEUS_TEXT_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace steadystate::client {

// The values of a metrics page in Prometheus' text format. Thread-compatible.
class MetricsPage {
 public:
  // Lines that are no samples are passed over, so any text may be given.
  explicit MetricsPage(absl::string_view text);

  // The sum of the samples of a name, of all labels; nothing if there is none.
  std::optional<double> Sum(absl::string_view name) const;

  // How many samples of a histogram are at most each bound, of those whose
  // label `label` is `value`: by rising bound, the last one infinite.
  std::map<double, double> Buckets(absl::string_view name,
                                   absl::string_view label,
                                   absl::string_view value) const;

  // The values of a label of a name, each once.
  std::vector<std::string> LabelValues(absl::string_view name,
                                       absl::string_view label) const;

 private:
  struct Sample {
    std::map<std::string, std::string> labels;
    double value = 0;
  };

  void ReadLine(absl::string_view line);

  std::multimap<std::string, Sample, std::less<>> samples_;
};

// The quantile of what was added to a histogram between two looks at it, evenly
// spread within a bucket; the lower bound of the last one if it is there, and
// nothing if nothing was added. REQUIRES: 0 <= quantile <= 1.
std::optional<double> QuantileBetween(const std::map<double, double>& before,
                                      const std::map<double, double>& after,
                                      double quantile);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_PROMETHEUS_TEXT_H_
