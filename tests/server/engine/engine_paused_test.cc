// Goal: a client that does not read what it has asked for keeps no memory that
// others wait for: with a store its session leaves memory and comes back, to
// the byte what it would have been; where that cannot be, its request ends.
// Method: receivers that are not ready hold all slots; the keeper's thread held
// while it moves a state.
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/testing/memory_store.h"
#include "tests/testing/parked_threads.h"

namespace steadystate::engine_paused_test {
namespace {

constexpr size_t kInMemory = 2;
constexpr uint64_t kTokens = 300;

using Generation = std::shared_ptr<Recorder<GenerateRequest>>;

std::string IdOf(size_t i) { return absl::StrCat("s", i); }

GenerateRequest Sampled(const std::string& session) {
  GenerateRequest request = GenerateOf(session, {1, 2, 3}, kTokens);
  request.ignore_eos = true;
  request.sampling.temperature = 1;
  request.sampling.seed = 7;
  return request;
}

std::vector<int32_t> TokensOf(const Generation& generation) {
  std::vector<int32_t> tokens;
  for (const GeneratedToken& item : generation->items()) {
    tokens.push_back(item.token);
  }
  return tokens;
}

class EnginePausedTest : public testing::Test {
 protected:
  EnginePausedTest() {
    EngineOptions options;
    options.state_memory_bytes =
        kInMemory * SessionLayoutOf(*SharedTinyModel(), options).charge_bytes();
    harness_.emplace(options, SharedTinyModel(), &store_);
    harness_->CreateSession("other");
    EXPECT_TRUE(StepOther({5}).ok());
  }

  Engine& engine() { return harness_->engine(); }

  absl::Status StepOther(std::vector<int32_t> tokens) {
    return harness_->Step(StepOf("other", std::move(tokens))).status();
  }

  // A request that pauses after some items.
  template <typename R>
  std::shared_ptr<Recorder<R>> Begin(
      std::shared_ptr<Recorder<R>> (EngineHarness::*submit)(R, RequestId*),
      R request, RequestId* id) {
    std::optional<ComputeHold> hold(std::in_place, *harness_);
    auto recorder = ((*harness_).*submit)(std::move(request), id);
    recorder->set_limit(4);
    hold.reset();
    recorder->AwaitItems(4);
    return recorder;
  }

  // Generations that have all memory and wait for their clients.
  void FillWithPaused() {
    for (size_t i = 0; i < kInMemory; ++i) {
      // The first is paused for longest.
      harness_->clock().Advance(absl::Milliseconds(1));
      harness_->CreateSession(IdOf(i));
      paused_.push_back(
          Begin(&EngineHarness::Generate, Sampled(IdOf(i)), &ids_[i]));
    }
  }

  void FillWithPausedScores() {
    for (size_t i = 0; i < kInMemory; ++i) {
      scores_.push_back(Begin(&EngineHarness::Score,
                              ScoreOf("", MakeTokens(1000, i)),
                              &score_ids_[i]));
    }
  }

  void GoOn(size_t i) {
    paused_[i]->set_limit(SIZE_MAX);
    engine().Wake(ids_[i]);
  }

  void AwaitTier(const std::string& session, SessionTier tier) {
    while (engine().GetSession(session)->tier != tier) {
      std::this_thread::yield();
    }
  }

  // The score's client reads a little.
  void ReadSome(size_t i) {
    const size_t more = scores_[i]->items().size() + 1;
    scores_[i]->set_limit(more);
    engine().Wake(score_ids_[i]);
    scores_[i]->AwaitItems(more);
  }

  // How many have found no free slot.
  double SlotWaits() const {
    return harness_->Metric({"steadystate_slot_waits_total"});
  }

  static std::vector<int32_t> Unbroken() {
    EngineHarness alone;
    alone.CreateSession("s");
    const Generation whole = alone.Generate(Sampled("s"));
    EXPECT_TRUE(whole->done().Get().ok());
    return TokensOf(whole);
  }

  void ExpectWhole(size_t i) {
    const auto& end = paused_[i]->done().Get();
    ASSERT_TRUE(end.ok()) << end.status();
    EXPECT_EQ(TokensOf(paused_[i]), Unbroken());
    EXPECT_EQ(harness_->Position(IdOf(i)), 3 + kTokens);
  }

