#include "server/metrics/metrics.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/metrics/families.h"

namespace steadystate {
namespace {

// What a histogram is told. Two threads' readings of a clock may be noted in
// another order than they were taken, and a sum that shrinks is no counter.
double Seconds(absl::Duration duration) {
  return std::max(absl::ToDoubleSeconds(duration), 0.0);
}

template <typename Enum>
size_t Index(Enum value) {
  return static_cast<size_t>(value);
}

}  // namespace

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

void Metrics::SetUnusable(size_t other_numerics, size_t corrupt) {
  families_->unusable[0]->Set(static_cast<double>(other_numerics));
  families_->unusable[1]->Set(static_cast<double>(corrupt));
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

uint64_t Metrics::CountBatches() const {
  return families_->batch_size[0]->Collect().histogram.sample_count;
}

void Metrics::Tokens(TokenKind kind, uint64_t count) {
  families_->tokens[Index(kind)]->Increment(static_cast<double>(count));
}

void Metrics::PrefixAsked(PrefixReuse result, uint64_t tokens) {
  families_->prefixes[Index(result)]->Increment();
  families_->prefix_tokens[0]->Increment(static_cast<double>(tokens));
}

void Metrics::Generated(FinishReason reason, uint64_t prompt_tokens,
                        uint64_t generated_tokens) {
  families_->generations[Index(reason)]->Increment();
  families_->prompt_length[0]->Observe(static_cast<double>(prompt_tokens));
  families_->generation_length[0]->Observe(
      static_cast<double>(generated_tokens));
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
