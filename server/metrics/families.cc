#include "server/metrics/families.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "server/base/error.h"
#include "server/base/version.h"

namespace steadystate {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;

// RPC methods by their full names; the last one stands for all others.
constexpr const char* kMethods[] = {
    "steadystate.v1.SessionService/CreateSession",
    "steadystate.v1.SessionService/GetSession",
    "steadystate.v1.SessionService/ListSessions",
    "steadystate.v1.SessionService/DeleteSession",
    "steadystate.v1.SessionService/ForkSession",
    "steadystate.v1.SessionService/RewindSession",
    "steadystate.v1.SessionService/UpdateSession",
    "steadystate.v1.SessionService/CreateCheckpoint",
    "steadystate.v1.SessionService/ListCheckpoints",
    "steadystate.v1.SessionService/DeleteCheckpoint",
    "steadystate.v1.SessionService/ExportSession",
    "steadystate.v1.SessionService/ImportSession",
    "steadystate.v1.SessionService/HibernateSession",
    "steadystate.v1.SessionService/WatchSessions",
    "steadystate.v1.GenerationService/Step",
    "steadystate.v1.GenerationService/StreamStep",
    "steadystate.v1.GenerationService/Generate",
    "steadystate.v1.GenerationService/Score",
    "steadystate.v1.GenerationService/Embed",
    "steadystate.v1.ModelService/ListModels",
    "steadystate.v1.ModelService/GetModel",
    "steadystate.v1.ModelService/Tokenize",
    "steadystate.v1.ModelService/Detokenize",
    "inference.GRPCInferenceService/ServerLive",
    "inference.GRPCInferenceService/ServerReady",
    "inference.GRPCInferenceService/ModelReady",
    "inference.GRPCInferenceService/ServerMetadata",
    "inference.GRPCInferenceService/ModelMetadata",
    "inference.GRPCInferenceService/ModelConfig",
    "inference.GRPCInferenceService/ModelStatistics",
    "inference.GRPCInferenceService/ModelInfer",
    "inference.GRPCInferenceService/ModelStreamInfer",
    "other",
};
static_assert(std::size(kMethods) == kMethodCount);

// Most servers are never asked in it: its series appear when it is used.
bool IsOfSecondProtocol(absl::string_view method) {
  return absl::StartsWith(method, "inference.");
}

}  // namespace

size_t MethodIndex(absl::string_view method) {
  for (size_t i = 0; i + 1 < kMethodCount; ++i) {
    if (method == kMethods[i]) return i;
  }
  return kMethodCount - 1;
}

std::vector<Counter*> Metrics::Families::Counters(
    MetricId id, const char* label, std::span<const char* const> values) {
  auto& family = CounterFamily(id);
  if (label == nullptr) return {&family.Add(With({}))};
  std::vector<Counter*> series;
  for (const char* value : values) {
    series.push_back(&family.Add(With({{label, value}})));
  }
  return series;
}

std::vector<Gauge*> Metrics::Families::Gauges(
    MetricId id, const char* label, std::span<const char* const> values) {
  auto& family = GaugeFamily(id);
  if (label == nullptr) return {&family.Add(With({}))};
  std::vector<Gauge*> series;
  for (const char* value : values) {
    series.push_back(&family.Add(With({{label, value}})));
  }
  return series;
}

std::vector<Histogram*> Metrics::Families::Histograms(
    MetricId id, const char* label, std::span<const char* const> values) {
  auto& family = HistogramFamily(id);
  const auto bounds = Row(id).buckets;
  const Histogram::BucketBoundaries buckets(bounds.begin(), bounds.end());
  if (label == nullptr) return {&family.Add(With({}), buckets)};
  std::vector<Histogram*> series;
  for (const char* value : values) {
    series.push_back(&family.Add(With({{label, value}}), buckets));
  }
  return series;
}

// A code's series appears with its first occurrence: all of them at once would
// be thousands. OK's are there from the start, but for the second protocol.
Histogram& Metrics::Families::Duration(size_t method, absl::StatusCode code) {
  const size_t index = std::min(static_cast<size_t>(code), kCodeCount - 1);
  std::atomic<Histogram*>& slot = durations[method][index];
  Histogram* series = slot.load(std::memory_order_acquire);
  if (series == nullptr) {
    const auto bounds = Row(MetricId::kRequestDuration).buckets;
    series = &duration_family->Add(
        With({{"method", kMethods[method]},
              {"code", absl::StatusCodeToString(
                           static_cast<absl::StatusCode>(index))}}),
        Histogram::BucketBoundaries(bounds.begin(), bounds.end()));
    slot.store(series, std::memory_order_release);
  }
  return *series;
}

void Metrics::Families::AddErrorReasons() {
  auto& family = CounterFamily(MetricId::kErrors);
  for (ErrorReason reason : AllErrorReasons()) {
    const std::string name(Name(reason));
    errors[name] = &family.Add(With({{"reason", name}}));
  }
  errors["OTHER"] = &family.Add(With({{"reason", "OTHER"}}));
}

void Metrics::Families::AddCancellations() {
  auto& family = CounterFamily(MetricId::kCancellations);
  constexpr const char* kStages[] = {"queued", "running"};
  constexpr const char* kSources[] = {"client", "deadline"};
  for (size_t stage = 0; stage < 2; ++stage) {
    for (size_t source = 0; source < 2; ++source) {
      cancellations[stage][source] = &family.Add(
          With({{"stage", kStages[stage]}, {"source", kSources[source]}}));
    }
  }
}

