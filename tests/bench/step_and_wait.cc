#include "tests/bench/step_and_wait.h"

#include <optional>
#include <utility>

#include "server/base/mutex.h"

namespace steadystate::bench {

absl::StatusOr<StepDone> StepAndWait(Engine& engine, StepRequest request) {
  Mutex mutex;
  CondVar changed;
  std::optional<absl::StatusOr<StepDone>> done;
  engine.Step(std::move(request), [&](absl::StatusOr<StepResult> result) {
    const BenchClock::time_point now = BenchClock::now();
    MutexLock lock(mutex);
    if (result.ok()) {
      done = StepDone{*std::move(result), now};
    } else {
      done = result.status();
    }
    changed.SignalAll();
  });
  MutexLock lock(mutex);
  while (!done.has_value()) changed.Wait(mutex);
  return *std::move(done);
}

}  // namespace steadystate::bench
