// Goal: where a session goes back, or is forked, is the same to the next
// process as it was to this one: forks are there all or none, and a request
// that was under way at a snapshot is not taken up again from there. Method:
// copies of what the store has, taken at a moment as a kill would leave it, are
// opened by other engines.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/base/error.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/testing/memory_store.h"
#include "tests/testing/parked_threads.h"

namespace steadystate::engine_stored_ways_test {
namespace {

EngineOptions Logged() {
  EngineOptions options;
  options.durability = Durability::kLog;
  return options;
}

class EngineStoredWaysTest : public testing::Test {
 protected:
  void Start(const EngineOptions& options) {
    harness_.emplace(options, SharedTinyModel(), &*store_);
  }

  Engine& engine() { return harness_->engine(); }

  void Create(const std::string& id) {
    SessionOptions options;
    options.id = id;
    const auto created = harness_->Create(options);
    ASSERT_TRUE(created.ok()) << created.status();
  }

  absl::Status Fork(const std::string& parent,
                    const std::vector<std::string>& ids,
                    std::optional<uint64_t> position = std::nullopt) {
    ForkOptions options;
    options.ids = ids;
    options.count = ids.size();
    options.at.position = position;
    return harness_->Work(
        parent, engine().ForkWork(options, std::make_shared<Forks>()));
  }

  // The process ends here, as a kill would end it.
  void Kill(const EngineOptions& options) {
    harness_.reset();
    Start(options);
  }

  std::optional<MemoryStore> store_{std::in_place};
  std::optional<EngineHarness> harness_;
};

// What the next engine has of them while they are written, and afterwards.
TEST_F(EngineStoredWaysTest, ForksAreThereAllOrNone) {
  constexpr size_t kForks = 40;
  EngineOptions few = Logged();
  few.state_memory_bytes =
      SessionLayoutOf(*SharedTinyModel(), few).charge_bytes();
  // Made in memory first, and in the store alone, for want of memory.
  for (const EngineOptions& options : {Logged(), few}) {
    Start(options);
    Create("a");
    ASSERT_TRUE(harness_->Step(StepOf("a", {1, 2, 3})).ok());
    std::vector<std::string> ids;
    for (size_t i = 0; i < kForks; ++i) ids.push_back(absl::StrCat("f", i));
    const auto forks_left = [this] {
      MemoryStore left;
      store_->CopyTo(left);
      EngineHarness next(Logged(), SharedTinyModel(), &left);
      return next.engine().ListSessions(1000, "")->sessions.size() - 1;
    };
    {
      ThreadHold hold("SessionSaver::PutMade");
      ForkOptions fork;
      fork.ids = ids;
      fork.count = kForks;
      const Future<absl::Status> forked = harness_->WorkAsync(
          "a", engine().ForkWork(fork, std::make_shared<Forks>()));
      hold.WaitUntilHeld();
      EXPECT_GE(store_->size(), kForks);
      EXPECT_EQ(forks_left(), 0u);
      hold.Release();
      ASSERT_TRUE(forked.Get().ok()) << forked.Get();
    }
    EXPECT_EQ(forks_left(), kForks);
    EXPECT_TRUE(harness_->Step(StepOf("f7", {4})).ok());
    harness_.reset();
    store_.emplace();
  }
}

// A generation in whose midst a snapshot was taken.
class UnderWayTest : public EngineStoredWaysTest {
 protected:
  static EngineOptions Options() {
    EngineOptions options = Logged();
    options.max_replay = absl::Milliseconds(1);
    options.history = 64;
    return options;
  }

  static GenerateRequest Request(const std::string& session) {
    GenerateRequest request = GenerateOf(session, {1, 2, 3}, 400);
    request.ignore_eos = true;
    request.request_id = "once";
    request.expected_position = 0;
    return request;
  }

  // -> where it was taken; nothing has been absorbed for long after that.
  uint64_t Generate() {
    Start(Options());
    Create("a");
    const size_t puts = store_->puts();
    std::optional<ComputeHold> hold(std::in_place, *harness_);
    RequestId id = 0;
    const auto recorder = harness_->Generate(Request("a"), &id);
    recorder->set_on_item([this, puts, id](size_t) {
      harness_->clock().Advance(absl::Milliseconds(1));
      // A few more, and it ends.
      if (store_->puts() > puts && ++after_ == 10) engine().Cancel(id);
    });
    hold.reset();
    (void)recorder->done().Get();
    const auto info = engine().GetSession("a");
    EXPECT_TRUE(info.ok()) << info.status();
    EXPECT_GT(info->earliest_position, 0u);
    EXPECT_LT(info->earliest_position, info->position);
    return info->earliest_position;
  }

