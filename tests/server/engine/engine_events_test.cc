// Goal: whatever happens to a session that can be named is told once, in its
// order, and nothing is told of others. Method: an engine in which everything
// happens; what has been told is compared with that, as text.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/session/session_events.h"
#include "server/session/session_id.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/testing/end_receiver.h"
#include "tests/testing/memory_store.h"
#include "tests/testing/parked_threads.h"

namespace steadystate::engine_events_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr const char* kKinds[] = {"created",    "forked",  "imported",
                                  "hibernated", "evicted", "woken",
                                  "rewound",    "expired", "deleted"};

// "forked b 3 of a".
std::string TextOf(const SessionEvent& event) {
  std::string text = absl::StrCat(kKinds[static_cast<size_t>(event.kind)], " ",
                                  event.id, " ", event.position);
  if (!event.parent.empty()) absl::StrAppend(&text, " of ", event.parent);
  return text;
}

// The memory of so many sessions.
EngineOptions OptionsFor(size_t sessions) {
  EngineOptions options;
  options.state_memory_bytes =
      sessions * SessionLayoutOf(*SharedTinyModel(), options).charge_bytes();
  return options;
}

class EngineEventsTest : public testing::Test {
 protected:
  void Start(const EngineOptions& options = OptionsFor(8),
             bool has_store = true) {
    harness_.emplace(options, SharedTinyModel(), has_store ? &store_ : nullptr);
  }
  Engine& engine() { return harness_->engine(); }

  void Step(const std::string& session, std::vector<int32_t> tokens) {
    const auto result = harness_->Step(StepOf(session, std::move(tokens)));
    EXPECT_TRUE(result.ok()) << result.status();
  }

  absl::Status Do(WorkRequest work, const std::string& session = "") {
    return harness_->Work(session, std::move(work));
  }
  void Fork(const std::string& session, const ForkOptions& options) {
    const absl::Status forked =
        Do(engine().ForkWork(options, std::make_shared<Forks>()), session);
    EXPECT_TRUE(forked.ok()) << forked;
  }
  void Hibernate(const std::string& session) {
    const absl::Status done = harness_->Hibernate(session);
    EXPECT_TRUE(done.ok()) << done;
  }

  // What has been told since the last call; waits for `count` of it.
  std::vector<std::string> News(size_t count) {
    while (engine().session_events().next() < from_ + count) {
      std::this_thread::yield();
    }
    const auto page = engine().session_events().Read({}, from_, 1000);
    EXPECT_TRUE(page.ok()) << page.status();
    std::vector<std::string> news;
    if (!page.ok()) return news;
    from_ = page->next;
    for (const SessionEvent& event : page->events) {
      news.push_back(TextOf(event));
    }
    return news;
  }

  MemoryStore store_;
  std::optional<EngineHarness> harness_;
  uint64_t from_ = 0;
};

TEST_F(EngineEventsTest, EverythingIsToldOnceInItsOrder) {
  EngineOptions options = OptionsFor(8);
  options.hibernate_after = 2 * options.session_ttl;
  Start(options);
  harness_->CreateSession("a");
  EXPECT_THAT(News(1), ElementsAre("created a 0"));
  Step("a", {1, 2, 3});
  ForkOptions forks;
  forks.ids = {"b", "c"};
  Fork("a", forks);
  EXPECT_THAT(News(2), ElementsAre("forked b 3 of a", "forked c 3 of a"));
  const auto exported = std::make_shared<Engine::Export>();
  ASSERT_TRUE(Do(engine().ExportWork(exported), "a").ok());
  SessionOptions imported;
  imported.id = "d";
  ASSERT_TRUE(Do(engine().ImportWork(exported->snapshot, imported,
                                     std::make_shared<SessionInfo>()))
                  .ok());
  EXPECT_THAT(News(1), ElementsAre("imported d 3"));
  Hibernate("a");
  EXPECT_THAT(News(1), ElementsAre("hibernated a 3"));
  // It is there already.
  Hibernate("a");
  Step("a", {4});
  EXPECT_THAT(News(1), ElementsAre("woken a 3"));
  ASSERT_TRUE(
      Do(engine().RewindWork({.position = 3}, std::make_shared<SessionInfo>()),
         "a")
          .ok());
  EXPECT_THAT(News(1), ElementsAre("rewound a 3"));
  ASSERT_TRUE(engine().DeleteSession("b").ok());
  EXPECT_THAT(News(1), ElementsAre("deleted b 3"));
  EXPECT_FALSE(engine().DeleteSession("b").ok());
  harness_->clock().Advance(options.session_ttl);
  EXPECT_THAT(News(3), UnorderedElementsAre("expired a 3", "expired c 3",
                                            "expired d 3"));
  EXPECT_THAT(News(0), IsEmpty());
  for (const auto& [kind, count] :
       std::vector<std::pair<std::string, int>>{{"created", 1},
                                                {"forked", 2},
                                                {"imported", 1},
                                                {"hibernated", 1},
                                                {"evicted", 0},
                                                {"woken", 1},
                                                {"rewound", 1},
                                                {"expired", 3},
                                                {"deleted", 1}}) {
    EXPECT_EQ(harness_->Metric({"steadystate_session_events_total{",
                                absl::StrCat("kind=\"", kind, "\"")}),
              count)
        << kind;
  }
}

