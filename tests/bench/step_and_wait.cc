#include "tests/bench/step_and_wait.h"

#include <optional>
#include <utility>

#include "server/base/mutex.h"
#include "tests/testing/end_receiver.h"

namespace steadystate::bench {

absl::StatusOr<BenchClock::time_point> StepAndWait(Engine& engine,
                                                   StepRequest request) {
  Mutex mutex;
  CondVar changed;
  std::optional<absl::StatusOr<BenchClock::time_point>> done;
  SubmitThen(engine, std::move(request),
             [&](const absl::StatusOr<StepResult>& result) {
               const BenchClock::time_point now = BenchClock::now();
               MutexLock lock(mutex);
               if (result.ok()) {
                 done = now;
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