  void ExpectOver(const std::string& session) {
    const auto again = harness_->Generate(Request(session))->done().Get();
    EXPECT_EQ(ReasonOf(again.status()), ErrorReason::kPositionMismatch)
        << session << ": " << again.status();
  }

  void Rewind(uint64_t position) {
    const absl::Status rewound = harness_->Work(
        "a", engine().RewindWork({.position = position},
                                 std::make_shared<SessionInfo>()));
    ASSERT_TRUE(rewound.ok()) << rewound;
  }

 private:
  size_t after_ = 0;  // confined to the compute thread
};

TEST_F(UnderWayTest, ItIsOverInASessionThatIsTakenBack) {
  const uint64_t position = Generate();
  Rewind(position);
  ExpectOver("a");
  Kill(Options());
  EXPECT_EQ(engine().GetSession("a")->position, position);
  ExpectOver("a");
  // What is made of that.
  ASSERT_TRUE(Fork("a", {"fork"}).ok());
  ExpectOver("fork");
}

TEST_F(UnderWayTest, ItIsOverInAForkThatTheStoreAloneHas) {
  const uint64_t position = Generate();
  EngineOptions few = Options();
  few.state_memory_bytes =
      SessionLayoutOf(*SharedTinyModel(), few).charge_bytes();
  Kill(few);
  ASSERT_TRUE(Fork("a", {"b", "c"}, position).ok());
  ExpectOver("b");
  Kill(few);
  ExpectOver("c");
}

// Nothing of it was absorbed beyond: there it goes on, wherever the state lies.
TEST_F(EngineStoredWaysTest, WhatWasCutGoesOnWhereItWasCut) {
  const auto request = [](const std::string& session) {
    GenerateRequest generate = GenerateOf(session, {1, 2, 3}, 40);
    generate.ignore_eos = true;
    generate.request_id = "cut";
    generate.expected_position = 0;
    return generate;
  };
  EngineHarness alone;
  alone.CreateSession("a");
  const auto whole = alone.Generate(request("a"));
  ASSERT_TRUE(whole->done().Get().ok());
  const auto tokens_of = [](const auto& recorder) {
    std::vector<int32_t> tokens;
    for (const GeneratedToken& item : recorder->items()) {
      tokens.push_back(item.token);
    }
    return tokens;
  };
  Start(Logged());
  Create("a");
  RequestId id = 0;
  std::optional<ComputeHold> hold(std::in_place, *harness_);
  const auto cut = harness_->Generate(request("a"), &id);
  cut->set_limit(10);
  hold.reset();
  cut->AwaitItems(10);
  engine().Cancel(id);
  (void)cut->done().Get();
  const uint64_t position = harness_->Position("a");
  const absl::Status hibernated = harness_->Hibernate("a");
  ASSERT_TRUE(hibernated.ok()) << hibernated;
  ASSERT_TRUE(harness_->Step(StepOf("a", {7})).ok());
  ASSERT_TRUE(Fork("a", {"b", "c"}, position).ok());
  const absl::Status rewound =
      harness_->Work("a", engine().RewindWork({.position = position},
                                              std::make_shared<SessionInfo>()));
  ASSERT_TRUE(rewound.ok()) << rewound;
  for (const char* const session : {"a", "b", "c"}) {
    if (session[0] == 'c') Kill(Logged());
    const auto again = harness_->Generate(request(session));
    ASSERT_TRUE(again->done().Get().ok()) << again->done().Get().status();
    EXPECT_EQ(tokens_of(again), tokens_of(whole)) << session;
  }
}

// Embeddings after that are nothing to a fork.
TEST_F(EngineStoredWaysTest, AForkTellsHowFarItGoesBackOverAKill) {
  const size_t width = SharedTinyModel()->description().hidden_size;
  Start(Logged());
  Create("a");
  ASSERT_TRUE(harness_->Step(StepOf("a", MakeTokens(12, 1))).ok());
  StepRequest embeddings = StepOf("a", {});
  embeddings.embeddings = std::vector<float>(2 * width, 0.5f);
  ASSERT_TRUE(harness_->Step(embeddings).ok());
  ASSERT_TRUE(Fork("a", {"one"}, 10).ok());
  ASSERT_TRUE(Fork("a", {"two", "three"}, 10).ok());
  for (int kills = 0; kills < 2; ++kills) {
    for (const char* const session : {"one", "two", "three"}) {
      EXPECT_EQ(engine().GetSession(session)->earliest_position, 0u) << session;
    }
    Kill(Logged());
  }
}

}  // namespace
}  // namespace steadystate::engine_stored_ways_test
