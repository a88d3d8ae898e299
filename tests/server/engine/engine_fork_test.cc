// Goal: a fork is what its parent was, to the bit, and nobody else notices that
// it was made. Method: forks taken between steps, between the tokens of a
// generation that runs and of one that is paused; what they compute is compared
// with what the parent computes, and with sessions that were never forked.
#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/session/session_id.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/testing/end_receiver.h"
#include "tests/testing/parked_threads.h"

namespace steadystate::engine_fork_test {
namespace {

class EngineForkTest : public testing::Test {
 protected:
  EngineForkTest() { harness_.CreateSession("parent"); }

  Engine& engine() { return harness_.engine(); }

  // Asks for copies of the parent with these ids.
  Future<absl::Status> ForkAsync(
      const std::vector<std::string>& ids,
      std::optional<uint64_t> expected_position = std::nullopt) {
    ForkOptions options;
    options.ids = ids;
    options.count = ids.size();
    WorkRequest work = engine().ForkWork(options, forks_);
    work.session = "parent";
    work.writer = engine().NewWriter();
    work.expected_position = expected_position;
    Future<absl::Status> done;
    SubmitThen(engine(), work,
               [done](const auto& end) { done.Set(end.status()); });
    return done;
  }
  void Fork(const std::vector<std::string>& ids) {
    const absl::Status status = ForkAsync(ids).Get();
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(forks_->ids, ids);
  }

  StepRecord Step(const StepRequest& request) {
    const auto result = harness_.Step(request);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *result : StepRecord();
  }

  std::vector<int32_t> TokensOf(Recorder<GenerateRequest>& sink) {
    EXPECT_TRUE(sink.done().Get().ok()) << sink.done().Get().status();
    std::vector<int32_t> tokens;
    for (const GeneratedToken& item : sink.items()) {
      tokens.push_back(item.token);
    }
    return tokens;
  }

  // A generation on the parent that has handed over so many items, and waits
  // for its receiver.
  std::shared_ptr<Recorder<GenerateRequest>> Paused(uint64_t tokens,
                                                    size_t items,
                                                    RequestId* id) {
    std::shared_ptr<Recorder<GenerateRequest>> sink;
    {
      ComputeHold hold(harness_);
      sink = harness_.Generate(Draws("parent", {1, 2}, tokens), id);
      sink->set_limit(items);
    }
    sink->AwaitItems(items);
    return sink;
  }

  // Draws that depend on seed, position and the latest tokens.
  static GenerateRequest Draws(const std::string& session,
                               std::vector<int32_t> prompt, uint64_t count) {
    GenerateRequest request = GenerateOf(session, std::move(prompt), count);
    request.sampling.temperature = 1.5;
    request.sampling.seed = 11;
    request.sampling.frequency_penalty = 0.5;
    request.ignore_eos = true;
    return request;
  }

