#include "tests/server/engine/simulation/machine.h"

#include <cstdlib>
#include <utility>

#include "gtest/gtest.h"

namespace steadystate {

Machine::Machine(const EngineOptions& options,
                 std::shared_ptr<const Model> model)
    : options_(options), model_(std::move(model)) {
  store_ = std::make_unique<MemoryStore>();
  store_->MayLosePuts();
  Start();
}

void Machine::Start() {
  metrics_ = std::make_unique<Metrics>("tiny");
  auto engine =
      Engine::Create(options_, model_, clock_, *metrics_, store_.get());
  if (!engine.ok()) {
    ADD_FAILURE() << engine.status();
    std::abort();
  }
  engine_ = std::move(*engine);
}

double Machine::Metric(const std::vector<std::string>& parts) const {
  return SumOfSeries(*metrics_, parts);
}

std::unique_ptr<MemoryStore> Machine::CopyOfDisk() {
  auto copy = std::make_unique<MemoryStore>();
  store_->CopyTo(*copy);
  return copy;
}

void Machine::Restart(std::unique_ptr<MemoryStore> disk) {
  engine_.reset();
  kept_.clear();
  if (disk != nullptr) store_ = std::move(disk);
  Start();
}

}  // namespace steadystate
