// Goal: what the store has of a session and cannot be used is told to whom it
// concerns, counted until it can be or is deleted, left there at the end, and
// in nobody else's way. Method: a store in memory that fails, has its bytes
// changed, or was written by an engine whose states have another form.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/base/error.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/testing/memory_store.h"
#include "tests/testing/temp_directory.h"
#include "tests/testing/tiny_model.h"

namespace steadystate::engine_unusable_test {
namespace {

std::shared_ptr<const Model> ModelWithStatesIn(StateDType type) {
  const TempDirectory directory;
  WriteCheckpoint(MakeTinyCheckpoint({}), directory.path());
  ModelOptions options;
  options.path = directory.path();
  options.weight_dtype = DType::kF32;
  options.state_dtype = type;
  auto model = Model::Load(options);
  EXPECT_TRUE(model.ok()) << model.status();
  return std::shared_ptr<const Model>(*std::move(model));
}

class EngineUnusableTest : public testing::Test {
 protected:
  EngineUnusableTest() { Start(); }

  void Start(std::shared_ptr<const Model> model = SharedTinyModel(),
             const EngineOptions& options = {}) {
    harness_.emplace(options, std::move(model), &store_);
  }

  Engine& engine() { return harness_->engine(); }

  void Advance(const std::string& session, int32_t token) {
    const auto result = harness_->Step(StepOf(session, {token}));
    EXPECT_TRUE(result.ok()) << result.status();
  }

  ErrorReason Refused(const std::string& session) {
    return ReasonOf(harness_->Step(StepOf(session, {1})).status());
  }

  SessionInfo Get(const std::string& session) {
    const auto info = engine().GetSession(session);
    EXPECT_TRUE(info.ok()) << info.status();
    return info.ok() ? *info : SessionInfo();
  }

  void AwaitHibernated(const std::string& session) {
    while (Get(session).tier != SessionTier::kStored) std::this_thread::yield();
  }

  // With all others that are idle.
  void Hibernate(const std::string& session) {
    harness_->clock().Advance(engine().options().hibernate_after);
    AwaitHibernated(session);
  }

  double Counted(const std::string& reason) {
    return harness_->Metric({"steadystate_sessions_unusable", reason});
  }

  // Gauges are set when the keeper's thread looks at what is next.
  void AwaitMetric(const std::vector<std::string>& parts, double value) {
    while (harness_->Metric(parts) != value) std::this_thread::yield();
  }

  MemoryStore store_;
  std::optional<EngineHarness> harness_;
};

TEST_F(EngineUnusableTest, AStateThatCannotBeReadIsTold) {
  harness_->CreateSession("a");
  harness_->CreateSession("b");
  Advance("a", 1);
  Hibernate("a");
  store_.FailReads(true);
  EXPECT_EQ(Refused("a"), ErrorReason::kStoreUnavailable);
  EXPECT_EQ(Get("a").tier, SessionTier::kStored);
  Advance("b", 1);
  store_.FailReads(false);
  Advance("a", 2);
  Hibernate("a");
  store_.Spoil();
  EXPECT_EQ(Refused("a"), ErrorReason::kSnapshotCorrupt);
  EXPECT_EQ(Get("a").position, 2u);
  AwaitMetric({"steadystate_sessions{"}, 2);
}

// It would be computed anew, and come home in a form that is refused there.
TEST_F(EngineUnusableTest, WhatWasTakenBackToItsBeginningKeepsItsForm) {
  for (const auto& [there, elsewhere] :
       {std::pair(StateDType::kF32, StateDType::kBf16),
        std::pair(StateDType::kBf16, StateDType::kF32)}) {
    Start(ModelWithStatesIn(there));
    harness_->CreateSession("a");
    for (const int32_t token : {1, 2, 3}) Advance("a", token);
    ASSERT_TRUE(
        harness_
            ->Work("a", engine().RewindWork({.position = 2},
                                            std::make_shared<SessionInfo>()))
            .ok());
    EXPECT_EQ(engine().StoreSessions(absl::Minutes(1)), 0u);
    Start(ModelWithStatesIn(elsewhere));
    EXPECT_EQ(Refused("a"), ErrorReason::kNumericsMismatch);
    EXPECT_EQ(Get("a").unusable, Unusable::kOtherNumerics);
    EXPECT_EQ(engine().StoreSessions(absl::Minutes(1)), 0u);
    Start(ModelWithStatesIn(there));
    EXPECT_EQ(Get("a").position, 2u);
    Advance("a", 3);
    ASSERT_TRUE(engine().DeleteSession("a").ok());
  }
}

// Its clients have used it, so that the store lacks a word of that.
TEST_F(EngineUnusableTest, WhatIsDamagedInTheStoreIsLeftThereAtTheEnd) {
  for (const char* const id : {"damaged", "asleep"}) {
    harness_->CreateSession(id);
    Advance(id, 1);
  }
  Hibernate("damaged");
  AwaitHibernated("asleep");
  harness_->CreateSession("in-memory");
  Advance("in-memory", 1);
  EXPECT_EQ(Counted("snapshot_corrupt"), 0);
  store_.Damage(true);
  EXPECT_EQ(Refused("damaged"), ErrorReason::kSnapshotCorrupt);
  EXPECT_EQ(Counted("snapshot_corrupt"), 1);
  EXPECT_EQ(Get("damaged").unusable, Unusable::kSnapshotCorrupt);
  EXPECT_EQ(Get("asleep").unusable, Unusable::kNo);
  // No time passes.
  EXPECT_EQ(engine().StoreSessions(absl::Seconds(5)), 0u);
  store_.Damage(false);
  Advance("damaged", 2);
  EXPECT_EQ(Get("damaged").unusable, Unusable::kNo);
  EXPECT_EQ(Counted("snapshot_corrupt"), 0);
  EXPECT_EQ(engine().StoreSessions(absl::Seconds(5)), 0u);
  harness_.reset();
  Start();
  EXPECT_EQ(Get("in-memory").position, 1u);
  EXPECT_EQ(Get("damaged").position, 2u);
}

TEST_F(EngineUnusableTest, WhatIsDamagedCountsUntilItIsDeleted) {
  harness_->CreateSession("a");
  Advance("a", 1);
  Hibernate("a");
  store_.Damage(true);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Refused("a"), ErrorReason::kSnapshotCorrupt);
    EXPECT_EQ(Counted("snapshot_corrupt"), 1);
  }
  ASSERT_TRUE(engine().DeleteSession("a").ok());
  AwaitMetric({"steadystate_sessions_unusable", "snapshot_corrupt"}, 0);
}

