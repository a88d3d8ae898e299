// Goal: a session that leaves the store is what it was or gone for good, at
// whatever moment the process ends; who asked for it is told when it is gone,
// and until then its name is nobody else's. Method: copies of a store in
// memory, taken while the keeper's thread is held between two steps, or after
// the log has failed, and other engines on those.
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/base/error.h"
#include "server/session/session_id.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/testing/end_receiver.h"
#include "tests/testing/memory_store.h"
#include "tests/testing/parked_threads.h"

namespace steadystate::engine_removal_test {
namespace {

EngineOptions Logged(Durability durability = Durability::kLog) {
  EngineOptions options;
  options.durability = durability;
  return options;
}

class EngineRemovalTest : public testing::Test {
 protected:
  EngineRemovalTest() { Start(); }

  void Start(const EngineOptions& options = Logged()) {
    harness_.reset();
    harness_.emplace(options, SharedTinyModel(), &store_);
  }

  Engine& engine() { return harness_->engine(); }

  std::vector<float> Logits(const std::string& session,
                            std::vector<int32_t> tokens) {
    const auto result = harness_->Step(StepOf(session, std::move(tokens)));
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->logits : std::vector<float>();
  }

  absl::StatusOr<SessionInfo> Create(
      const std::string& id,
      std::optional<Durability> durability = std::nullopt) {
    SessionOptions options;
    options.id = id;
    options.durability = durability;
    return harness_->Create(options);
  }

  void Hibernate(const std::string& session) {
    const absl::Status stored = harness_->Hibernate(session);
    ASSERT_TRUE(stored.ok()) << stored;
  }

  void Rewind(const std::string& session, uint64_t position) {
    const absl::Status rewound = harness_->Work(
        session, engine().RewindWork({.position = position},
                                     std::make_shared<SessionInfo>()));
    EXPECT_TRUE(rewound.ok()) << rewound;
  }

  // -> how it ends, refusals included.
  Future<absl::Status> Delete(const std::string& id) {
    Future<absl::Status> removed;
    const absl::Status begun = engine().DeleteSession(
        id, [removed](const absl::Status& status) { removed.Set(status); });
    if (!begun.ok()) removed.Set(begun);
    return removed;
  }

  // The log fails no more, and is known not to.
  void MendLog() {
    store_.FailLog(false);
    harness_->clock().Advance(absl::Seconds(2));
    while (absl::IsUnavailable(Create("probe").status())) {
      std::this_thread::yield();
    }
  }

  // The time passes until the next attempt comes to where it is held.
  void AwaitAttempt(const ThreadHold& hold) {
    while (hold.count() == 0) {
      harness_->clock().Advance(absl::Milliseconds(100));
      std::this_thread::yield();
    }
    hold.WaitUntilHeld();
  }

  // What another process finds that begins now.
  std::unique_ptr<MemoryStore> CopyOfDisk() {
    auto disk = std::make_unique<MemoryStore>();
    store_.CopyTo(*disk);
    return disk;
  }