  MemoryStore store_;
  std::optional<EngineHarness> harness_;
  std::vector<Generation> paused_;
  std::vector<std::shared_ptr<Recorder<ScoreRequest>>> scores_;
  std::vector<RequestId> ids_ = std::vector<RequestId>(kInMemory);
  std::vector<RequestId> score_ids_ = std::vector<RequestId>(kInMemory);
};

TEST_F(EnginePausedTest, OthersHaveTheMemoryOfThosePaused) {
  FillWithPaused();
  for (int step = 0; step < 3; ++step) {
    ASSERT_TRUE(StepOther({6}).ok()) << step;
  }
  // Each comes back when its client does, in the memory of one that is idle, or
  // paused.
  for (size_t i = 0; i < kInMemory; ++i) {
    GoOn(i);
    ExpectWhole(i);
  }
}

TEST_F(EnginePausedTest, ManyTakeTurnsInTheMemoryOfTwo) {
  constexpr size_t kGenerations = 8;
  const std::vector<int32_t> expected = Unbroken();
  std::vector<RequestId> ids(kGenerations);
  for (size_t i = 0; i < kGenerations; ++i) {
    harness_->CreateSession(IdOf(i));
    paused_.push_back(
        Begin(&EngineHarness::Generate, Sampled(IdOf(i)), &ids[i]));
  }
  // Each reads a little and pauses again.
  for (size_t limit = 50; limit <= kTokens; limit += 50) {
    for (size_t i = 0; i < kGenerations; ++i) {
      paused_[i]->set_limit(limit == kTokens ? SIZE_MAX : limit);
      engine().Wake(ids[i]);
    }
    for (const Generation& each : paused_) each->AwaitItems(limit);
  }
  for (const Generation& each : paused_) {
    ASSERT_TRUE(each->done().Get().ok()) << each->done().Get().status();
    EXPECT_EQ(TokensOf(each), expected);
  }
}

TEST_F(EnginePausedTest, WhoIsPausedForLongLeavesMemory) {
  FillWithPaused();
  harness_->clock().Advance(engine().options().hibernate_after);
  AwaitTier(IdOf(0), SessionTier::kStored);
  AwaitTier(IdOf(1), SessionTier::kStored);
  EXPECT_TRUE(engine().GetSession(IdOf(0))->active);
  GoOn(1);
  ExpectWhole(1);
}

TEST_F(EnginePausedTest, WhoEndsMeanwhileLeavesItsSessionAsItWas) {
  FillWithPaused();
  ASSERT_TRUE(StepOther({6}).ok());
  AwaitTier(IdOf(0), SessionTier::kStored);
  engine().Cancel(ids_[0]);
  EXPECT_EQ(ReasonOf(paused_[0]->done().Get().status()),
            ErrorReason::kCancelled);
  const std::vector<int32_t> drawn = TokensOf(paused_[0]);
  EXPECT_EQ(harness_->Position(IdOf(0)), 3 + drawn.size());
  const Generation more = harness_->Generate(GenerateOf(IdOf(0), {9}, 1));
  EXPECT_TRUE(more->done().Get().ok()) << more->done().Get().status();
  EXPECT_EQ(harness_->Position(IdOf(0)), 3 + drawn.size() + 2);
}

TEST_F(EnginePausedTest, WhoGoesOnWhileItIsWrittenDownComesBack) {
  FillWithPaused();
  ThreadHold writing("SessionKeeper::MoveOut");
  const StepFuture other = harness_->StepAsync(StepOf("other", {6}));
  writing.WaitUntilHeld();
  GoOn(0);
  GoOn(1);
  writing.Release();
  EXPECT_TRUE(other.Get().ok()) << other.Get().status();
  ExpectWhole(0);
  ExpectWhole(1);
}

TEST_F(EnginePausedTest, WhoIsDeletedWhileItIsWrittenDownIsGone) {
  FillWithPaused();
  ThreadHold writing("SessionKeeper::MoveOut");
  const StepFuture other = harness_->StepAsync(StepOf("other", {6}));
  writing.WaitUntilHeld();
  Future<absl::Status> removed;
  EXPECT_TRUE(engine()
                  .DeleteSession(IdOf(0),
                                 [removed](const absl::Status& status) {
                                   removed.Set(status);
                                 })
                  .ok());
  EXPECT_EQ(ReasonOf(paused_[0]->done().Get().status()),
            ErrorReason::kSessionNotFound);
  writing.Release();
  EXPECT_TRUE(other.Get().ok()) << other.Get().status();
  EXPECT_TRUE(removed.Get().ok());
  GoOn(1);
  ExpectWhole(1);
}

// What joins goes before one that is paused; when that is given up the paused
// one is where it was, out of memory.
TEST_F(EnginePausedTest, ForksOfOneThatHasLeftMemory) {
  FillWithPaused();
  FillWithPausedScores();
  AwaitTier(IdOf(0), SessionTier::kStored);
  const auto forks = std::make_shared<Forks>();
  WorkRequest work = engine().ForkWork(ForkOptions(), forks);
  work.session = IdOf(0);
  work.deadline = harness_->clock().Now() + absl::Seconds(1);
  const double waits = SlotWaits();
  const Future<absl::Status> refused =
      harness_->WorkAsync(IdOf(0), std::move(work));
  while (SlotWaits() == waits) std::this_thread::yield();
  harness_->clock().Advance(absl::Seconds(2));
  EXPECT_EQ(ReasonOf(refused.Get()), ErrorReason::kDeadlineExceeded);
  harness_->clock().Advance(kMaxStandstill);
  for (const auto& score : scores_) score->done().Get();
  EXPECT_TRUE(
      harness_->Work(IdOf(0), engine().ForkWork(ForkOptions(), forks)).ok());
  EXPECT_EQ(harness_->Position(forks->ids[0]), harness_->Position(IdOf(0)));
  GoOn(0);
  ExpectWhole(0);
}

TEST_F(EnginePausedTest, WhatHasNoSessionEndsWhenOthersHaveWaited) {
  FillWithPausedScores();
  const double waits = SlotWaits();
  const StepFuture other = harness_->StepAsync(StepOf("other", {6}));
  while (SlotWaits() == waits) std::this_thread::yield();
  harness_->clock().Advance(kMaxStandstill - absl::Seconds(1));
  // Reads, so does not stand still.
  ReadSome(0);
  EXPECT_FALSE(other.IsSet());
  harness_->clock().Advance(absl::Seconds(1));
  engine().Wake(score_ids_[0]);
  const absl::Status ended = scores_[1]->done().Get().status();
  EXPECT_EQ(ReasonOf(ended), ErrorReason::kDeadlineExceeded);
  EXPECT_NE(ended.message().find("30s"), std::string::npos) << ended;
  EXPECT_TRUE(other.Get().ok()) << other.Get().status();
  EXPECT_FALSE(scores_[0]->done().IsSet());
}

TEST_F(EnginePausedTest, WhatHasNoSessionStaysWhileNobodyWaits) {
  FillWithPausedScores();
  harness_->clock().Advance(10 * kMaxStandstill);
  // The engine has looked when this one gets on.
  ReadSome(0);
  EXPECT_FALSE(scores_[1]->done().IsSet());
  for (size_t i = 0; i < kInMemory; ++i) {
    scores_[i]->set_limit(SIZE_MAX);
    engine().Wake(score_ids_[i]);
    EXPECT_TRUE(scores_[i]->done().Get().ok());
  }
}

TEST_F(EnginePausedTest, TheEngineEndsWhileSomeAreOutOfMemory) {
  FillWithPaused();
  ASSERT_TRUE(StepOther({6}).ok());
  AwaitTier(IdOf(0), SessionTier::kStored);
  engine().AbortRequests();
  EXPECT_EQ(ReasonOf(paused_[0]->done().Get().status()),
            ErrorReason::kDraining);
  EXPECT_EQ(engine().StoreSessions(absl::Minutes(1)), 0u);
}

// In `log` what is answered is in the log; the rest of it is told by that and
// the snapshot.
TEST_F(EnginePausedTest, LoggedOnesGoOnInTheLog) {
  for (size_t i = 0; i < kInMemory; ++i) {
    SessionOptions options;
    options.id = IdOf(i);
    options.durability = Durability::kLog;
    ASSERT_TRUE(engine().CreateSession(options).ok());
    paused_.push_back(
        Begin(&EngineHarness::Generate, Sampled(IdOf(i)), &ids_[i]));
  }
  ASSERT_TRUE(StepOther({6}).ok());
  for (size_t i = 0; i < kInMemory; ++i) {
    GoOn(i);
    ExpectWhole(i);
  }
}

}  // namespace
}  // namespace steadystate::engine_paused_test
