// Goal: what one client has the keeper's thread do keeps no other client
// waiting for more than a turn. Method: the thread is held while one client
// orders much and another a little; work on sessions notes when it is done.
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/base/mutex.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/testing/memory_store.h"
#include "tests/testing/parked_threads.h"

namespace steadystate::engine_keeper_test {
namespace {

constexpr ClientId kGreedy = 1;
constexpr ClientId kOther = 2;
constexpr size_t kForks = 256;

class EngineKeeperTest : public testing::Test {
 protected:
  void Start(size_t in_memory = 64) {
    EngineOptions options;
    options.durability = Durability::kLog;
    options.state_memory_bytes =
        in_memory * SessionLayoutOf(*SharedTinyModel(), options).charge_bytes();
    harness_.emplace(options, SharedTinyModel(), &store_);
  }

  Engine& engine() { return harness_->engine(); }

  // With something in it, and in memory; idle for less than those before.
  void Create(const std::string& id) {
    harness_->clock().Advance(absl::Milliseconds(1));
    SessionOptions options;
    options.id = id;
    Future<absl::StatusOr<SessionInfo>> created;
    engine().CreateSession(options,
                           [created](const auto& info) { created.Set(info); });
    ASSERT_TRUE(created.Get().ok()) << created.Get().status();
    const auto stepped = harness_->Step(StepOf(id, {1}));
    ASSERT_TRUE(stepped.ok()) << stepped.status();
  }

  void Hibernate(const std::string& id) {
    const absl::Status hibernated = harness_->Hibernate(id);
    ASSERT_TRUE(hibernated.ok()) << hibernated;
  }

  // All that was submitted before is with the keeper, or computed. `warm` is a
  // session in memory, so its step does not need the keeper's thread.
  void AwaitOrdered(const std::string& warm) {
    EXPECT_TRUE(harness_->Step(StepOf(warm, {1})).ok());
  }

  // Work on the session that notes that it is done, or whatever `then` says.
  Future<absl::Status> Order(ClientId client, const std::string& id,
                             std::function<std::string()> then = nullptr) {
    WorkRequest work;
    work.client = client;
    work.work = [this, id, then = std::move(then)](Session&) {
      const MutexLock lock(mutex_);
      done_.push_back(then ? then() : id);
      return absl::OkStatus();
    };
    return harness_->WorkAsync(id, std::move(work));
  }

  Future<absl::Status> Fork(const std::string& id, ForkOptions options,
                            std::shared_ptr<Forks> forks) {
    WorkRequest work = engine().ForkWork(std::move(options), std::move(forks));
    work.client = kGreedy;
    return harness_->WorkAsync(id, std::move(work));
  }

