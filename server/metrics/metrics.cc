#include "server/metrics/metrics.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "server/base/error.h"
#include "server/base/version.h"
#include "server/metrics/process_metrics.h"
#include "server/metrics/table.h"

namespace steadystate {
namespace {

using Labels = std::map<std::string, std::string>;
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
    "other",
};
constexpr size_t kMethodCount = std::size(kMethods);
constexpr size_t kCodeCount = 17;  // canonical codes 0 to 16

// What a histogram is told. Two threads' readings of a clock may be noted in
// another order than they were taken, and a sum that shrinks is no counter.
double Seconds(absl::Duration duration) {
  return std::max(absl::ToDoubleSeconds(duration), 0.0);
}

size_t MethodIndex(absl::string_view method) {
  for (size_t i = 0; i + 1 < kMethodCount; ++i) {
    if (method == kMethods[i]) return i;
  }
  return kMethodCount - 1;
}

template <typename Enum>
size_t Index(Enum value) {
  return static_cast<size_t>(value);
}

}  // namespace

// Series by the index of their label value. Pointers are constant after
// construction, except for `durations`, which fills up as codes occur.
struct Metrics::Families {
  explicit Families(absl::string_view model_name);

  Labels With(Labels labels) const {
    labels.emplace("model", model);
    return labels;
  }
  const MetricRow& Row(MetricId id) const { return MetricTable()[Index(id)]; }

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

  const std::string model;
  const std::shared_ptr<prometheus::Registry> registry =
      std::make_shared<prometheus::Registry>();
  const ProcessMetrics process{model};

  std::vector<Gauge*> sessions, checkpoints, kept_prompts, drain, state_bytes,
      state_capacity, per_session, utilization, running, waiting, streams,
      connections, outbound, outbound_waiting, long_work, load_duration, ready,
      heartbeat_age, threads, session_watchers;
  std::vector<Counter*> created, ended, rejections, accepted, refused, cut,
      tokens, mismatches, replays, prefixes, prefix_tokens, nonfinite, forks,
      rewinds, slot_waits, hibernations, snapshot_bytes, store_failures,
      log_bytes, replayed_tokens, session_events;
  std::vector<Histogram*> lifetime, session_tokens, queue, first_token,
      inter_token, step, batch_size, batch_rows, wakes, snapshot_durations,
      log_syncs;
  std::array<std::array<Counter*, 2>, 2> cancellations{};
  std::map<std::string, Counter*, std::less<>> errors;
  prometheus::Family<Histogram>* duration_family = nullptr;
  std::array<std::array<std::atomic<Histogram*>, kCodeCount>, kMethodCount>
      durations{};
};

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
// be thousands. OK's are there from the start.
Histogram& Metrics::Families::Duration(size_t method, absl::StatusCode code) {
  const size_t index = std::min(Index(code), kCodeCount - 1);
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
  for (size_t i = 0; i < kMethodCount; ++i) Duration(i, absl::StatusCode::kOk);
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
  AddCancellations();
  AddNonFinite();
  load_duration = Gauges(kModelLoadDuration);
  ready = Gauges(kReady);
  heartbeat_age = Gauges(kHeartbeatAge);
  threads = Gauges(kComputeThreads);
  GaugeFamily(kBuildInfo).Add({{"version", kVersion}}).Set(1);
}

Metrics::Metrics(absl::string_view model)
    : families_(std::make_unique<Families>(model)) {}

Metrics::~Metrics() = default;

void Metrics::SessionCreated() { families_->created[0]->Increment(); }

void Metrics::SessionEnded(SessionEnd reason, absl::Duration lifetime,
                           uint64_t tokens) {
  families_->ended[Index(reason)]->Increment();
  families_->lifetime[0]->Observe(Seconds(lifetime));
  families_->session_tokens[0]->Observe(static_cast<double>(tokens));
}

void Metrics::SessionEventHappened(SessionEventKind kind) {
  families_->session_events[Index(kind)]->Increment();
}

void Metrics::SetSessionWatchers(size_t open) {
  families_->session_watchers[0]->Set(static_cast<double>(open));
}

void Metrics::SetSessions(size_t active, size_t idle, size_t hibernated) {
  families_->sessions[0]->Set(static_cast<double>(active));
  families_->sessions[1]->Set(static_cast<double>(idle));
  families_->sessions[2]->Set(static_cast<double>(hibernated));
}

void Metrics::SetCheckpoints(size_t in_memory, size_t stored) {
  families_->checkpoints[0]->Set(static_cast<double>(in_memory));
  families_->checkpoints[1]->Set(static_cast<double>(stored));
}

void Metrics::SetKeptPrompts(size_t in_memory, size_t stored) {
  families_->kept_prompts[0]->Set(static_cast<double>(in_memory));
  families_->kept_prompts[1]->Set(static_cast<double>(stored));
}

void Metrics::Forked() { families_->forks[0]->Increment(); }
void Metrics::Rewound() { families_->rewinds[0]->Increment(); }
void Metrics::SlotAwaited() { families_->slot_waits[0]->Increment(); }

void Metrics::SetDrainEstimate(absl::Duration time) {
  families_->drain[0]->Set(Seconds(time));
}

void Metrics::Snapshot(SnapshotUse use, absl::Duration time, uint64_t bytes) {
  families_->snapshot_durations[Index(use)]->Observe(Seconds(time));
  families_->snapshot_bytes[Index(use)]->Increment(static_cast<double>(bytes));
}

void Metrics::Logged(uint64_t bytes) {
  families_->log_bytes[0]->Increment(static_cast<double>(bytes));
}

