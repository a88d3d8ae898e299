#ifndef STEADYSTATE_SERVER_METRICS_FAMILIES_H_
#define STEADYSTATE_SERVER_METRICS_FAMILIES_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "server/metrics/metrics.h"
#include "server/metrics/process_metrics.h"
#include "server/metrics/table.h"

namespace steadystate {

// RPC methods that have series of their own, and one for all others.
inline constexpr size_t kMethodCount = 33;
inline constexpr size_t kCodeCount = 17;  // canonical codes 0 to 16

// Which of them it is, by its full name.
size_t MethodIndex(absl::string_view method);

// Series by the index of their label value. Pointers are constant after
// construction, except for `durations`, which fills up as codes occur.
struct Metrics::Families {
  using Counter = prometheus::Counter;
  using Gauge = prometheus::Gauge;
  using Histogram = prometheus::Histogram;
  using Labels = std::map<std::string, std::string>;

  explicit Families(absl::string_view model_name);

  Labels With(Labels labels) const {
    labels.emplace("model", model);
    return labels;
  }
  const MetricRow& Row(MetricId id) const {
    return MetricTable()[static_cast<size_t>(id)];
  }

  prometheus::Family<Counter>& CounterFamily(MetricId id) {
    return prometheus::BuildCounter()
        .Name(Row(id).name)
        .Help(Row(id).help)
        .Register(*registry);
  }
  prometheus::Family<Gauge>& GaugeFamily(MetricId id) {
    return prometheus::BuildGauge()
        .Name(Row(id).name)
        .Help(Row(id).help)
        .Register(*registry);
  }
  prometheus::Family<Histogram>& HistogramFamily(MetricId id) {
    return prometheus::BuildHistogram()
        .Name(Row(id).name)
        .Help(Row(id).help)
        .Register(*registry);
  }

  // One series for each value of the label, or a single one without label.
  std::vector<Counter*> Counters(MetricId id, const char* label = nullptr,
                                 std::span<const char* const> values = {});
  std::vector<Gauge*> Gauges(MetricId id, const char* label = nullptr,
                             std::span<const char* const> values = {});
  std::vector<Histogram*> Histograms(MetricId id, const char* label = nullptr,
                                     std::span<const char* const> values = {});
  Histogram& Duration(size_t method, absl::StatusCode code);
  void AddErrorReasons();
  void AddCancellations();
  void AddSessions();
  void AddStore();
  void AddNonFinite();
  void AddSessionEvents();
  void AddGenerations();

  const std::string model;
  const std::shared_ptr<prometheus::Registry> registry =
      std::make_shared<prometheus::Registry>();
  const ProcessMetrics process{model};

  std::vector<Gauge*> sessions, checkpoints, kept_prompts, unusable, drain,
      state_bytes, state_capacity, per_session, utilization, running, waiting,
      streams, connections, outbound, outbound_waiting, long_work,
      load_duration, ready, heartbeat_age, threads, session_watchers;
  std::vector<Counter*> created, ended, rejections, accepted, refused, cut,
      tokens, mismatches, replays, prefixes, prefix_tokens, generations,
      nonfinite, forks, rewinds, slot_waits, hibernations, snapshot_bytes,
      store_failures, log_bytes, replayed_tokens, session_events;
  std::vector<Histogram*> lifetime, session_tokens, queue, first_token,
      inter_token, prompt_length, generation_length, step, batch_size,
      batch_rows, wakes, snapshot_durations, log_syncs;
  std::array<std::array<Counter*, 2>, 2> cancellations{};
  std::map<std::string, Counter*, std::less<>> errors;
  prometheus::Family<Histogram>* duration_family = nullptr;
  std::array<std::array<std::atomic<Histogram*>, kCodeCount>, kMethodCount>
      durations{};
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_METRICS_FAMILIES_H_
