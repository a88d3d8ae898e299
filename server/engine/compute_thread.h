#ifndef STEADYSTATE_SERVER_ENGINE_COMPUTE_THREAD_H_
#define STEADYSTATE_SERVER_ENGINE_COMPUTE_THREAD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/engine/batch_runner.h"
#include "server/engine/desk.h"
#include "server/engine/engine.h"
#include "server/engine/outbox.h"
#include "server/engine/turns.h"
#include "server/metrics/metrics.h"
#include "server/model/model.h"
#include "server/session/session_keeper.h"

namespace steadystate {

// The thread that computes. Again and again it takes up what callers noted,
// runs one decode batch, then some layers of a batch of prompts, commits what
// is complete and answers. Taking notes, forming a batch and committing one
// each take the desk's lock once. Runs as long as the object lives.
class ComputeThread {
 public:
  // All of them outlive it.
  ComputeThread(const EngineOptions& options, const Model& model,
                const Clock& clock, Metrics& metrics, Desk& desk,
                SessionKeeper& keeper);
  // Ends the thread, which answers whatever has not finished.
  ~ComputeThread();

  // When it last moved.
  SteadyTime heartbeat() const {
    return SteadyTime::FromZero(
        absl::Nanoseconds(heartbeat_nanoseconds_.load()));
  }

 private:
  void Loop();
  void RunDecode(BatchRunner& runner);
  void RunPrefill(BatchRunner& runner, bool finishing);
  void Complete(BatchPhase phase, Batch& batch, const BatchTimes& times,
                absl::Duration time);
  SteadyTime Beat();

  const EngineOptions& options_;
  const Model& model_;
  const Clock& clock_;
  Desk& desk_;
  std::atomic<int64_t> heartbeat_nanoseconds_;

  // Confined to the thread.
  Outbox outbox_;
  Turns turns_;
  Batch decode_;                 // empty when none runs
  Batch prefill_;                // may be left between two layers
  absl::Duration decode_time_;   // of the last decode batch
  absl::Duration prefill_time_;  // of the batch of prompts, so far

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_COMPUTE_THREAD_H_