void Metrics::Families::AddSessions() {
  constexpr const char* kStates[] = {"active", "idle", "hibernated"};
  constexpr const char* kTiers[] = {"memory", "store"};
  constexpr const char* kEnds[] = {"deleted", "expired", "shutdown"};
  sessions = Gauges(MetricId::kSessions, "state", kStates);
  checkpoints = Gauges(MetricId::kCheckpoints, "tier", kTiers);
  kept_prompts = Gauges(MetricId::kKeptPrompts, "tier", kTiers);
  created = Counters(MetricId::kSessionsCreated);
  ended = Counters(MetricId::kSessionsEnded, "reason", kEnds);
  forks = Counters(MetricId::kForks);
  rewinds = Counters(MetricId::kRewinds);
}

void Metrics::Families::AddStore() {
  constexpr const char* kUses[] = {"read", "written"};
  constexpr const char* kOperations[] = {"read", "write", "log"};
  constexpr const char* kUnusables[] = {"numerics_mismatch",
                                        "snapshot_corrupt"};
  unusable = Gauges(MetricId::kUnusable, "reason", kUnusables);
  hibernations = Counters(MetricId::kHibernations);
  wakes = Histograms(MetricId::kWakeDuration);
  slot_waits = Counters(MetricId::kSlotWaits);
  drain = Gauges(MetricId::kDrainEstimate);
  snapshot_durations = Histograms(MetricId::kSnapshotDuration, "use", kUses);
  snapshot_bytes = Counters(MetricId::kSnapshotBytes, "use", kUses);
  log_bytes = Counters(MetricId::kLogBytes);
  log_syncs = Histograms(MetricId::kLogSyncDuration);
  replayed_tokens = Counters(MetricId::kReplayedTokens);
  store_failures =
      Counters(MetricId::kStoreFailuresTotal, "operation", kOperations);
}

void Metrics::Families::AddNonFinite() {
  constexpr const char* kResults[] = {"restored", "not_restored", "no_session"};
  nonfinite = Counters(MetricId::kStateNonFinite, "result", kResults);
}

void Metrics::Families::AddSessionEvents() {
  constexpr const char* kKinds[] = {"created",    "forked",  "imported",
                                    "hibernated", "evicted", "woken",
                                    "rewound",    "expired", "deleted"};
  session_events = Counters(MetricId::kSessionEvents, "kind", kKinds);
  session_watchers = Gauges(MetricId::kSessionWatchers);
}

void Metrics::Families::AddGenerations() {
  constexpr const char* kFinishReasons[] = {"stop_token", "stop_string",
                                            "length"};
  generations =
      Counters(MetricId::kGenerations, "finish_reason", kFinishReasons);
  prompt_length = Histograms(MetricId::kPromptLength);
  generation_length = Histograms(MetricId::kGenerationLength);
}

Metrics::Families::Families(absl::string_view model_name) : model(model_name) {
  constexpr const char* kTiers[] = {"memory"};
  constexpr const char* kRejections[] = {"state_budget", "queue_full",
                                         "draining"};
  constexpr const char* kRefusals[] = {
      "max_connections", "max_connections_per_peer", "descriptors"};
  constexpr const char* kPrefixResults[] = {"reused", "not_kept", "too_short",
                                            "session_not_new"};
  constexpr const char* kCuts[] = {"resets", "bytes", "unfinished"};
  constexpr const char* kLongWork[] = {"reading", "texts"};
  constexpr const char* kPhases[] = {"prefill", "decode"};
  constexpr const char* kParts[] = {"projection", "recurrence", "other",
                                    "sample"};
  constexpr const char* kKinds[] = {"prompt", "generated"};
  using enum MetricId;
  AddSessions();
  AddSessionEvents();
  AddStore();
  lifetime = Histograms(kSessionLifetime);
  session_tokens = Histograms(kSessionTokens);
  state_bytes = Gauges(kStateBytes, "tier", kTiers);
  state_capacity = Gauges(kStateCapacity, "tier", kTiers);
  per_session = Gauges(kStateBytesPerSession);
  utilization = Gauges(kStatePoolUtilization);
  rejections = Counters(kAdmissionRejections, "reason", kRejections);
  running = Gauges(kRequestsRunning);
  waiting = Gauges(kRequestsWaiting);
  duration_family = &HistogramFamily(kRequestDuration);
  for (size_t i = 0; i < kMethodCount; ++i) {
    if (!IsOfSecondProtocol(kMethods[i])) Duration(i, absl::StatusCode::kOk);
  }
  streams = Gauges(kGrpcStreams);
  connections = Gauges(kGrpcConnections);
  accepted = Counters(kGrpcConnectionsAccepted);
  refused = Counters(kGrpcConnectionsRefused, "reason", kRefusals);
  cut = Counters(kGrpcConnectionsCut, "reason", kCuts);
  outbound = Gauges(kOutboundBytes);
  outbound_waiting = Gauges(kOutboundWaiting);
  long_work = Gauges(kLongWorkWaiting, "kind", kLongWork);
  AddErrorReasons();
  queue = Histograms(kQueueDuration, "phase", kPhases);
  first_token = Histograms(kTimeToFirstToken);
  inter_token = Histograms(kInterTokenLatency);
  step = Histograms(kStepDuration, "phase", kParts);
  tokens = Counters(kTokens, "kind", kKinds);
  batch_size = Histograms(kBatchSize);
  batch_rows = Histograms(kBatchRows);
  mismatches = Counters(kPositionMismatches);
  replays = Counters(kReplays);
  prefixes = Counters(kPrefixes, "result", kPrefixResults);
  prefix_tokens = Counters(kPrefixTokens);
  AddGenerations();
  AddCancellations();
  AddNonFinite();
  load_duration = Gauges(kModelLoadDuration);
  ready = Gauges(kReady);
  heartbeat_age = Gauges(kHeartbeatAge);
  threads = Gauges(kComputeThreads);
  GaugeFamily(kBuildInfo).Add({{"version", kVersion}}).Set(1);
}

}  // namespace steadystate
