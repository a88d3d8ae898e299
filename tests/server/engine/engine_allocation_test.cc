// Goal: once warm, the engine computes a token of a session without allocating,
// and steps that are submitted together cost no allocation each.
// Method: every operator new of the program is counted while sessions generate
// side by side, and while they step.
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/testing/allocation_counter.h"

namespace steadystate::engine_allocation_test {
namespace {

// Counts the tokens, and the allocations between two of them.
class CountingReceiver : public Receiver<GenerateRequest> {
 public:
  CountingReceiver(size_t first, size_t last) : first_(first), last_(last) {}

  void OnAnswers(std::span<const Answer<GenerateRequest>> answers) override {
    const Answer<GenerateRequest>& answer = answers.front();
    items_ += answer.items.size();
    if (items_ == first_) before_ = CountAllocations();
    if (items_ == last_) between_ = CountAllocations() - before_;
    if (answer.end == nullptr) return;
    EXPECT_TRUE(answer.end->ok()) << answer.end->status();
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
    std::vector<std::shared_ptr<CountingReceiver>> receivers;
    {
      ComputeHold hold(harness);
      for (size_t i = 0; i < 5; ++i) {
        receivers.push_back(
            std::make_shared<CountingReceiver>(kWarm, kWarm + kCounted));
        GenerateRequest request =
            GenerateOf(harness.CreateSession(), {1}, kWarm + kCounted + 1);
        ASSERT_TRUE(harness.engine().Submit(request, receivers.back()).ok());
      }
    }
    for (const auto& receiver : receivers) {
      EXPECT_EQ(receiver->between(), 0u) << threads << " threads";
    }
  }
}

// Waits for all steps of a round.
class WaitingReceiver final : public Receiver<StepRequest> {
 public:
  void OnAnswers(std::span<const Answer<StepRequest>> answers) override {
    const MutexLock lock(mutex_);
    for (const Answer<StepRequest>& answer : answers) {
      EXPECT_TRUE(answer.end->ok()) << answer.end->status();
      EXPECT_TRUE((*answer.end)->sampled_token.has_value());
      ++answered_;
    }
  }
  void OnRoundEnd() override {
    const MutexLock lock(mutex_);
    ended_ = true;
    changed_.SignalAll();
  }

  void Await(size_t steps) {
    const MutexLock lock(mutex_);
    while (answered_ < steps || !ended_) {
      ASSERT_TRUE(changed_.WaitFor(mutex_, std::chrono::minutes(1)));
    }
    answered_ = 0;
    ended_ = false;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  size_t answered_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

// Allocations of so many rounds of a step for each of `sessions` sessions.
uint64_t AllocationsOfRounds(size_t sessions, size_t rounds) {
  const auto receiver = std::make_shared<WaitingReceiver>();
  EngineHarness harness;
  std::vector<std::string> names;
  for (size_t i = 0; i < sessions; ++i)
    names.push_back(harness.CreateSession());
  std::vector<Submission<StepRequest>> steps(sessions);
  uint64_t before = 0;
  constexpr size_t kWarm = 20;
  for (size_t round = 0; round < kWarm + rounds; ++round) {
    if (round == kWarm) before = CountAllocations();
    for (size_t i = 0; i < sessions; ++i) {
      StepRequest& request = steps[i].request;
      request.session = names[i];
      request.writer = 1;
      request.tokens.assign(1, static_cast<int32_t>(i));
      if (!request.outputs.sampling) request.outputs.sampling.emplace();
      steps[i].receiver = receiver;
      steps[i].tag = i;
    }
    harness.engine().Submit(std::span(steps));
    receiver->Await(sessions);
  }
  return CountAllocations() - before;
}

TEST(EngineAllocationTest, StepsThatComeTogetherAllocateAsOneDoes) {
  constexpr size_t kRounds = 50;
  const uint64_t one = AllocationsOfRounds(1, kRounds);
  EXPECT_EQ(AllocationsOfRounds(40, kRounds), one);
  EXPECT_LE(one, 2 * kRounds);  // two lists
}

}  // namespace
}  // namespace steadystate::engine_allocation_test
