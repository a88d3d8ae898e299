#ifndef STEADYSTATE_TESTS_SERVER_ENGINE_SIMULATION_MACHINE_H_
#define STEADYSTATE_TESTS_SERVER_ENGINE_SIMULATION_MACHINE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "server/engine/engine.h"
#include "server/metrics/metrics.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/testing/manual_clock.h"
#include "tests/testing/memory_store.h"

namespace steadystate {

// A disk, a clock, and the process that has them: an engine, which ends and
// begins anew. Thread-compatible.
class Machine {
 public:
  Machine(const EngineOptions& options, std::shared_ptr<const Model> model);

  Engine& engine() { return *engine_; }
  MemoryStore& store() { return *store_; }
  ManualClock& clock() { return clock_; }

  // As EngineHarness's.
  double Metric(const std::vector<std::string>& parts) const;

  // Statuses are let go of when the engine's threads are gone: ThreadSanitizer
  // does not see how Abseil counts who shares one.
  void Keep(std::shared_ptr<const void> answer) {
    kept_.push_back(std::move(answer));
  }

  // What a process finds that begins now: the present one goes on.
  std::unique_ptr<MemoryStore> CopyOfDisk();
  // Another process takes the place of this one, which leaves the disk as it is
  // or, where there is one, `disk`.
  void Restart(std::unique_ptr<MemoryStore> disk = nullptr);

 private:
  void Start();

  const EngineOptions options_;
  const std::shared_ptr<const Model> model_;
  ManualClock clock_;
  std::unique_ptr<MemoryStore> store_;
  std::unique_ptr<Metrics> metrics_;
  std::vector<std::shared_ptr<const void>> kept_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_SERVER_ENGINE_SIMULATION_MACHINE_H_
