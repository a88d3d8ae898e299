// Goal: of 64 writers on one session at once each token is absorbed once, in an
// order that the answers tell; whoever comes while another one's requests are
// there is told so, and a request that is sent again is carried out once.
// Method: threads that each send steps as fast as they can, by writers of their
// own; some with ids and positions, some again, some cancelled. The answers in
// the order of their positions are fed to a session that nobody disturbs.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/base/error.h"
#include "server/base/mutex.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/testing/memory_store.h"

namespace steadystate::writers_test {
namespace {

constexpr size_t kWriters = 64;
constexpr size_t kSteps = 60;  // of each

// A step that was answered.
struct Told {
  std::vector<int32_t> tokens;
  int32_t sampled = 0;
};

// What one writer knows.
struct Counts {
  uint64_t carried_out = 0;
  uint64_t replayed = 0;
  uint64_t busy = 0;
  uint64_t mismatched = 0;
  uint64_t cancelled = 0;
};

class WritersTest : public testing::TestWithParam<Durability> {
 protected:
  WritersTest() : harness_(Options(), SharedTinyModel(), &store_) {
    harness_.CreateSession("s");
  }

  static EngineOptions Options() {
    EngineOptions options;
    options.durability = GetParam();
    return options;
  }

  static StepRequest Step(std::mt19937_64& random) {
    StepRequest request;
    request.session = "s";
    request.tokens = MakeTokens(1 + random() % 3, random());
    SamplingParams& sampling = request.outputs.sampling.emplace();
    sampling.seed = 3;
    return request;
  }

  // Sends one writer's steps. What it believes the position to be comes from
  // answers, its own and others'.
  void Write(size_t writer) {
    std::mt19937_64 random(writer);
    std::optional<StepRequest> before;
    for (size_t i = 0; i < kSteps; ++i) {
      StepRequest request = Step(random);
      const bool repeats = before.has_value() && random() % 4 == 0;
      if (repeats) {
        request = *before;
      } else if (random() % 2 == 0) {
        request.expected_position = latest_.load();
        request.request_id = absl::StrCat(writer, "-", i);
        before = request;
      }
      request.writer = harness_.engine().NewWriter();
      RequestId id = 0;
      const std::vector<int32_t> tokens = request.tokens;
      const StepFuture future = harness_.StepAsync(std::move(request), &id);
      if (random() % 8 == 0) harness_.engine().Cancel(id);
      Note(tokens, future.Get());
    }
  }

  // The last step of all, and its repeat.
  void WriteTwice() {
    std::mt19937_64 random(kWriters);
    StepRequest request = Step(random);
    request.expected_position = harness_.Position("s");
    request.request_id = "last";
    for (int i = 0; i < 2; ++i) {
      Note(request.tokens, harness_.StepAsync(request).Get());
    }
  }

  uint64_t busy() {
    const MutexLock lock(mutex_);
    return counts_.busy;
  }

  void Note(const std::vector<int32_t>& tokens,
            const absl::StatusOr<StepRecord>& answer) {
    const MutexLock lock(mutex_);
    if (!answer.ok()) {
      const ErrorReason reason = ReasonOf(answer.status());
      counts_.busy += reason == ErrorReason::kSessionBusy ? 1 : 0;
      counts_.mismatched += reason == ErrorReason::kPositionMismatch ? 1 : 0;
      counts_.cancelled += reason == ErrorReason::kCancelled ? 1 : 0;
      EXPECT_TRUE(reason == ErrorReason::kSessionBusy ||
                  reason == ErrorReason::kPositionMismatch ||
                  reason == ErrorReason::kCancelled)
          << answer.status();
      return;
    }
    latest_ = std::max(latest_.load(), answer->position);
    const auto [known, is_new] = told_.emplace(
        answer->position, Told{tokens, answer->sampled_token.value()});
    ++(answer->replayed ? counts_.replayed : counts_.carried_out);
    // What is told twice is told alike; only a replay is.
    EXPECT_TRUE(is_new || known->second.tokens == tokens);
    EXPECT_EQ(known->second.sampled, answer->sampled_token);
    if (!answer->replayed) carried_out_ += tokens.size();
  }

  MemoryStore store_;
  EngineHarness harness_;
  std::atomic<uint64_t> latest_ = 0;
  Mutex mutex_;
  std::map<uint64_t, Told> told_ ABSL_GUARDED_BY(mutex_);
  Counts counts_ ABSL_GUARDED_BY(mutex_);
  uint64_t carried_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

INSTANTIATE_TEST_SUITE_P(Durabilities, WritersTest,
                         testing::Values(Durability::kShutdown,
                                         Durability::kLog, Durability::kSync));

TEST_P(WritersTest, EachTokenCountsOnceInAnOrderThatTheAnswersTell) {
  std::vector<std::thread> writers;
  {
    // Nobody is answered before somebody has found the session in use.
    ComputeHold hold(harness_);
    for (size_t writer = 0; writer < kWriters; ++writer) {
      writers.emplace_back([this, writer] { Write(writer); });
    }
    while (busy() == 0) std::this_thread::yield();
  }
  for (std::thread& writer : writers) writer.join();
  WriteTwice();
  const MutexLock lock(mutex_);
  EXPECT_EQ(harness_.Position("s"), carried_out_);
  EXPECT_EQ(counts_.carried_out + counts_.replayed + counts_.busy +
                counts_.mismatched + counts_.cancelled,
            kWriters * kSteps + 2);
  EXPECT_GT(counts_.carried_out, 0u);
  EXPECT_GT(counts_.busy, 0u);
  EXPECT_GT(counts_.replayed, 0u);
  EngineHarness alone;
  alone.CreateSession("s");
  uint64_t position = 0;
  for (const auto& [end, told] : told_) {
    StepRequest request;
    request.session = "s";
    request.tokens = told.tokens;
    request.outputs.sampling.emplace().seed = 3;
    // Each begins where the one before ended.
    request.expected_position = position;
    const auto answer = alone.Step(std::move(request));
    ASSERT_TRUE(answer.ok()) << answer.status();
    ASSERT_EQ(answer->position, end);
    ASSERT_EQ(answer->sampled_token, told.sampled);
    position = end;
  }
  EXPECT_EQ(position, carried_out_);
  EXPECT_EQ(harness_.Step(StepOf("s", {1}))->logits,
            alone.Step(StepOf("s", {1}))->logits);
}

}  // namespace
}  // namespace steadystate::writers_test
