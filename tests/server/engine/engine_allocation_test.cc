// Goal: once warm, the engine computes a token of a session without allocating.
// Method: every operator new of the program is counted while sessions generate
// side by side.
#include <cstddef>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/testing/allocation_counter.h"

namespace steadystate {
namespace {

// Counts the tokens, and the allocations between two of them.
class CountingSink : public GenerateSink {
 public:
  CountingSink(size_t first, size_t last) : first_(first), last_(last) {}

  bool Ready() override { return true; }
  void OnItem(GeneratedToken) override {
    ++items_;
    if (items_ == first_) before_ = CountAllocations();
    if (items_ == last_) between_ = CountAllocations() - before_;
  }
  void OnDone(absl::StatusOr<GenerateSummary> summary) override {
    EXPECT_TRUE(summary.ok()) << summary.status();
    done_.Set(between_);
  }

  // Waits for the end.
  uint64_t between() const { return done_.Get(); }

 private:
  const size_t first_;
  const size_t last_;
  size_t items_ = 0;
  uint64_t before_ = 0;
  uint64_t between_ = 0;
  Future<uint64_t> done_;
};

TEST(EngineAllocationTest, AWarmTokenAllocatesNothing) {
  constexpr size_t kWarm = 50;
  constexpr size_t kCounted = 500;
  for (const size_t threads : {1u, 2u}) {
    EngineOptions options;
    options.threads = threads;
    EngineHarness harness(options);
    std::vector<std::shared_ptr<CountingSink>> sinks;
    {
      ComputeHold hold(harness);
      for (size_t i = 0; i < 5; ++i) {
        sinks.push_back(
            std::make_shared<CountingSink>(kWarm, kWarm + kCounted));
        GenerateRequest request =
            GenerateOf(harness.CreateSession(), {1}, kWarm + kCounted + 1);
        harness.engine().Generate(request, sinks.back());
      }
    }
    for (const auto& sink : sinks) {
      EXPECT_EQ(sink->between(), 0u) << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace steadystate