  MemoryStore store_;
  std::optional<EngineHarness> harness_;
};

TEST_F(EngineRemovalTest, WhoIsKilledWhileItIsDeletedIsWhatItWasOrGone) {
  // Of a way back only the database knows, of what follows only the log.
  EngineHarness alone;
  alone.CreateSession("a");
  for (const auto& tokens : {std::vector<int32_t>{1}, {9, 9}}) {
    ASSERT_TRUE(alone.Step(StepOf("a", tokens)).ok());
  }
  const std::vector<float> next = alone.Step(StepOf("a", {7}))->logits;
  for (const char* const place :
       {"SessionRemover::LogSome", "MemoryStore::AppendRound",
        "SessionKeeper::RemoveSome", "SessionKeeper::RemoveSome, done"}) {
    Start(Logged(Durability::kSync));
    ASSERT_TRUE(Create("a").ok());
    Logits("a", {1, 2, 3});
    Rewind("a", 1);
    Logits("a", {9, 9});
    ThreadHold hold(place);
    const Future<absl::Status> removed = Delete("a");
    hold.WaitUntilHeld();
    const auto disk = CopyOfDisk();
    hold.Release();
    EXPECT_TRUE(removed.Get().ok()) << place;
    EngineHarness later(Logged(), SharedTinyModel(), disk.get());
    const auto info = later.engine().GetSession("a");
    const std::string at = place;
    ASSERT_EQ(info.ok(), at.find("RemoveSome") == std::string::npos) << place;
    if (!info.ok()) continue;
    EXPECT_EQ(info->position, 3u) << place;
    const auto answer = later.Step(StepOf("a", {7}));
    ASSERT_TRUE(answer.ok()) << place << answer.status();
    EXPECT_EQ(answer->logits, next) << place;
  }
}

TEST_F(EngineRemovalTest, ALossOfPowerMustNotTakeTheLogsWordAlone) {
  ASSERT_TRUE(Create("a").ok());
  Logits("a", {1, 2, 3});
  Rewind("a", 1);
  store_.MayLosePuts();
  EXPECT_TRUE(Delete("a").Get().ok());
  // The log has not been synced: what the database has is there still.
  const auto disk = CopyOfDisk();
  disk->LosePower(/*rounds_left=*/0, /*puts_left=*/100);
  {
    EngineHarness later(Logged(), SharedTinyModel(), disk.get());
    const auto info = later.engine().GetSession("a");
    ASSERT_TRUE(!info.ok() || info->position == 1u) << info->position;
    if (info.ok()) {
      EXPECT_TRUE(later.Step(StepOf("a", {7})).ok());
    }
  }
  // When it is, that goes.
  EXPECT_EQ(store_.size(), 1u);
  harness_->clock().Advance(absl::Seconds(1));
  while (store_.size() > 0) std::this_thread::yield();
}

TEST_F(EngineRemovalTest, WhatTheLogCannotSayIsDeletedStaysWhatItIs) {
  ASSERT_TRUE(Create("a").ok());
  Logits("a", {1, 2, 3});
  Rewind("a", 1);
  store_.FailLog(true);
  EXPECT_EQ(ReasonOf(Delete("a").Get()), ErrorReason::kStoreUnavailable);
  const auto disk = CopyOfDisk();
  EngineHarness later(Logged(), SharedTinyModel(), disk.get());
  const auto info = later.engine().GetSession("a");
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->position, 1u);
  EXPECT_TRUE(later.Step(StepOf("a", {7})).ok());
}

TEST_F(EngineRemovalTest, TheLogKeepsWhatADeletionThatFailsMayBringBack) {
  ASSERT_TRUE(Create("a").ok());
  for (int i = 0; i < 3; ++i) Logits("a", {i});
  store_.FailLog(true);
  EXPECT_FALSE(Delete("a").Get().ok());
  // Before it is tried again the log has been cut as far as it can be.
  ThreadHold hold("SessionRemover::LogSome");
  AwaitAttempt(hold);
  const auto disk = CopyOfDisk();
  hold.Release();
  EngineHarness later(Logged(), SharedTinyModel(), disk.get());
  EXPECT_EQ(later.Position("a"), 3u);
}

TEST_F(EngineRemovalTest, WhatIsBeingDeletedIsNeitherThereNorGone) {
  ASSERT_TRUE(Create("a").ok());
  ASSERT_TRUE(Create("b").ok());
  Logits("a", {1});
  store_.FailLog(true);
  EXPECT_EQ(ReasonOf(Delete("a").Get()), ErrorReason::kStoreUnavailable);
  for (const absl::Status& status :
       {Delete("a").Get(), engine().GetSession("a").status(),
        Create("a").status(), Create("a", Durability::kNone).status(),
        harness_->Step(StepOf("a", {1})).status()}) {
    EXPECT_EQ(ReasonOf(status), ErrorReason::kStoreUnavailable) << status;
    EXPECT_TRUE(GetErrorDetails(status)->retry_after.has_value()) << status;
  }
  EXPECT_EQ(harness_->Position("b"), 0u);
  ThreadHold hold("SessionRemover::LogSome");
  AwaitAttempt(hold);
  MendLog();
  const Future<absl::Status> again = Delete("a");
  hold.Release();
  EXPECT_TRUE(again.Get().ok()) << again.Get();
  EXPECT_EQ(ReasonOf(engine().GetSession("a").status()),
            ErrorReason::kSessionNotFound);
  ASSERT_TRUE(Create("a").ok());
  Start();
  EXPECT_EQ(harness_->Position("a"), 0u);
}

TEST_F(EngineRemovalTest, TheSameOfACheckpointAndOfWhatNoLogKnows) {
  for (const Durability durability :
       {Durability::kShutdown, Durability::kLog}) {
    Start(Logged(durability));
    ASSERT_TRUE(Create("a").ok());
    Logits("a", {1});
    ForkOptions fork;
    fork.ids = {CheckpointId("c")};
    fork.checkpoints = true;
    ASSERT_TRUE(
        harness_->Work("a", engine().ForkWork(fork, std::make_shared<Forks>()))
            .ok());
    Hibernate(CheckpointId("c"));
    store_.FailWrites(true);
    store_.FailLog(true);
    EXPECT_FALSE(Delete(CheckpointId("c")).Get().ok());
    EXPECT_EQ(ReasonOf(Delete(CheckpointId("c")).Get()),
              ErrorReason::kStoreUnavailable);
    EXPECT_EQ(ReasonOf(engine().GetSession(CheckpointId("c")).status()),
              ErrorReason::kStoreUnavailable);
    store_.FailWrites(false);
    MendLog();
    absl::Status gone;
    do {
      gone = Delete(CheckpointId("c")).Get();
      harness_->clock().Advance(absl::Seconds(2));
    } while (absl::IsUnavailable(gone));
    EXPECT_TRUE(gone.ok() || ReasonOf(gone) == ErrorReason::kCheckpointNotFound)
        << gone;
    const auto disk = CopyOfDisk();
    EngineHarness later(Logged(), SharedTinyModel(), disk.get());
    EXPECT_FALSE(later.engine().GetSession(CheckpointId("c")).ok());
    ASSERT_TRUE(Delete("a").Get().ok());
    ASSERT_TRUE(Delete("probe").Get().ok());
  }
}

TEST_F(EngineRemovalTest, WhoIsDeletedBeforeItGoesBackIsNotFound) {
  // Without a log the database is told at once.
  Start(Logged(Durability::kShutdown));
  for (const char* const session : {"a", "other", "third"}) {
    ASSERT_TRUE(Create(session).ok());
    Logits(session, {1, 2, 3});
  }
  for (const char* const session : {"a", "other"}) Hibernate(session);
  Logits("a", {4, 5});
  ThreadHold hold("MemoryStore::Read");
  const StepFuture wakes = harness_->StepAsync(StepOf("other", {4}));
  hold.WaitUntilHeld();
  // What comes now waits for the keeper's thread.
  Future<absl::Status> done;
  WorkRequest back =
      engine().RewindWork({.position = 4}, std::make_shared<SessionInfo>());
  back.session = "a";
  back.writer = engine().NewWriter();
  SubmitThen(engine(), std::move(back),
             [done](const auto& end) { done.Set(end.status()); });
  Logits("third", {4});
  const Future<absl::Status> removed = Delete("a");
  hold.Release();
  EXPECT_EQ(ReasonOf(done.Get()), ErrorReason::kSessionNotFound);
  EXPECT_TRUE(removed.Get().ok());
  EXPECT_TRUE(wakes.Get().ok());
}

}  // namespace
}  // namespace steadystate::engine_removal_test
