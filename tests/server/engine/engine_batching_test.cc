// Goal: a session's bytes depend on its own requests alone. Method: the answers
// of many sessions that advance together are compared, bit for bit, with those
// of each alone.
#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/testing/relative_rms.h"

namespace steadystate::engine_batching_test {
namespace {

constexpr size_t kSessions = 64;
constexpr size_t kStepsEach = 6;

// One token, or more than fit into one piece.
std::vector<int32_t> InputOf(size_t session, size_t step) {
  constexpr size_t kLengths[] = {1, 1, 5, 1, 37, 2};
  return MakeTokens(kLengths[(session + step) % std::size(kLengths)],
                    session * 100 + step);
}

struct Outcome {
  uint64_t position = 0;
  std::vector<float> logits;
  std::vector<float> hidden;
  bool operator==(const Outcome&) const = default;
};

Outcome AnswerOf(const absl::StatusOr<StepRecord>& result) {
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return {};
  return {result->position, result->logits, result->hidden};
}

EngineOptions Options(size_t threads) {
  EngineOptions options;
  options.threads = threads;
  options.max_batch_rows = 96;
  options.prefill_chunk_rows = 16;
  // Prompts are left after every layer.
  options.prefill_slice = absl::ZeroDuration();
  return options;
}

class EngineBatchingTest
    : public testing::TestWithParam<std::tuple<DType, size_t>> {
 protected:
  void SetUp() override {
    const auto [weights, threads] = GetParam();
    model_ = SharedTinyModel(weights);
    options_ = Options(threads);
  }

  // The answers of every session when nobody else is there; [session][step].
  const std::vector<std::vector<Outcome>>& Alone() {
    static auto* const cache =
        new std::map<DType, std::vector<std::vector<Outcome>>>();
    auto& answers = (*cache)[std::get<0>(GetParam())];
    if (!answers.empty()) return answers;
    EngineHarness harness(Options(1), model_);
    for (size_t i = 0; i < kSessions; ++i) {
      const std::string session = harness.CreateSession();
      std::vector<Outcome>& to = answers.emplace_back();
      for (size_t step = 0; step < kStepsEach; ++step) {
        to.push_back(AnswerOf(harness.Step(StepOf(session, InputOf(i, step)))));
      }
    }
    return answers;
  }

  std::shared_ptr<const Model> model_;
  EngineOptions options_;
};

TEST_P(EngineBatchingTest, SessionsSteppedAtOnceEqualEachAlone) {
  const auto& alone = Alone();
  EngineHarness harness(options_, model_);
  std::vector<size_t> order;
  for (size_t i = 0; i < kSessions; ++i) {
    harness.CreateSession(absl::StrCat("s", i));
    order.push_back(i);
  }
  std::mt19937 random(7);
  for (size_t step = 0; step < kStepsEach; ++step) {
    std::shuffle(order.begin(), order.end(), random);
    std::map<size_t, StepFuture> futures;
    {
      ComputeHold hold(harness);  // so that all are there at once
      for (const size_t i : order) {
        futures[i] =
            harness.StepAsync(StepOf(absl::StrCat("s", i), InputOf(i, step)));
      }
    }
    for (const auto& [i, future] : futures) {
      EXPECT_EQ(AnswerOf(future.Get()), alone[i][step])
          << "session " << i << ", step " << step;
    }
  }
}

TEST_P(EngineBatchingTest, SessionsOfInterleavedWritersEqualEachAlone) {
  const auto& alone = Alone();
  EngineHarness harness(options_, model_);
  for (size_t i = 0; i < kSessions; ++i) {
    harness.CreateSession(absl::StrCat("s", i));
  }
  constexpr size_t kWriters = 4;
  std::vector<std::thread> writers;
  for (size_t w = 0; w < kWriters; ++w) {
    writers.emplace_back([&harness, &alone, w] {
      // Everything this writer has to say, in an order of its own that keeps
      // each session's; without waiting for answers.
      std::vector<size_t> order;
      for (size_t i = w; i < kSessions; i += kWriters) {
        order.insert(order.end(), kStepsEach, i);
      }
      std::mt19937 random(static_cast<uint32_t>(w));
      std::shuffle(order.begin(), order.end(), random);
      const WriterId writer = harness.engine().NewWriter();
      std::map<size_t, std::vector<StepFuture>> futures;
      for (const size_t i : order) {
        StepRequest request =
            StepOf(absl::StrCat("s", i), InputOf(i, futures[i].size()));
        request.writer = writer;
        futures[i].push_back(harness.StepAsync(std::move(request)));
      }
      for (const auto& [i, steps] : futures) {
        for (size_t step = 0; step < steps.size(); ++step) {
          EXPECT_EQ(AnswerOf(steps[step].Get()), alone[i][step])
              << "session " << i << ", step " << step;
        }
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
}

TEST_P(EngineBatchingTest, DecodeBesideALongPromptChangesNeither) {
  EngineHarness harness(options_, model_);
  const std::vector<int32_t> prompt = MakeTokens(300, 1);
  const std::vector<int32_t> tokens = MakeTokens(40, 2);
  harness.CreateSession("alone-a");
  harness.CreateSession("alone-b");
  const Outcome a = AnswerOf(harness.Step(StepOf("alone-a", prompt)));
  std::vector<Outcome> b;
  for (const int32_t token : tokens) {
    b.push_back(AnswerOf(harness.Step(StepOf("alone-b", {token}))));
  }
  harness.CreateSession("a");
  harness.CreateSession("b");
  const StepFuture long_step = harness.StepAsync(StepOf("a", prompt));
  for (size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ(AnswerOf(harness.Step(StepOf("b", {tokens[i]}))), b[i]);
  }
  EXPECT_EQ(AnswerOf(long_step.Get()), a);
}

TEST_P(EngineBatchingTest, HowTokensAreCutShowsOnlyInRounding) {
  EngineHarness harness(options_, model_);
  const std::vector<int32_t> tokens = MakeTokens(50, 3);
  harness.CreateSession("whole");
  const Outcome whole = AnswerOf(harness.Step(StepOf("whole", tokens)));
  for (const size_t cut : {1u, 7u, 16u, 33u}) {
    const std::string session = harness.CreateSession();
    Outcome last;
    for (size_t i = 0; i < tokens.size(); i += cut) {
      const auto from = tokens.begin() + static_cast<ptrdiff_t>(i);
      const auto count =
          static_cast<ptrdiff_t>(std::min(cut, tokens.size() - i));
      last = AnswerOf(harness.Step(StepOf(session, {from, from + count})));
    }
    // With bf16 weights a rounded input may fall to the other side.
    const double bound =
        std::get<0>(GetParam()) == DType::kF32 ? kCutsAgree : 2e-2;
    EXPECT_EQ(last.position, whole.position);
    EXPECT_LE(RelativeRms(last.logits, whole.logits), bound)
        << "cut into " << cut;
    EXPECT_LE(RelativeRms(last.hidden, whole.hidden), bound)
        << "cut into " << cut;
  }
}

INSTANTIATE_TEST_SUITE_P(All, EngineBatchingTest,
                         testing::Combine(testing::Values(DType::kF32,
                                                          DType::kBf16),
                                          testing::Values(1, 2)),
                         [](const auto& param) {
                           return absl::StrCat(Name(std::get<0>(param.param)),
                                               "_", std::get<1>(param.param),
                                               "threads");
                         });

TEST(EngineStressTest, WritersOnOneSessionTakeTurnsOrAreRefused) {
  constexpr size_t kWriters = 64;
  constexpr uint64_t kStepsPerWriter = 4;
  EngineHarness harness(Options(2));
  harness.CreateSession("s");
  std::vector<std::thread> writers;
  std::vector<std::vector<uint64_t>> positions(kWriters);
  for (size_t w = 0; w < kWriters; ++w) {
    writers.emplace_back([&harness, &mine = positions[w]] {
      while (mine.size() < kStepsPerWriter) {
        const auto result = harness.Step(StepOf("s", {1}));
        if (result.ok()) {
          mine.push_back(result->position);
        } else {
          ASSERT_EQ(ReasonOf(result.status()), ErrorReason::kSessionBusy);
          std::this_thread::yield();
        }
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  // Every step was applied once, and every position answered once.
  std::vector<uint64_t> all;
  for (const auto& mine : positions) {
    EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::sort(all.begin(), all.end());
  ASSERT_EQ(all.size(), kWriters * kStepsPerWriter);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], i + 1);
  EXPECT_EQ(harness.Position("s"), all.size());
}

TEST(EngineStressTest, SessionsComeAndGoWhileOthersAdvance) {
  EngineOptions options = Options(2);
  EngineHarness sizing;
  sizing.CreateSession("s");
  options.state_memory_bytes = 8 * sizing.engine().GetSession("s")->state_bytes;
  EngineHarness harness(options);
  std::vector<std::thread> clients;
  for (size_t c = 0; c < 8; ++c) {
    clients.emplace_back([&harness, c] {
      for (size_t round = 0; round < 20; ++round) {
        const std::string id = absl::StrCat("c", c);
        harness.CreateSession(id);
        const StepFuture a =
            harness.StepAsync(StepOf(id, MakeTokens(20, round)));
        if (round % 2 == 0) a.Get();
        EXPECT_TRUE(harness.engine().DeleteSession(id).ok());
        a.Get();  // answered, one way or the other
        ASSERT_TRUE(harness.engine().ListSessions(10, "").ok());
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(harness.engine().WaitIdle(absl::Minutes(1)));
  EXPECT_TRUE(harness.engine().ListSessions(10, "")->sessions.empty());
}

}  // namespace
}  // namespace steadystate::engine_batching_test
