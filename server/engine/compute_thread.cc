#include "server/engine/compute_thread.h"

#include <pthread.h>

#include <algorithm>
#include <optional>

namespace steadystate {

ComputeThread::ComputeThread(const EngineOptions& options, const Model& model,
                             const Clock& clock, Metrics& metrics, Desk& desk,
                             SessionKeeper& keeper)
    : options_(options),
      model_(model),
      clock_(clock),
      desk_(desk),
      heartbeat_nanoseconds_(
          absl::ToInt64Nanoseconds(clock.Now().since_zero())),
      turns_(desk, model, keeper, outbox_, clock, metrics,
             options.max_batch_rows, options.prefill_chunk_rows) {
  metrics.SetComputeThreads(options.threads);
  thread_ = std::thread([this] { Loop(); });
}

ComputeThread::~ComputeThread() {
  {
    const MutexLock lock(desk_.mutex);
    desk_.draining = true;
    desk_.stopping = true;
    desk_.WakeCompute();
  }
  thread_.join();
}

void ComputeThread::Loop() {
  pthread_setname_np(pthread_self(), "compute");  // as tools show it
  BatchRunner runner(model_, options_.max_batch_rows, options_.threads);
  while (turns_.TakeNotes(!prefill_.items.empty())) {
    Beat();
    outbox_.Send();
    turns_.AskReceivers();
    RunDecode(runner);
    RunPrefill(runner, turns_.finishing());
  }
  RunPrefill(runner, /*finishing=*/true);
  turns_.EndEverything();
}

void ComputeThread::RunDecode(BatchRunner& runner) {
  if (!turns_.FormBatch(BatchPhase::kDecode, decode_)) return;
  const SteadyTime start = clock_.Now();
  const BatchTimes times = runner.Run(decode_.items, [this] { Beat(); });
  decode_time_ = clock_.Now() - start;
  Complete(BatchPhase::kDecode, decode_, times, decode_time_);
  if (turns_.AwaitWritten(!prefill_.items.empty())) outbox_.Send();
}

// Some layers of the prompts' batch: to its end if nobody else wants to
// compute, else for the time that live streams can spare.
void ComputeThread::RunPrefill(BatchRunner& runner, bool finishing) {
  if (prefill_.items.empty()) {
    if (finishing || !turns_.FormBatch(BatchPhase::kPrefill, prefill_)) return;
    runner.BeginPrefill(prefill_.items);
    prefill_time_ = absl::ZeroDuration();
  }
  // Twice as long as a decode batch if that is longer. Prompts shall get on,
  // too: with two thirds of the time they run at more than half of their speed,
  // since the two push each other out of the caches.
  const SteadyTime start = clock_.Now();
  const SteadyTime end =
      start + std::max(options_.prefill_slice, 2 * decode_time_);
  const std::optional<BatchTimes> times = runner.ContinuePrefill([&] {
    const SteadyTime now = Beat();
    return turns_.OthersWait() && !finishing && now >= end;
  });
  prefill_time_ += clock_.Now() - start;
  if (times.has_value()) {
    Complete(BatchPhase::kPrefill, prefill_, *times, prefill_time_);
  }
}

// Notes that the thread moves: a batch of many layers may take long. Those
// whose answers the log has by now need not wait for it either.
SteadyTime ComputeThread::Beat() {
  const SteadyTime now = clock_.Now();
  heartbeat_nanoseconds_ = absl::ToInt64Nanoseconds(now.since_zero());
  if (turns_.TakeWritten()) outbox_.Send();
  return now;
}

// Lets the sessions absorb what the batch has computed, and answers.
void ComputeThread::Complete(BatchPhase phase, Batch& batch,
                             const BatchTimes& times, absl::Duration time) {
  turns_.Commit(phase, batch, times, time);
  outbox_.Send();
  batch.Clear();
}

}  // namespace steadystate