void Metrics::LogSynced(absl::Duration time) {
  families_->log_syncs[0]->Observe(Seconds(time));
}

void Metrics::ReplayedTokens(uint64_t tokens) {
  families_->replayed_tokens[0]->Increment(static_cast<double>(tokens));
}

void Metrics::StoreFailed(StoreFailure kind) {
  families_->store_failures[Index(kind)]->Increment();
}

void Metrics::Hibernated() { families_->hibernations[0]->Increment(); }

void Metrics::Woken(absl::Duration waited) {
  families_->wakes[0]->Observe(Seconds(waited));
}

void Metrics::SetStateBytes(uint64_t used, uint64_t capacity,
                            uint64_t per_session) {
  families_->state_bytes[0]->Set(static_cast<double>(used));
  families_->state_capacity[0]->Set(static_cast<double>(capacity));
  families_->per_session[0]->Set(static_cast<double>(per_session));
  families_->utilization[0]->Set(capacity == 0
                                     ? 0
                                     : static_cast<double>(used) /
                                           static_cast<double>(capacity));
}

void Metrics::Rejected(Rejection reason) {
  families_->rejections[Index(reason)]->Increment();
}

void Metrics::SetRequests(size_t running, size_t waiting) {
  families_->running[0]->Set(static_cast<double>(running));
  families_->waiting[0]->Set(static_cast<double>(waiting));
}

void Metrics::RequestFinished(absl::string_view method, absl::StatusCode code,
                              absl::Duration duration) {
  families_->Duration(MethodIndex(method), code).Observe(Seconds(duration));
}

void Metrics::AddStreams(int delta) { families_->streams[0]->Increment(delta); }

void Metrics::SetConnections(size_t open) {
  families_->connections[0]->Set(static_cast<double>(open));
}

void Metrics::ConnectionAccepted() { families_->accepted[0]->Increment(); }

void Metrics::ConnectionRefused(ConnectionRefusal reason) {
  families_->refused[Index(reason)]->Increment();
}

void Metrics::ConnectionWasCut(ConnectionCut reason) {
  families_->cut[Index(reason)]->Increment();
}

void Metrics::ErrorAnswered(absl::string_view reason) {
  auto& errors = families_->errors;
  auto found = errors.find(std::string(reason));
  if (found == errors.end()) found = errors.find("OTHER");
  found->second->Increment();
}

void Metrics::Queued(BatchPhase phase, absl::Duration waited) {
  families_->queue[Index(phase)]->Observe(Seconds(waited));
}

void Metrics::TimeToFirstToken(absl::Duration time) {
  families_->first_token[0]->Observe(Seconds(time));
}

void Metrics::InterTokenLatency(absl::Duration time) {
  families_->inter_token[0]->Observe(Seconds(time));
}

void Metrics::StepDuration(StepPhase phase, absl::Duration time) {
  families_->step[Index(phase)]->Observe(Seconds(time));
}

void Metrics::Batch(size_t segments, size_t rows) {
  families_->batch_size[0]->Observe(static_cast<double>(segments));
  families_->batch_rows[0]->Observe(static_cast<double>(rows));
}

void Metrics::Tokens(TokenKind kind, uint64_t count) {
  families_->tokens[Index(kind)]->Increment(static_cast<double>(count));
}

void Metrics::PrefixAsked(PrefixReuse result, uint64_t tokens) {
  families_->prefixes[Index(result)]->Increment();
  families_->prefix_tokens[0]->Increment(static_cast<double>(tokens));
}

void Metrics::Replayed() { families_->replays[0]->Increment(); }
void Metrics::PositionMismatch() { families_->mismatches[0]->Increment(); }

void Metrics::Cancelled(CancelStage stage, CancelSource source) {
  families_->cancellations[Index(stage)][Index(source)]->Increment();
}

void Metrics::NonFiniteState(NonFinite result) {
  families_->nonfinite[Index(result)]->Increment();
}

void Metrics::SetOutbound(uint64_t bytes, size_t waiting) {
  families_->outbound[0]->Set(static_cast<double>(bytes));
  families_->outbound_waiting[0]->Set(static_cast<double>(waiting));
}

void Metrics::SetLongWorkWaiting(LongWork kind, size_t waiting) {
  families_->long_work[Index(kind)]->Set(static_cast<double>(waiting));
}

void Metrics::SetModelInfo(const ModelInfoLabels& labels) {
  families_->GaugeFamily(MetricId::kModelInfo)
      .Add(families_->With({{"fingerprint", labels.fingerprint},
                            {"weight_dtype", labels.weight_dtype},
                            {"state_dtype", labels.state_dtype},
                            {"isa", labels.isa},
                            {"kernel_target", labels.kernel_target},
                            {"onednn_version", labels.onednn_version}}))
      .Set(1);
}

void Metrics::SetModelLoadDuration(absl::Duration time) {
  families_->load_duration[0]->Set(absl::ToDoubleSeconds(time));
}

void Metrics::SetReady(bool ready) { families_->ready[0]->Set(ready ? 1 : 0); }

void Metrics::SetHeartbeatAge(absl::Duration age) {
  families_->heartbeat_age[0]->Set(Seconds(age));
}

void Metrics::SetComputeThreads(size_t threads) {
  families_->threads[0]->Set(static_cast<double>(threads));
}

std::vector<std::shared_ptr<prometheus::Collectable>> Metrics::collectables()
    const {
  return {families_->registry,
          std::shared_ptr<prometheus::Collectable>(
              families_, const_cast<ProcessMetrics*>(&families_->process))};
}

}  // namespace steadystate