  // Which of the events was the first one of the kind.
  std::optional<size_t> FirstOf(SessionEventKind kind) {
    const auto page = engine().session_events().Read({}, 0, 10'000);
    if (!page.ok()) return std::nullopt;
    for (size_t i = 0; i < page->events.size(); ++i) {
      if (page->events[i].kind == kind) return i;
    }
    return std::nullopt;
  }

  std::vector<std::string> done() {
    const MutexLock lock(mutex_);
    return done_;
  }

  MemoryStore store_;
  Mutex mutex_;
  std::vector<std::string> done_ ABSL_GUARDED_BY(mutex_);
  std::optional<EngineHarness> harness_;
};

TEST_F(EngineKeeperTest, ClientsTakeTurns) {
  Start();
  for (int i = 0; i < 6; ++i) Create(absl::StrCat("g", i));
  Create("other");
  Create("warm");
  std::vector<Future<absl::Status>> ended;
  ThreadHold hold("SessionKeeper::DoJob");
  ended.push_back(Order(kGreedy, "g0"));
  hold.WaitUntilHeld();
  for (int i = 1; i < 6; ++i) {
    ended.push_back(Order(kGreedy, absl::StrCat("g", i)));
  }
  ended.push_back(Order(kOther, "other"));
  AwaitOrdered("warm");
  hold.Release();
  for (const auto& each : ended) EXPECT_TRUE(each.Get().ok());
  const std::vector<std::string> done = this->done();
  ASSERT_EQ(done.size(), 7u);
  EXPECT_TRUE(done[1] == "other" || done[2] == "other") << done[1] << done[2];
}

TEST_F(EngineKeeperTest, OthersWakeBetweenTheSavesOfAFork) {
  Start();
  Create("greedy");
  Create("other");
  Create("warm");
  Hibernate("other");
  const auto forks = std::make_shared<Forks>();
  ForkOptions options;
  options.count = kForks;
  ThreadHold hold("SessionKeeper::SaveSome");
  const Future<absl::Status> forked = Fork("greedy", options, forks);
  hold.WaitUntilHeld();
  const Future<absl::Status> woken = Order(kOther, "other");
  AwaitOrdered("warm");
  hold.Release();
  EXPECT_TRUE(woken.Get().ok()) << woken.Get();
  ASSERT_TRUE(forked.Get().ok()) << forked.Get();
  const std::optional<size_t> wake = FirstOf(SessionEventKind::kWoken);
  ASSERT_TRUE(wake.has_value());
  EXPECT_LT(*wake, FirstOf(SessionEventKind::kForked));
  // All are there, and what the parent is.
  ASSERT_EQ(forks->ids.size(), kForks);
  const auto expected = harness_->Step(StepOf("greedy", {2}))->logits;
  for (const std::string& id : {forks->ids.front(), forks->ids.back()}) {
    EXPECT_EQ(harness_->Step(StepOf(id, {2}))->logits, expected);
  }
}

// Nobody finds those that are not safe yet, nor takes their names.
TEST_F(EngineKeeperTest, ForksAreThereWhenTheStoreHasThem) {
  Start();
  Create("parent");
  ForkOptions options;
  options.ids = {"a", "b"};
  const auto forks = std::make_shared<Forks>();
  ThreadHold hold("SessionSaver::Put");
  const Future<absl::Status> forked = Fork("parent", options, forks);
  hold.WaitUntilHeld();
  EXPECT_EQ(ReasonOf(engine().GetSession("a").status()),
            ErrorReason::kSessionNotFound);
  EXPECT_EQ(ReasonOf(engine().DeleteSession("a")),
            ErrorReason::kSessionNotFound);
  SessionOptions taken;
  taken.id = "b";
  EXPECT_EQ(ReasonOf(engine().CreateSession(taken).status()),
            ErrorReason::kSessionAlreadyExists);
  hold.Release();
  EXPECT_TRUE(forked.Get().ok()) << forked.Get();
  EXPECT_TRUE(harness_->Step(StepOf("a", {2})).ok());
  EXPECT_TRUE(harness_->Step(StepOf("b", {2})).ok());
}

TEST_F(EngineKeeperTest, ForksThatCannotBeStoredLeaveNothing) {
  Start();
  Create("parent");
  Create("other");
  Create("warm");
  ForkOptions options;
  for (size_t i = 0; i < 40; ++i) options.ids.push_back(absl::StrCat("f", i));
  ThreadHold hold("SessionKeeper::SaveSome");
  const Future<absl::Status> forked =
      Fork("parent", options, std::make_shared<Forks>());
  hold.WaitUntilHeld();
  // The first few are there before it fails.
  const Future<absl::Status> other = Order(kOther, "other", [this] {
    store_.FailWrites(true);
    return std::string("fails");
  });
  AwaitOrdered("warm");
  hold.Release();
  EXPECT_EQ(ReasonOf(forked.Get()), ErrorReason::kStoreUnavailable);
  store_.FailWrites(false);
  EXPECT_TRUE(other.Get().ok());
  for (const std::string& id : options.ids) {
    EXPECT_FALSE(engine().GetSession(id).ok());
  }
  harness_->clock().Advance(absl::Seconds(2));
  Create("f0");
  harness_.reset();
  Start();
  EXPECT_TRUE(engine().GetSession("f0").ok());
  EXPECT_FALSE(engine().GetSession("f1").ok());
}

TEST_F(EngineKeeperTest, WhoWaitsForASlotGetsOneHoweverMuchIsOrdered) {
  constexpr size_t kInMemory = 8;
  Start(kInMemory);
  Create("other");
  for (size_t i = 0; i < kInMemory; ++i) Create(absl::StrCat("g", i));
  // "other" has made room for the last; "g0" is idle.
  std::vector<Future<absl::Status>> ended;
  ThreadHold hold("SessionKeeper::DoJob");
  ended.push_back(Order(kGreedy, "g1"));
  hold.WaitUntilHeld();
  for (size_t i = 2; i + 1 < kInMemory; ++i) {
    ended.push_back(Order(kGreedy, absl::StrCat("g", i)));
  }
  ended.push_back(Order(kGreedy, absl::StrCat("g", kInMemory - 1), [this] {
    return std::string(FirstOf(SessionEventKind::kWoken) ? "after" : "before");
  }));
  ended.push_back(Order(kOther, "other"));
  AwaitOrdered("g0");
  hold.Release();
  for (const auto& each : ended) EXPECT_TRUE(each.Get().ok()) << each.Get();
  const std::vector<std::string> done = this->done();
  // The last of all that one client ordered came after the other's waking.
  EXPECT_EQ(std::count(done.begin(), done.end(), "after"), 1);
}

}  // namespace
}  // namespace steadystate::engine_keeper_test
