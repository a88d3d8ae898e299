// Goal: a logged session expires when its clients were told that it would, also
// if the engine was killed meanwhile; whatever used it last. Method: copies of
// what the store has, taken at a moment as a kill would leave it, are opened by
// engines whose clocks are later.
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "server/base/error.h"
#include "server/session/log_entry.h"
#include "server/session/session_id.h"
#include "server/session/session_table.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/testing/manual_clock.h"
#include "tests/testing/memory_store.h"

namespace steadystate::engine_expiry_test {
namespace {

constexpr absl::Duration kTtl = absl::Seconds(10);

EngineOptions Logged() {
  EngineOptions options;
  options.durability = Durability::kLog;
  // The journal waits for no sync by a clock that jumps.
  options.log_sync_interval = absl::Hours(1);
  return options;
}

StepRequest First() {
  StepRequest request = StepOf("a", {1, 2, 3});
  request.outputs.logits = false;
  request.outputs.hidden = false;
  request.request_id = "first";
  request.expected_position = 0;
  return request;
}

class EngineExpiryTest : public testing::Test {
 protected:
  EngineExpiryTest() { Start(Logged()); }

  void Start(const EngineOptions& options) {
    harness_.emplace(options, SharedTinyModel(), &store_);
    passed_ = absl::ZeroDuration();
  }

  Engine& engine() { return harness_->engine(); }

  void Create(const std::string& id, absl::Duration ttl = kTtl) {
    SessionOptions options;
    options.id = id;
    options.ttl = ttl;
    const auto created = harness_->Create(options);
    ASSERT_TRUE(created.ok()) << created.status();
  }

  void Pass(absl::Duration time) {
    harness_->clock().Advance(time);
    passed_ += time;
  }

  absl::Time ExpiryToldOf(const std::string& id) {
    const auto info = engine().GetSession(id);
    EXPECT_TRUE(info.ok()) << info.status();
    return info.ok() ? info->expire_time : absl::Time();
  }

  // What was said to the log before is there: a creation is answered when its
  // round is.
  void AwaitLog() { Create(absl::StrCat("last-", ++last_)); }

  // How many entries of that kind the log has.
  size_t LoggedUses() {
    AwaitLog();
    size_t uses = 0;
    const auto count = [&uses](uint64_t, const LogEntry& entry) {
      uses += entry.kind == LogEntryKind::kUsed ? 1 : 0;
    };
    EXPECT_TRUE(store_
                    .ForEachRound(0,
                                  [&count](uint64_t, absl::string_view round) {
                                    EXPECT_TRUE(ForEachEntry(round, count));
                                  })
                    .ok());
    return uses;
  }

  // What an engine that begins so much later says of a session, if this one is
  // killed now.
  absl::StatusOr<SessionInfo> AfterKill(
      const std::string& id, absl::Duration later = absl::Milliseconds(1)) {
    AwaitLog();
    return InNext(id, later);
  }
  // The same of what the store has by now.
  absl::StatusOr<SessionInfo> InNext(const std::string& id,
                                     absl::Duration later) {
    MemoryStore left;
    store_.CopyTo(left);
    Metrics metrics("tiny");
    ManualClock clock;
    clock.Advance(passed_ + later);
    const auto next =
        Engine::Create(Logged(), SharedTinyModel(), clock, metrics, &left);
    EXPECT_TRUE(next.ok()) << next.status();
    if (!next.ok()) return next.status();
    return (*next)->GetSession(id);
  }

  void ExpectExpiryAfterKill(absl::Time told) {
    const auto info = AfterKill("a");
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(info->expire_time, told);
    EXPECT_EQ(info->position, 3u);
  }

  // A generation on session a whose client does not read.
  std::shared_ptr<Recorder<GenerateRequest>> Paused() {
    ComputeHold hold(*harness_);
    GenerateRequest request = GenerateOf("a", {1, 2, 3}, 300);
    request.ignore_eos = true;
    auto generation = harness_->Generate(std::move(request));
    generation->set_limit(4);
    hold.Release();
    generation->AwaitItems(4);
    return generation;
  }

  // The keeper's thread, and whoever asks for sessions, sees the time.
  void PassInUse(absl::Duration time) {
    const absl::Duration step = kTtl / (2 * SessionTable::kLooksInTtl);
    for (; time > absl::ZeroDuration(); time -= step) {
      Pass(std::min(time, step));
      ASSERT_TRUE(engine().ListSessions(1, "").ok());
    }
  }

  void ExpectInUseAfterKill() {
    const absl::Time told = ExpiryToldOf("a");
    EXPECT_EQ(told, harness_->clock().WallNow() + kTtl);
    const auto info = AfterKill("a");
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_GT(info->expire_time, told - kTtl / 8);
    EXPECT_LE(info->expire_time, told);
  }

