// Goal: what sessions are counted as in the store, and how often they are
// written there, goes by what their own rows take. Method: a model whose
// sessions may have few tokens or many, beside what their snapshots have.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/base/error.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/testing/memory_store.h"

namespace steadystate::engine_store_charges_test {
namespace {

constexpr uint64_t kUsual = 64;
constexpr uint64_t kMost = 8192;

// What a session's history and records take at most.
constexpr uint64_t kRemembered = 40'000;

std::shared_ptr<const Model> SharedModel() {
  static const auto* const model =
      new std::shared_ptr<const Model>(LoadModelOfCaps(kUsual, kMost));
  return *model;
}

class EngineStoreChargesTest : public testing::Test {
 protected:
  void Start(const EngineOptions& options) {
    harness_.emplace(options, SharedModel(), &store_);
  }
  Engine& engine() { return harness_->engine(); }

  absl::Status Create(const std::string& id, uint64_t cap) {
    SessionOptions options;
    options.id = id;
    options.context_cap = cap;
    return harness_->Create(options).status();
  }

  // What a refusal says that a session is counted as.
  static uint64_t Counted(const absl::Status& refused) {
    EXPECT_EQ(ReasonOf(refused), ErrorReason::kStateBudgetExhausted) << refused;
    uint64_t bytes = 0;
    EXPECT_TRUE(absl::SimpleAtoi(MetadataOf(refused, "session_bytes"), &bytes));
    return bytes;
  }

  // What it is counted as there; none can be made.
  uint64_t CountedOfCap(uint64_t cap) {
    EngineOptions options;
    options.store_budget_bytes = 1;
    Start(options);
    return Counted(Create("refused", cap));
  }

  size_t LargestSnapshot() {
    std::vector<SessionUid> uids;
    EXPECT_TRUE(store_
                    .ForEach([&uids](const StoredSession& session) {
                      uids.push_back(session.card.uid);
                    })
                    .ok());
    size_t bytes = 0;
    for (const SessionUid& uid : uids) {
      bytes = std::max(bytes, store_.Read(uid)->snapshot.size());
    }
    return bytes;
  }

  absl::Status SetCap(const std::string& id, uint64_t cap) {
    return harness_->Work(id,
                          engine().UpdateWork({.context_cap = cap},
                                              std::make_shared<SessionInfo>()));
  }

  absl::Status Checkpoint(const std::string& parent, const std::string& id) {
    ForkOptions options;
    options.ids = {CheckpointId(id)};
    options.checkpoints = true;
    return harness_->Work(
        parent, engine().ForkWork(options, std::make_shared<Forks>()));
  }

  MemoryStore store_;
  std::optional<EngineHarness> harness_;
};

TEST_F(EngineStoreChargesTest, ASessionCountsAsWhatItTakesWhenItIsFull) {
  for (const uint64_t cap : {uint64_t{16}, uint64_t{2000}, uint64_t{4000}}) {
    const uint64_t counted = CountedOfCap(cap);
    EngineOptions options;
    options.store_budget_bytes = 2 * counted - 1;
    Start(options);
    ASSERT_TRUE(Create("a", cap).ok());
    EXPECT_EQ(Counted(Create("b", cap)), counted);
    const auto filled = harness_->Step(StepOf("a", MakeTokens(cap, 1)));
    ASSERT_TRUE(filled.ok()) << filled.status();
    ASSERT_TRUE(harness_->Hibernate("a").ok());
    EXPECT_LE(LargestSnapshot(), counted) << cap;
    // All that it may remember is counted, however little that is yet.
    EXPECT_GE(LargestSnapshot() + kRemembered, counted) << cap;
    // The next one that has the store counts it as much.
    Start(options);
    EXPECT_EQ(Counted(Create("b", cap)), counted);
    ASSERT_TRUE(engine().DeleteSession("a").ok());
    EXPECT_TRUE(Create("b", cap).ok());
    ASSERT_TRUE(engine().DeleteSession("b").ok());
  }
}

TEST_F(EngineStoreChargesTest, AnotherCapIsAnotherCharge) {
  const uint64_t small = CountedOfCap(16);
  const uint64_t large = CountedOfCap(2000);
  ASSERT_LT(2 * small, large);
  EngineOptions options;
  options.store_budget_bytes = large + small - 1;
  Start(options);
  ASSERT_TRUE(Create("a", 16).ok());
  ASSERT_TRUE(Create("b", 16).ok());
  EXPECT_EQ(ReasonOf(SetCap("a", 2000)), ErrorReason::kStateBudgetExhausted);
  ASSERT_TRUE(engine().DeleteSession("b").ok());
  ASSERT_TRUE(SetCap("a", 2000).ok());
  EXPECT_EQ(ReasonOf(Create("b", 16)), ErrorReason::kStateBudgetExhausted);
  ASSERT_TRUE(SetCap("a", 1000).ok());
  EXPECT_TRUE(Create("b", 16).ok());
}

TEST_F(EngineStoreChargesTest, ACheckpointCountsAsWhatItIs) {
  const uint64_t full = CountedOfCap(2000);
  const uint64_t early = CountedOfCap(20);
  EngineOptions options;
  options.store_budget_bytes = full + 3 * early;
  options.max_checkpoints = 100;
  Start(options);
  ASSERT_TRUE(Create("a", 2000).ok());
  ASSERT_TRUE(harness_->Step(StepOf("a", MakeTokens(20, 1))).ok());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(Checkpoint("a", absl::StrCat("c", i)).ok()) << i;
  }
  EXPECT_EQ(Counted(Checkpoint("a", "more")), early);
  EXPECT_EQ(engine().StoreSessions(absl::Minutes(1)), 0u);
  Start(options);
  EXPECT_EQ(Counted(Create("b", 20)), early);
  ASSERT_TRUE(harness_->engine().DeleteSession(CheckpointId("c0")).ok());
  EXPECT_TRUE(Create("b", 20).ok());
}

// 16 MB of them a second, whatever sessions may become.
TEST_F(EngineStoreChargesTest, SnapshotsKeepThePaceOfWhatTheyTake) {
  EngineOptions options;
  options.durability = Durability::kLog;
  options.max_replay = absl::Milliseconds(1);
  Start(options);
  ASSERT_TRUE(Create("a", kMost).ok());
  const auto steps_until = [this](size_t puts, int most) {
    int steps = 0;
    while (store_.puts() < puts && steps < most) {
      EXPECT_TRUE(harness_->Step(StepOf("a", {1})).ok());
      ++steps;
    }
    return steps;
  };
  // A step counts for 10 us at least, also by a clock that stands still.
  const size_t first = store_.puts() + 1;
  ASSERT_LT(steps_until(first, 500), 500);
  EXPECT_EQ(steps_until(first + 1, 200), 200);
  // It takes less than 200 KB, and would take 2 MB.
  harness_->clock().Advance(absl::Milliseconds(15));
  EXPECT_LT(steps_until(first + 1, 200), 200);
}

}  // namespace
}  // namespace steadystate::engine_store_charges_test