  const std::shared_ptr<Forks> forks_ = std::make_shared<Forks>();
  EngineHarness harness_;
};

TEST_F(EngineForkTest, AForkGoesOnAsItsParentDoes) {
  TokensOf(*harness_.Generate(Draws("parent", MakeTokens(20, 1), 30)));
  Fork({"a", "b"});
  EXPECT_EQ(forks_->position, 50u);
  harness_.CreateSession("calm");
  TokensOf(*harness_.Generate(Draws("calm", MakeTokens(20, 1), 30)));
  // From the pending logits, with the tokens before for penalties.
  const std::vector<int32_t> expected =
      TokensOf(*harness_.Generate(Draws("calm", {}, 40)));
  const StepRecord step = Step(StepOf("calm", {1, 2, 3}));
  for (const char* session : {"a", "parent", "b"}) {
    EXPECT_EQ(TokensOf(*harness_.Generate(Draws(session, {}, 40))), expected);
    const StepRecord same = Step(StepOf(session, {1, 2, 3}));
    EXPECT_EQ(same.logits, step.logits);
    EXPECT_EQ(same.hidden, step.hidden);
    EXPECT_EQ(same.position, 93u);
  }
}

TEST_F(EngineForkTest, ARepeatIsKnownInTheForkToo) {
  StepRequest request = StepOf("parent", {1});
  request.request_id = std::string("a");
  request.expected_position = 0;
  const StepRecord first = Step(request);
  Fork({"x"});
  request.session = "x";
  const StepRecord again = Step(request);
  EXPECT_TRUE(again.replayed);
  EXPECT_EQ(again.logits, first.logits);
}

TEST_F(EngineForkTest, AGenerationThatIsPausedIsForkedWhereItIs) {
  RequestId id = 0;
  const auto sink = Paused(60, 20, &id);
  // One after the other, and several at once.
  Fork({"a"});
  EXPECT_EQ(forks_->position, 22u);
  const auto b = ForkAsync({"b"});
  const auto c = ForkAsync({"c"});
  EXPECT_TRUE(b.Get().ok());
  EXPECT_TRUE(c.Get().ok());
  EXPECT_FALSE(sink->done().IsSet());
  sink->set_limit(SIZE_MAX);
  engine().Wake(id);
  const std::vector<int32_t> all = TokensOf(*sink);
  ASSERT_EQ(all.size(), 60u);
  const std::vector<int32_t> rest(all.begin() + 20, all.end());
  for (const char* session : {"a", "b", "c"}) {
    EXPECT_EQ(TokensOf(*harness_.Generate(Draws(session, {}, 40))), rest);
  }
  harness_.CreateSession("calm");
  EXPECT_EQ(TokensOf(*harness_.Generate(Draws("calm", {1, 2}, 60))), all);
}

TEST_F(EngineForkTest, AGenerationThatRunsIsForkedBetweenTwoTokens) {
  constexpr uint64_t kTokens = 3000;
  const auto sink = harness_.Generate(Draws("parent", {1, 2}, kTokens));
  std::vector<uint64_t> positions;
  for (size_t i = 0; i < 20; ++i) {
    sink->AwaitItems(i * 20 + 1);
    Fork({absl::StrCat(i)});
    positions.push_back(forks_->position);
  }
  const std::vector<int32_t> all = TokensOf(*sink);
  EXPECT_LT(positions.front(), 2 + kTokens);
  for (size_t i = 0; i < positions.size(); ++i) {
    ASSERT_GE(positions[i], 2u);
    const size_t told = positions[i] - 2;
    const size_t count = std::min<size_t>(30, all.size() - told);
    if (count == 0) continue;
    const auto begin = all.begin() + static_cast<ptrdiff_t>(told);
    EXPECT_EQ(
        TokensOf(*harness_.Generate(Draws(absl::StrCat(i), {}, count))),
        std::vector<int32_t>(begin, begin + static_cast<ptrdiff_t>(count)));
  }
  harness_.CreateSession("calm");
  EXPECT_EQ(TokensOf(*harness_.Generate(Draws("calm", {1, 2}, kTokens))), all);
}

// The first one comes back and the second one comes while the compute thread is
// elsewhere: both are noted at once.
TEST_F(EngineForkTest, TwoForksOfAGenerationMeetAtTheDesk) {
  RequestId id = 0;
  const auto sink = Paused(60, 20, &id);
  for (int round = 0; round < 5; ++round) {
    Future<absl::Status> first;
    Future<absl::Status> second;
    {
      ThreadHold copying("SessionKeeper::Fork");
      first = ForkAsync({absl::StrCat("a", round)});
      copying.WaitUntilHeld();
      const ComputeHold hold(harness_);
      copying.Release();
      while (!engine().GetSession(absl::StrCat("a", round)).ok()) {
        std::this_thread::yield();
      }
      second = ForkAsync({absl::StrCat("b", round)});
    }
    EXPECT_TRUE(first.Get().ok()) << first.Get();
    EXPECT_TRUE(second.Get().ok()) << second.Get();
  }
  sink->set_limit(SIZE_MAX);
  engine().Wake(id);
  EXPECT_EQ(TokensOf(*sink).size(), 60u);
}

// A client that forks again as soon as it can, and another one.
TEST_F(EngineForkTest, AGenerationThatIsForkedAllTheTimeGetsOn) {
  constexpr uint64_t kTokens = 300;
  const auto sink = harness_.Generate(Draws("parent", {1, 2}, kTokens));
  std::atomic<bool> stop = false;
  std::vector<std::thread> clients;
  for (int client = 0; client < 3; ++client) {
    clients.emplace_back([&, client] {
      for (int i = 0; !stop; ++i) {
        const std::string id = absl::StrCat(client, "-", i);
        ForkOptions options;
        options.ids = {id};
        WorkRequest work =
            engine().ForkWork(options, std::make_shared<Forks>());
        work.session = "parent";
        Future<bool> done;
        SubmitThen(engine(), work, [done](const auto& end) {
          EXPECT_TRUE(end.ok());
          done.Set(true);
        });
        done.Get();
        EXPECT_TRUE(engine().DeleteSession(id).ok());
      }
    });
  }
  const std::vector<int32_t> tokens = TokensOf(*sink);
  stop = true;
  for (std::thread& client : clients) client.join();
  harness_.CreateSession("calm");
  EXPECT_EQ(TokensOf(*harness_.Generate(Draws("calm", {1, 2}, kTokens))),
            tokens);
}

// A Step is all or nothing.
TEST_F(EngineForkTest, StepsAreForkedBetweenThem) {
  Future<absl::Status> fork;
  std::vector<StepFuture> steps;
  {
    ComputeHold hold(harness_);
    StepRequest request = StepOf("parent", MakeTokens(300, 1));
    request.writer = engine().NewWriter();
    steps.push_back(harness_.StepAsync(request));
    fork = ForkAsync({"a"});
    steps.push_back(harness_.StepAsync(request));
  }
  for (const StepFuture& step : steps) EXPECT_TRUE(step.Get().ok());
  ASSERT_TRUE(fork.Get().ok()) << fork.Get();
  EXPECT_EQ(forks_->position, 300u);
  EXPECT_EQ(harness_.Position("parent"), 600u);
  EXPECT_EQ(Step(StepOf("a", MakeTokens(300, 1))).logits,
            steps.back().Get()->logits);
}

TEST_F(EngineForkTest, ExpectsAPositionIfItIsTold) {
  Step(StepOf("parent", {1}));
  EXPECT_EQ(ReasonOf(ForkAsync({"a"}, 0).Get()),
            ErrorReason::kPositionMismatch);
  EXPECT_TRUE(ForkAsync({"a"}, 1).Get().ok());
}

TEST_F(EngineForkTest, TheSessionIsNotBusyForItsWriters) {
  Step(StepOf("parent", {1}));
  ThreadHold hold("SessionKeeper::Fork");
  const auto fork = ForkAsync({"a"});
  hold.WaitUntilHeld();
  // Whoever comes; then the session is that one's until it is answered.
  const StepFuture step = harness_.StepAsync(StepOf("parent", {2}));
  const StepFuture refused = harness_.StepAsync(StepOf("parent", {2}));
  EXPECT_EQ(ReasonOf(refused.Get().status()), ErrorReason::kSessionBusy);
  EXPECT_FALSE(step.IsSet());
  // Others do not wait for the copy.
  Step(StepOf(harness_.CreateSession(), {1}));
  hold.Release();
  EXPECT_TRUE(fork.Get().ok());
  EXPECT_TRUE(step.Get().ok()) << step.Get().status();
  EXPECT_EQ(forks_->position, 1u);
}

// What was done is told, whatever came while it was.
TEST_F(EngineForkTest, IsDoneThoughTheParentIsDeletedMeanwhile) {
  Step(StepOf("parent", {1}));
  ThreadHold hold("SessionKeeper::Fork");
  const auto fork = ForkAsync({"a"});
  hold.WaitUntilHeld();
  EXPECT_TRUE(engine().DeleteSession("parent").ok());
  Step(StepOf(harness_.CreateSession(), {1}));  // the deletion is noted
  hold.Release();
  EXPECT_TRUE(fork.Get().ok()) << fork.Get();
  EXPECT_EQ(harness_.Position("a"), 1u);
}

// While it is paused, so that there is something between two pieces.
TEST_F(EngineForkTest, WhatIsInterruptedCanBeEnded) {
  for (const bool by_deletion : {false, true}) {
    const std::string id = by_deletion ? "b" : "a";
    RequestId request = 0;
    const auto sink = Paused(60, 5, &request);
    ThreadHold hold("SessionKeeper::Fork");
    const auto fork = ForkAsync({id});
    hold.WaitUntilHeld();
    if (by_deletion) {
      EXPECT_TRUE(engine().DeleteSession("parent").ok());
    } else {
      engine().Cancel(request);
    }
    EXPECT_EQ(
        ReasonOf(sink->done().Get().status()),
        by_deletion ? ErrorReason::kSessionNotFound : ErrorReason::kCancelled);
    hold.Release();
    EXPECT_TRUE(fork.Get().ok()) << fork.Get();
    EXPECT_EQ(harness_.Position(id), forks_->position);
  }
}

TEST(EngineForkOfGrowingStateTest, CopiesTheRowsThatAreUsed) {
  TinyModelOptions options;
  options.softmax_layer = 0;
  options.max_position_embeddings = 64;
  EngineHarness harness({}, TinyModel(options).Load());
  harness.CreateSession("parent");
  ASSERT_TRUE(harness.Step(StepOf("parent", MakeTokens(30, 1))).ok());
  const auto forks = std::make_shared<Forks>();
  ForkOptions two;
  two.count = 2;
  WorkRequest work = harness.engine().ForkWork(two, forks);
  work.session = "parent";
  Future<absl::Status> done;
  SubmitThen(harness.engine(), work,
             [done](const auto& end) { done.Set(end.status()); });
  ASSERT_TRUE(done.Get().ok()) << done.Get();
  const auto expected = harness.Step(StepOf("parent", {1, 2}));
  for (const std::string& id : forks->ids) {
    const auto fork = harness.Step(StepOf(id, {1, 2}));
    ASSERT_TRUE(fork.ok()) << fork.status();
    EXPECT_EQ(fork->logits, expected->logits);
  }
}

absl::Status Keep(EngineHarness& harness, std::vector<std::string> names) {
  ForkOptions options;
  options.checkpoints = true;
  options.count = names.size();
  for (const std::string& name : names) {
    options.ids.push_back(CheckpointId(name));
  }
  return CloneError(harness.Work(
      "s", harness.engine().ForkWork(options, std::make_shared<Forks>())));
}

TEST(CheckpointLimitTest, OneBeyondTheLimitIsRefusedUntilAnotherIsDeleted) {
  EngineOptions options;
  options.max_checkpoints = 2;
  EngineHarness harness(options);
  harness.CreateSession("s");
  EXPECT_TRUE(Keep(harness, {"a"}).ok());
  // All of them, or none.
  const absl::Status both = Keep(harness, {"b", "c"});
  EXPECT_EQ(ReasonOf(both), ErrorReason::kCheckpointLimitReached);
  EXPECT_EQ(MetadataOf(both, "bounds"), "2");
  EXPECT_TRUE(Keep(harness, {"b"}).ok());
  EXPECT_EQ(ReasonOf(Keep(harness, {"c"})),
            ErrorReason::kCheckpointLimitReached);
  // Sessions are none.
  harness.CreateSession("t");
  ASSERT_TRUE(harness.engine().DeleteSession(CheckpointId("a")).ok());
  EXPECT_TRUE(Keep(harness, {"c"}).ok());
}

TEST(CheckpointLimitTest, CheckpointsLeaveMostOfTheBudgetToSessions) {
  EngineOptions options;
  options.state_memory_bytes =
      8 * SessionLayoutOf(*SharedTinyModel(), options).charge_bytes();
  EngineHarness harness(options);
  harness.CreateSession("s");
  EXPECT_TRUE(Keep(harness, {"a", "b"}).ok());
  EXPECT_EQ(ReasonOf(Keep(harness, {"c"})),
            ErrorReason::kCheckpointLimitReached);
}

}  // namespace
}  // namespace steadystate::engine_fork_test