  MemoryStore store_;
  std::optional<EngineHarness> harness_;
  int last_ = 0;
  absl::Duration passed_;  // by the harness's clock
};

TEST_F(EngineExpiryTest, WhateverPutsItOffIsWrittenDown) {
  Create("a");
  ASSERT_TRUE(harness_->Step(First()).ok());
  ForkOptions fork;
  fork.ids = {"fork"};
  ForkOptions checkpoint;
  checkpoint.ids = {CheckpointId("checkpoint")};
  checkpoint.checkpoints = true;
  const std::pair<const char*, std::function<absl::Status()>> uses[] = {
      {"repeat", [&] { return harness_->Step(First()).status(); }},
      {"fork",
       [&] {
         return harness_->Work(
             "a", engine().ForkWork(fork, std::make_shared<Forks>()));
       }},
      {"checkpoint",
       [&] {
         return harness_->Work(
             "a", engine().ForkWork(checkpoint, std::make_shared<Forks>()));
       }},
      {"export",
       [&] {
         return harness_->Work(
             "a", engine().ExportWork(std::make_shared<Engine::Export>()));
       }},
      {"norms",
       [&] {
         return harness_->Work(
             "a", engine().NormsWork(std::make_shared<Engine::Norms>()));
       }},
      {"rewind", [&] {
         return harness_->Work(
             "a", engine().RewindWork({.position = 3},
                                      std::make_shared<SessionInfo>()));
       }}};
  for (const auto& [name, use] : uses) {
    SCOPED_TRACE(name);
    Pass(kTtl - absl::Seconds(2));
    const absl::Status used = use();
    ASSERT_TRUE(used.ok()) << used;
    const absl::Time told = ExpiryToldOf("a");
    EXPECT_EQ(told, harness_->clock().WallNow() + kTtl);
    ExpectExpiryAfterKill(told);
  }
  // And no more than that.
  EXPECT_EQ(ReasonOf(AfterKill("a", kTtl).status()),
            ErrorReason::kSessionExpired);
}

TEST_F(EngineExpiryTest, OfManyUsesAFewAreWrittenDown) {
  const auto norms = [this](const std::string& id) {
    const absl::Status used = harness_->Work(
        id, engine().NormsWork(std::make_shared<Engine::Norms>()));
    ASSERT_TRUE(used.ok()) << used;
  };
  Create("long", absl::Hours(1));
  Create("short", absl::Seconds(4));
  ASSERT_TRUE(harness_->Step(StepOf("long", {1})).ok());
  ASSERT_TRUE(harness_->Step(StepOf("short", {1})).ok());
  EXPECT_EQ(LoggedUses(), 0u);
  for (int i = 0; i < 100; ++i) {
    Pass(absl::Milliseconds(25));
    norms("long");
    norms("short");
  }
  // In 2.5 seconds: once a second; and once in a sixteenth of its ttl.
  EXPECT_EQ(LoggedUses(), 2u + 10u);
  for (const char* const id : {"long", "short"}) {
    const absl::Time told = ExpiryToldOf(id);
    const auto info = AfterKill(id);
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_LE(info->expire_time, told);
    EXPECT_GT(info->expire_time, told - absl::Seconds(1));
  }
}

// The session is in the store and not in memory when a request ends, and the
// log fails to say so.
TEST_F(EngineExpiryTest, WhatTheLogCannotSayIsSaidBySnapshots) {
  Create("a");
  ASSERT_TRUE(harness_->Step(First()).ok());
  harness_.reset();
  Start(Logged());
  ASSERT_EQ(engine().GetSession("a")->tier, SessionTier::kStored);
  Pass(kTtl / 2);
  store_.FailReads(true);
  const auto failed = harness_->Step(StepOf("a", {4}));
  EXPECT_EQ(ReasonOf(failed.status()), ErrorReason::kStoreUnavailable);
  const absl::Time told = ExpiryToldOf("a");
  EXPECT_EQ(told, harness_->clock().WallNow() + kTtl);
  store_.FailLog(true);
  // This round fails, and what the log was told before may be lost with it.
  SessionOptions options;
  options.id = "lost";
  Future<absl::Status> lost;
  engine().CreateSession(options,
                         [lost](const auto& info) { lost.Set(info.status()); });
  EXPECT_EQ(ReasonOf(lost.Get()), ErrorReason::kStoreUnavailable);
  const size_t puts = store_.puts();
  store_.FailReads(false);
  // The keeper's thread has then made an end of what reads failed for, and
  // leaves the store alone for no more than a second from now.
  harness_->Hibernate("a").IgnoreError();
  Pass(absl::Seconds(1));
  while (store_.puts() == puts) std::this_thread::yield();
  const auto info = InNext("a", absl::ZeroDuration());
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->expire_time, told);
  EXPECT_EQ(info->position, 3u);
}

TEST_F(EngineExpiryTest, WhoseClientDoesNotReadIsInUse) {
  Create("a");
  const auto generation = Paused();
  PassInUse(3 * kTtl);
  ExpectInUseAfterKill();
  generation->set_limit(SIZE_MAX);
}

// What joins a generation ends its pause for a moment.
TEST_F(EngineExpiryTest, WhoIsLookedAtWhileItsClientDoesNotReadIsInUse) {
  Create("a");
  const auto generation = Paused();
  for (int i = 0; i < 12; ++i) {
    PassInUse(kTtl / 4);
    const absl::Status used = harness_->Work(
        "a", engine().NormsWork(std::make_shared<Engine::Norms>()));
    ASSERT_TRUE(used.ok()) << used;
  }
  ExpectInUseAfterKill();
  generation->set_limit(SIZE_MAX);
}

TEST_F(EngineExpiryTest, WhoWaitsForItsTurnIsInUse) {
  Create("a");
  ASSERT_TRUE(harness_->Step(First()).ok());
  ComputeHold hold(*harness_);
  const StepFuture waits = harness_->StepAsync(StepOf("a", {4}));
  PassInUse(3 * kTtl);
  ExpectInUseAfterKill();
  hold.Release();
  EXPECT_TRUE(waits.Get().ok());
}

}  // namespace
}  // namespace steadystate::engine_expiry_test