TEST_F(EngineEventsTest, WhoGivesItsPlaceToAnotherIsEvicted) {
  Start(OptionsFor(1));
  harness_->CreateSession("a");
  harness_->CreateSession("b");
  Step("a", {1});
  Step("b", {1, 2});
  Step("a", {2});
  EXPECT_THAT(News(5), ElementsAre("created a 0", "created b 0", "evicted a 1",
                                   "evicted b 2", "woken a 1"));
  harness_->clock().Advance(engine().options().hibernate_after);
  EXPECT_THAT(News(1), ElementsAre("hibernated a 2"));
}

// Others' events are told while forks are made.
TEST_F(EngineEventsTest, AForkIsToldWithTheTimeAtWhichItIsThere) {
  Start();
  harness_->CreateSession("a");
  Step("a", {1});
  ForkOptions forks;
  forks.ids = {"b"};
  ThreadHold hold("SessionKeeper::SaveSome");
  const Future<absl::Status> forked = harness_->WorkAsync(
      "a", engine().ForkWork(forks, std::make_shared<Forks>()));
  hold.WaitUntilHeld();
  harness_->clock().Advance(absl::Seconds(1));
  harness_->CreateSession("c");
  hold.Release();
  ASSERT_TRUE(forked.Get().ok());
  const auto page = engine().session_events().Read({}, 0, 1000);
  ASSERT_TRUE(page.ok());
  ASSERT_EQ(page->events.size(), 3u);
  EXPECT_EQ(page->events[1].id, "c");
  EXPECT_EQ(page->events[2].id, "b");
  EXPECT_EQ(page->events[2].time, page->events[1].time);
}

TEST_F(EngineEventsTest, AnEventSaysWhichSessionAndWhen) {
  Start();
  harness_->CreateSession("a");
  const SessionInfo info = *engine().GetSession("a");
  harness_->clock().Advance(absl::Minutes(1));
  ASSERT_TRUE(engine().DeleteSession("a").ok());
  const auto page = engine().session_events().Read({}, 0, 10);
  ASSERT_EQ(page->events.size(), 2u);
  for (const SessionEvent& event : page->events) {
    EXPECT_EQ(ToString(event.uid), info.uid);
  }
  EXPECT_EQ(page->events[0].time, info.create_time);
  EXPECT_EQ(page->events[1].time, info.create_time + absl::Minutes(1));
}

TEST_F(EngineEventsTest, OthersThanSessionsWithANameAreNotToldOf) {
  Start();
  harness_->CreateSession("a");
  std::vector<int32_t> prompt = MakeTokens(200, 1);
  GenerateRequest request = GenerateOf("a", prompt, 1);
  request.reuse_prefix = true;
  EXPECT_TRUE(harness_->Generate(request)->done().Get().ok());
  EXPECT_TRUE(harness_->Score(ScoreOf("", {1, 2}))->done().Get().ok());
  EXPECT_THAT(News(1), ElementsAre("created a 0"));
  ForkOptions checkpoint;
  checkpoint.ids = {CheckpointId("kept")};
  checkpoint.checkpoints = true;
  Fork("a", checkpoint);
  const uint64_t position = harness_->Position("a");
  ForkOptions fork;
  fork.ids = {"b"};
  Fork(CheckpointId("kept"), fork);
  EXPECT_THAT(News(1),
              ElementsAre(absl::StrCat("created b ", position, " of !kept")));
  SessionOptions options;
  options.id = "c";
  const auto created = std::make_shared<SessionInfo>();
  ASSERT_TRUE(Do(engine().CreateWork(prompt, options, created)).ok());
  EXPECT_GT(created->position, 0u);
  EXPECT_THAT(News(1),
              ElementsAre(absl::StrCat("created c ", created->position)));
  EXPECT_TRUE(engine().DeleteSession(CheckpointId("kept")).ok());
  harness_->clock().Advance(engine().options().hibernate_after);
  EXPECT_THAT(News(3), UnorderedElementsAre(
                           absl::StrCat("hibernated a ", position),
                           absl::StrCat("hibernated b ", position),
                           absl::StrCat("hibernated c ", created->position)));
}