// That this is so nobody knows before it is read: the store's catalogue has
// nothing of what states are like.
TEST_F(EngineUnusableTest, StatesOfAnotherFormWaitForAnEngineThatHasIt) {
  for (const char* const id : {"a", "used"}) {
    harness_->CreateSession(id);
    Advance(id, 1);
  }
  EXPECT_EQ(engine().StoreSessions(absl::Minutes(1)), 0u);
  harness_.reset();
  Start(ModelWithStatesIn(StateDType::kBf16));
  EXPECT_EQ(Get("a").unusable, Unusable::kNo);
  EXPECT_EQ(Counted("numerics_mismatch"), 0);
  EXPECT_EQ(Refused("a"), ErrorReason::kNumericsMismatch);
  EXPECT_EQ(Refused("used"), ErrorReason::kNumericsMismatch);
  EXPECT_EQ(Get("a").unusable, Unusable::kOtherNumerics);
  EXPECT_EQ(Counted("numerics_mismatch"), 2);
  EXPECT_EQ(Counted("snapshot_corrupt"), 0);
  ASSERT_TRUE(engine().DeleteSession("a").ok());
  AwaitMetric({"steadystate_sessions_unusable", "numerics_mismatch"}, 1);
  EXPECT_EQ(engine().StoreSessions(absl::Minutes(1)), 0u);
  harness_.reset();
  Start();
  EXPECT_EQ(Counted("numerics_mismatch"), 0);
  Advance("used", 2);
  EXPECT_EQ(Get("used").position, 2u);
}

// What others computed is nothing of a session that has absorbed nothing.
TEST_F(EngineUnusableTest, AtPositionZeroNumericsDoNotMatter) {
  harness_->CreateSession("begun");
  Advance("begun", 1);
  harness_->CreateSession("fresh");
  const auto exported = std::make_shared<Engine::Export>();
  ASSERT_TRUE(harness_->Work("fresh", engine().ExportWork(exported)).ok());
  EXPECT_EQ(engine().StoreSessions(absl::Minutes(1)), 0u);
  harness_.reset();
  EngineOptions others;
  others.prefill_chunk_rows = 7;
  Start(SharedTinyModel(), others);
  SessionOptions options;
  options.id = "imported";
  ASSERT_TRUE(
      harness_
          ->Work("", engine().ImportWork(exported->snapshot, options,
                                         std::make_shared<SessionInfo>()))
          .ok());
  for (const char* const id : {"begun", "fresh", "imported"}) Advance(id, 1);
  EXPECT_TRUE(Get("begun").other_numerics);
  EXPECT_FALSE(Get("fresh").other_numerics);
  EXPECT_FALSE(Get("imported").other_numerics);
}

}  // namespace
}  // namespace steadystate::engine_unusable_test
