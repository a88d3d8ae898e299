#include "server/metrics/process_metrics.h"

#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "server/base/logging.h"
#include "server/base/process.h"
#include "server/metrics/table.h"

namespace steadystate {
namespace {

std::string ReadProcFile(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The fields of /proc/self/stat after the command, which may hold blanks: the
// first is the state, number 3 in proc(5).
std::vector<double> StatFields() {
  const std::string stat = ReadProcFile("/proc/self/stat");
  const size_t end = stat.rfind(')');
  std::vector<double> fields;
  if (end == std::string::npos) return fields;
  for (absl::string_view word : absl::StrSplit(
           absl::string_view(stat).substr(end + 1), ' ', absl::SkipEmpty())) {
    double value = 0;
    if (!absl::SimpleAtod(word, &value)) value = 0;
    fields.push_back(value);
  }
  return fields;
}

// Field `number` of proc(5)'s numbering, or 0.
double Field(const std::vector<double>& fields, size_t number) {
  return number - 3 < fields.size() ? fields[number - 3] : 0;
}

double BootTime() {
  const std::string stat = ReadProcFile("/proc/stat");
  for (absl::string_view line : absl::StrSplit(stat, '\n')) {
    double value = 0;
    if (absl::ConsumePrefix(&line, "btime ") &&
        absl::SimpleAtod(line, &value)) {
      return value;
    }
  }
  return 0;
}

prometheus::MetricFamily Family(MetricId id, double value) {
  const MetricRow& row = MetricTable()[static_cast<size_t>(id)];
  prometheus::MetricFamily family;
  family.name = row.name;
  family.help = row.help;
  prometheus::ClientMetric metric;
  if (row.type == MetricType::kCounter) {
    family.type = prometheus::MetricType::Counter;
    metric.counter.value = value;
  } else {
    family.type = prometheus::MetricType::Gauge;
    metric.gauge.value = value;
  }
  family.metric.push_back(metric);
  return family;
}

}  // namespace

std::vector<prometheus::MetricFamily> ProcessMetrics::Collect() const {
  using enum MetricId;
  prometheus::MetricFamily log_lines =
      Family(kLogLinesDropped, static_cast<double>(DroppedLogLines()));
  log_lines.metric.front().label.push_back({"model", model_});
  const std::vector<double> stat = StatFields();
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  const auto page = static_cast<double>(sysconf(_SC_PAGESIZE));
  return {
      log_lines,
      Family(kProcessCpu, (Field(stat, 14) + Field(stat, 15)) / ticks),
      Family(kProcessResident, Field(stat, 24) * page),
      Family(kProcessVirtual, Field(stat, 23)),
      Family(kProcessOpenFds, static_cast<double>(OpenDescriptors())),
      Family(kProcessMaxFds, static_cast<double>(DescriptorLimit())),
      Family(kProcessThreads, Field(stat, 20)),
      Family(kProcessStartTime, BootTime() + Field(stat, 22) / ticks),
  };
}

}  // namespace steadystate