TEST_F(EngineEventsTest, NothingFollowsADeletion) {
  Start();
  harness_->CreateSession("a");
  Step("a", {1, 2, 3});
  Future<absl::Status> done;
  ThreadHold hold("SessionPast::Rewind, stored");
  WorkRequest work =
      engine().RewindWork({.position = 1}, std::make_shared<SessionInfo>());
  work.session = "a";
  work.writer = engine().NewWriter();
  SubmitThen(engine(), std::move(work),
             [done](const auto& end) { done.Set(end.status()); });
  hold.WaitUntilHeld();
  ASSERT_TRUE(engine().DeleteSession("a").ok());
  hold.Release();
  (void)done.Get();
  EXPECT_TRUE(engine().WaitIdle(absl::Minutes(1)));
  EXPECT_THAT(News(2), ElementsAre("created a 0", "deleted a 3"));
}

// It can be seen for as long as it takes to fail.
TEST_F(EngineEventsTest, ASessionThatCannotBeWrittenDownEnds) {
  Start();
  store_.FailLog(true);
  SessionOptions options;
  options.id = "a";
  options.durability = Durability::kLog;
  Future<absl::Status> done;
  engine().CreateSession(
      options, [done](const auto& created) { done.Set(created.status()); });
  EXPECT_FALSE(done.Get().ok());
  EXPECT_THAT(News(2), ElementsAre("created a 0", "deleted a 0"));
}

TEST_F(EngineEventsTest, WithoutAStoreAnIdleServerTellsOfExpiryToo) {
  Start(OptionsFor(8), /*has_store=*/false);
  constexpr size_t kSessions = 8;
  for (size_t i = 0; i < kSessions; ++i) {
    harness_->CreateSession(absl::StrCat(i));
  }
  News(kSessions);
  // Nobody asks for anything meanwhile.
  harness_->clock().Advance(engine().options().session_ttl);
  std::vector<std::string> expected;
  for (size_t i = 0; i < kSessions; ++i) {
    expected.push_back(absl::StrCat("expired ", i, " 0"));
  }
  EXPECT_THAT(News(kSessions), testing::UnorderedElementsAreArray(expected));
}

// Each session is created, perhaps forked, and ends: on several threads, with
// little memory.
TEST_F(EngineEventsTest, TheEventsOfEachSessionAreInOrder) {
  Start(OptionsFor(3));
  constexpr int kThreads = 3;
  constexpr int kRounds = 30;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([this, thread] {
      for (int round = 0; round < kRounds; ++round) {
        const std::string id = absl::StrCat("s", thread, "-", round);
        SessionOptions options;
        options.id = id;
        ASSERT_TRUE(engine().CreateSession(options).ok());
        Step(id, {1, 2});
        if (round % 3 == 0) Step(id, {3});
        ASSERT_TRUE(engine().DeleteSession(id).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto page = engine().session_events().Read({}, 0, 10'000);
  ASSERT_TRUE(page.ok()) << page.status();
  size_t whole = 0;
  std::map<std::string, SessionEventKind> last;
  for (const SessionEvent& event : page->events) {
    using enum SessionEventKind;
    const auto before = last.find(event.id);
    if (event.kind == kCreated) {
      EXPECT_EQ(before, last.end()) << event.id;
    } else {
      ASSERT_NE(before, last.end()) << event.id;
      EXPECT_NE(before->second, kDeleted) << event.id;
      if (event.kind == kWoken) {
        EXPECT_EQ(before->second, kEvicted) << event.id;
      }
    }
    last[event.id] = event.kind;
    if (event.kind == kDeleted) ++whole;
  }
  EXPECT_EQ(whole, size_t{kThreads} * kRounds);
}

}  // namespace
}  // namespace steadystate::engine_events_test
