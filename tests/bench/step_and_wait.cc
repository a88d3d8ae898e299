#include "tests/bench/step_and_wait.h"

#include <optional>
#include <utility>

#include "server/base/mutex.h"
#include "tests/testing/end_receiver.h"

namespace steadystate::bench {
namespace {

template <typename R>
absl::StatusOr<BenchClock::time_point> SubmitAndWait(Engine& engine,
                                                     R request) {
  Mutex mutex;
  CondVar changed;
  std::optional<absl::StatusOr<BenchClock::time_point>> done;
  SubmitThen(engine, std::move(request),
             [&](const absl::StatusOr<typename R::Summary>& result) {
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

}  // namespace

absl::StatusOr<BenchClock::time_point> StepAndWait(Engine& engine,
                                                   StepRequest request) {
  return SubmitAndWait(engine, std::move(request));
}

absl::Status WorkAndWait(Engine& engine, WorkRequest request) {
  return SubmitAndWait(engine, std::move(request)).status();
}

}  // namespace steadystate::bench
