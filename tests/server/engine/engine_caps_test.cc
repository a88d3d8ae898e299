// Goal: a session of a model with softmax layers absorbs as many tokens as its
// own cap says, is charged exactly for those, and can be given another cap
// while there is room; nothing else of it changes by that, in memory, in a
// store, over a kill and in another server. Method: one model whose sessions
// may have caps of up to 256 tokens, in budgets that are counted to the byte.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/base/error.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/testing/memory_store.h"

namespace steadystate::engine_caps_test {
namespace {

constexpr uint64_t kUsual = 64;
constexpr uint64_t kMost = 256;

std::shared_ptr<const Model> SharedModel() {
  static const auto* const model =
      new std::shared_ptr<const Model>(LoadModelOfCaps(kUsual, kMost));
  return *model;
}

uint64_t Charge(uint64_t cap, const EngineOptions& options = {}) {
  return SessionLayoutOf(*SharedModel(), options).charge_bytes(cap);
}

EngineOptions WithMemory(uint64_t bytes) {
  EngineOptions options;
  options.state_memory_bytes = bytes;
  return options;
}

class EngineCapsTest : public testing::Test {
 protected:
  void Start(const EngineOptions& options = {}, SessionStore* store = nullptr) {
    harness_.emplace(options, SharedModel(), store);
  }

  Engine& engine() { return harness_->engine(); }

  absl::StatusOr<SessionInfo> TryCreate(const std::string& id,
                                        std::optional<uint64_t> cap) {
    SessionOptions options;
    options.id = id;
    options.context_cap = cap;
    return harness_->Create(options);
  }
  void Create(const std::string& id, std::optional<uint64_t> cap) {
    const auto created = TryCreate(id, cap);
    EXPECT_TRUE(created.ok()) << created.status();
  }

  absl::StatusOr<StepRecord> TryStep(const std::string& session, size_t tokens,
                                     uint64_t seed = 1) {
    return harness_->Step(StepOf(session, MakeTokens(tokens, seed)));
  }
  std::vector<float> Step(const std::string& session, size_t tokens,
                          uint64_t seed = 1) {
    const auto result = TryStep(session, tokens, seed);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->logits : std::vector<float>();
  }

  absl::StatusOr<SessionInfo> Update(const std::string& session,
                                     const SessionChanges& changes) {
    const auto updated = std::make_shared<SessionInfo>();
    const absl::Status status =
        harness_->Work(session, engine().UpdateWork(changes, updated));
    if (!status.ok()) return status;
    return *updated;
  }
  absl::Status SetCap(const std::string& session, uint64_t cap) {
    return Update(session, {.context_cap = cap}).status();
  }

  absl::Status Fork(const std::string& parent, const std::string& id,
                    std::optional<uint64_t> cap, bool checkpoint = false) {
    ForkOptions options;
    options.ids = {checkpoint ? CheckpointId(id) : id};
    options.checkpoints = checkpoint;
    options.context_cap = cap;
    return harness_->Work(
        parent, engine().ForkWork(options, std::make_shared<Forks>()));
  }

  std::string Export(const std::string& session) {
    const auto exported = std::make_shared<Engine::Export>();
    EXPECT_TRUE(harness_->Work(session, engine().ExportWork(exported)).ok());
    return exported->snapshot;
  }
  absl::StatusOr<SessionInfo> Import(const std::string& id,
                                     const std::string& snapshot,
                                     std::optional<uint64_t> cap = {}) {
    SessionOptions options;
    options.id = id;
    options.context_cap = cap;
    const auto created = std::make_shared<SessionInfo>();
    const absl::Status status =
        harness_->Work("", engine().ImportWork(snapshot, options, created));
    return status.ok() ? absl::StatusOr<SessionInfo>(*created) : status;
  }
  // One that may begin with a prompt that is kept.
  absl::StatusOr<SessionInfo> CreateWithPrefix(const std::string& id,
                                               uint64_t cap,
                                               uint64_t seed = 5) {
    SessionOptions options;
    options.id = id;
    options.context_cap = cap;
    const auto created = std::make_shared<SessionInfo>();
    const absl::Status status = harness_->Work(
        "", engine().CreateWork(MakeTokens(96, seed), options, created));
    return status.ok() ? absl::StatusOr<SessionInfo>(*created) : status;
  }

  SessionInfo Get(const std::string& session) {
    const auto info = engine().GetSession(session);
    EXPECT_TRUE(info.ok()) << info.status();
    return info.ok() ? *info : SessionInfo();
  }

  void Delete(const std::string& session) {
    EXPECT_TRUE(engine().DeleteSession(session).ok());
  }

  double StateBytes() { return harness_->Metric({"steadystate_state_bytes{"}); }

  MemoryStore store_;
  std::optional<EngineHarness> harness_;
};

TEST_F(EngineCapsTest, ASessionAbsorbsAsManyTokensAsItAskedFor) {
  Start();
  EXPECT_EQ(engine().max_context_cap(), kMost);
  Create("usual", std::nullopt);
  Create("small", 16);
  Create("large", kMost);
  EXPECT_EQ(Get("usual").context_cap, kUsual);
  EXPECT_EQ(Get("small").context_cap, 16u);
  EXPECT_EQ(Get("small").state_bytes, Charge(16));
  EXPECT_EQ(Get("large").state_bytes, Charge(kMost));
  for (const auto& [id, cap] : std::map<std::string, uint64_t>{
           {"usual", kUsual}, {"small", 16}, {"large", kMost}}) {
    Step(id, cap - 1);
    Step(id, 1);
    const absl::Status full = TryStep(id, 1).status();
    EXPECT_EQ(ReasonOf(full), ErrorReason::kContextCapReached) << id;
    EXPECT_EQ(MetadataOf(full, "context_cap"), absl::StrCat(cap));
    EXPECT_EQ(Get(id).position, cap);
  }
}

TEST_F(EngineCapsTest, CapsThatNoSessionCanHaveAreRefused) {
  Start();
  for (const uint64_t cap : {uint64_t{0}, kMost + 1, UINT64_MAX}) {
    const absl::Status refused = TryCreate("a", cap).status();
    EXPECT_EQ(ReasonOf(refused), ErrorReason::kInvalidArgument) << cap;
    EXPECT_EQ(MetadataOf(refused, "field"), "session.context_cap");
    EXPECT_TRUE(absl::StrContains(refused.message(), "--max_context_cap"));
  }
  // What memory could not hold, not even alone.
  Start(WithMemory(Charge(100)));
  EXPECT_EQ(engine().max_context_cap(), 100u);
  const absl::Status refused = TryCreate("a", 101).status();
  EXPECT_TRUE(absl::StrContains(refused.message(), "--state_memory"));
  Create("a", 100);
  EngineHarness unbounded;
  SessionOptions options;
  options.context_cap = 10;
  EXPECT_EQ(ReasonOf(unbounded.Create(options).status()),
            ErrorReason::kInvalidArgument);
}

TEST_F(EngineCapsTest, SessionsAreChargedForTheirCapsToTheByte) {
  Start(WithMemory(Charge(kMost) + 2 * Charge(16) + Charge(17) - 1));
  Create("large", kMost);
  Create("one", 16);
  Create("two", 16);
  EXPECT_EQ(StateBytes(), Charge(kMost) + 2 * Charge(16));
  EXPECT_EQ(ReasonOf(TryCreate("more", 17).status()),
            ErrorReason::kStateBudgetExhausted);
  Create("three", 16);
  // All of what they are charged for is theirs.
  for (const char* const id : {"one", "two", "three"}) Step(id, 16);
  Step("large", kMost);
  Delete("large");
  const uint64_t fit =
      (Charge(kMost) + Charge(17) - 1 - Charge(16)) / Charge(16);
  EXPECT_GE(fit, 2u);
  for (uint64_t i = 0; i < fit; ++i) {
    Create(absl::StrCat("new", i), 16);
    Step(absl::StrCat("new", i), 16);
  }
  EXPECT_EQ(ReasonOf(TryCreate("more", 16).status()),
            ErrorReason::kStateBudgetExhausted);
}

TEST_F(EngineCapsTest, ACapIsRaisedWhereThereIsRoom) {
  Start(WithMemory(Charge(16) + Charge(100) - 1));
  Create("a", 16);
  Create("b", 16);
  Step("a", 16);
  EXPECT_EQ(ReasonOf(SetCap("a", 100)), ErrorReason::kStateBudgetExhausted);
  EXPECT_EQ(Get("a").context_cap, 16u);
  EXPECT_EQ(StateBytes(), 2 * Charge(16));
  EXPECT_TRUE(SetCap("a", 99).ok());
  EXPECT_EQ(StateBytes(), Charge(16) + Charge(99));
  Step("a", 83);
  EXPECT_EQ(ReasonOf(TryStep("a", 1).status()),
            ErrorReason::kContextCapReached);
  // Not below what it has absorbed.
  EXPECT_EQ(ReasonOf(SetCap("a", 98)), ErrorReason::kContextCapReached);
  EXPECT_EQ(ReasonOf(SetCap("a", kMost + 1)), ErrorReason::kInvalidArgument);
  EXPECT_TRUE(SetCap("b", 8).ok());
  EXPECT_EQ(StateBytes(), Charge(8) + Charge(99));
}

TEST_F(EngineCapsTest, TheCapChangesNoBits) {
  Start();
  Create("whole", kMost);
  Create("grown", 16);
  Step("whole", 16);
  Step("grown", 16);
  ASSERT_TRUE(SetCap("grown", 130).ok());
  EXPECT_EQ(Step("grown", 100, 2), Step("whole", 100, 2));
  ASSERT_TRUE(SetCap("grown", 117).ok());
  EXPECT_EQ(Step("grown", 1, 3), Step("whole", 1, 3));
}

TEST_F(EngineCapsTest, CopiesHaveTheCapOfWhatTheyAreCopiesOf) {
  Start();
  Create("a", 100);
  Step("a", 50);
  ASSERT_TRUE(Fork("a", "same", std::nullopt).ok());
  ASSERT_TRUE(Fork("a", "larger", 200).ok());
  ASSERT_TRUE(Fork("a", "smaller", 51).ok());
  EXPECT_EQ(ReasonOf(Fork("a", "none", 49)), ErrorReason::kContextCapReached);
  ASSERT_TRUE(Fork("a", "kept", std::nullopt, /*checkpoint=*/true).ok());
  ASSERT_TRUE(Fork(CheckpointId("kept"), "begun", std::nullopt).ok());
  ASSERT_TRUE(Fork(CheckpointId("kept"), "grown", 200).ok());
  // "a", "same", "kept" and "begun"; "larger" and "grown"; "smaller".
  EXPECT_EQ(StateBytes(), 4 * Charge(100) + 2 * Charge(200) + Charge(51));
  const std::vector<float> next = Step("a", 1, 9);
  for (const auto& [id, cap] :
       std::map<std::string, uint64_t>{{"same", 100},
                                       {"larger", 200},
                                       {"smaller", 51},
                                       {"begun", 100},
                                       {"grown", 200}}) {
    EXPECT_EQ(Get(id).context_cap, cap) << id;
    EXPECT_EQ(Step(id, 1, 9), next) << id;
    EXPECT_EQ(Get(id).position, 51u);
  }
  EXPECT_EQ(ReasonOf(TryStep("smaller", 1).status()),
            ErrorReason::kContextCapReached);
  Step("grown", 149);
}

// What a session could not hold it cannot be made, either.
TEST_F(EngineCapsTest, ACheckpointBeyondTheCapIsNoWayBack) {
  Start();
  Create("a", 100);
  Step("a", 50);
  ASSERT_TRUE(Fork("a", "kept", std::nullopt, /*checkpoint=*/true).ok());
  Create("b", 20);
  Step("b", 10);
  const auto rewound = std::make_shared<SessionInfo>();
  const PastPoint to = {.checkpoint = CheckpointId("kept")};
  EXPECT_EQ(ReasonOf(harness_->Work("b", engine().RewindWork(to, rewound))),
            ErrorReason::kContextCapReached);
  EXPECT_EQ(Get("b").position, 10u);
  ASSERT_TRUE(SetCap("b", 60).ok());
  ASSERT_TRUE(harness_->Work("b", engine().RewindWork(to, rewound)).ok());
  EXPECT_EQ(Step("b", 1, 9), Step("a", 1, 9));
}

TEST_F(EngineCapsTest, ForksOfOtherCapsFitWhereTheyAreCharged) {
  Start(WithMemory(Charge(20) + Charge(200) + 3 * Charge(60)));
  Create("a", 20);
  Step("a", 20);
  ASSERT_TRUE(Fork("a", "large", 200).ok());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(Fork("a", absl::StrCat("f", i), 60).ok());
  }
  EXPECT_EQ(ReasonOf(Fork("a", "more", 20)),
            ErrorReason::kStateBudgetExhausted);
  for (int i = 0; i < 3; ++i) Step(absl::StrCat("f", i), 40);
  Step("large", 180);
}

TEST_F(EngineCapsTest, SnapshotsInMemoryAreChargedAsWell) {
  EngineOptions options;
  options.snapshots = 2;
  options.history = 64;
  options.state_memory_bytes = Charge(40, options) + Charge(80, options);
  Start(options);
  Create("a", 40);
  Create("b", 40);
  for (uint64_t i = 0; i < 40; ++i) {
    Step("a", 1, i);
    Step("b", 1, i);
  }
  EXPECT_EQ(ReasonOf(SetCap("a", 81)), ErrorReason::kStateBudgetExhausted);
  ASSERT_TRUE(SetCap("a", 80).ok());
  for (uint64_t i = 40; i < 80; ++i) Step("a", 1, i);
  const auto rewound = std::make_shared<SessionInfo>();
  ASSERT_TRUE(
      harness_->Work("a", engine().RewindWork({.position = 60}, rewound)).ok());
  EXPECT_EQ(rewound->context_cap, 80u);
  for (uint64_t i = 60; i < 80; ++i) Step("a", 1, i);
}

TEST_F(EngineCapsTest, CapsOutliveTheEngine) {
  for (const Durability durability :
       {Durability::kShutdown, Durability::kLog}) {
    EngineOptions options;
    options.durability = durability;
    MemoryStore store;
    Start(options, &store);
    Create("a", 100);
    Create("usual", std::nullopt);
    Step("a", 30);
    Step("usual", 30);
    ASSERT_TRUE(SetCap("a", 110).ok());
    if (durability == Durability::kShutdown) {
      EXPECT_EQ(engine().StoreSessions(absl::Minutes(1)), 0u);
    }
    harness_.reset();  // else as a kill would
    Start(options, &store);
    EXPECT_EQ(Get("a").context_cap, 110u);
    EXPECT_EQ(Get("usual").context_cap, kUsual);
    Step("a", 80);
    EXPECT_EQ(ReasonOf(TryStep("a", 1).status()),
              ErrorReason::kContextCapReached);
    harness_.reset();
  }
}

TEST_F(EngineCapsTest, WhatIsChangedOutlivesAKill) {
  EngineOptions options;
  options.durability = Durability::kLog;
  Start(options, &store_);
  Create("a", 100);
  Step("a", 3);
  const auto updated =
      Update("a", {.ttl = absl::Minutes(7),
                   .labels = std::map<std::string, std::string>{{"k", "v"}}});
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(updated->ttl, absl::Minutes(7));
  EXPECT_EQ(updated->context_cap, 100u);
  harness_.reset();
  Start(options, &store_);
  EXPECT_EQ(Get("a").ttl, absl::Minutes(7));
  EXPECT_EQ(Get("a").labels.at("k"), "v");
  EXPECT_EQ(Get("a").position, 3u);
  EXPECT_EQ(ReasonOf(Update("a", {.ttl = absl::ZeroDuration()}).status()),
            ErrorReason::kInvalidArgument);
  EXPECT_EQ(Get("a").ttl, absl::Minutes(7));
}

TEST_F(EngineCapsTest, WhatTheStoreDoesNotTakeIsNotChanged) {
  EngineOptions options;
  options.durability = Durability::kLog;
  Start(options, &store_);
  Create("a", 100);
  Step("a", 3);
  store_.FailWrites(true);
  EXPECT_EQ(ReasonOf(SetCap("a", 200)), ErrorReason::kStoreUnavailable);
  store_.FailWrites(false);
  EXPECT_EQ(Get("a").context_cap, 100u);
  while (!TryStep("a", 1).ok()) harness_->clock().Advance(absl::Seconds(1));
  harness_.reset();
  Start(options, &store_);
  EXPECT_EQ(Get("a").context_cap, 100u);
  EXPECT_EQ(Get("a").position, 4u);
}

// One that is large pushes out as many as its place takes.
TEST_F(EngineCapsTest, SessionsOfAllCapsTakeTurnsInLittleMemory) {
  Start(WithMemory(Charge(kMost)), &store_);
  std::map<std::string, std::vector<float>> expected;
  EngineHarness alone({}, SharedModel());
  for (int i = 0; i < 8; ++i) {
    const std::string id = absl::StrCat("s", i);
    Create(id, 20);
    alone.CreateSession(id);
  }
  Create("large", kMost);
  alone.CreateSession("large");
  for (uint64_t round = 0; round < 5; ++round) {
    for (int i = 0; i < 8; ++i) {
      const std::string id = absl::StrCat("s", i);
      const auto same = alone.Step(StepOf(id, MakeTokens(4, round)));
      EXPECT_EQ(Step(id, 4, round), same->logits);
    }
    const auto same = alone.Step(StepOf("large", MakeTokens(12, round)));
    EXPECT_EQ(Step("large", 12, round), same->logits);
  }
  EXPECT_LE(StateBytes(), Charge(kMost));
}

// Memory may be less, and the bound another, than where they were made.
TEST_F(EngineCapsTest, ACapThatIsTooLargeHereIsWhatFits) {
  Start({}, &store_);
  Create("far", kMost);
  Create("near", kMost);
  Step("far", 150);
  Step("near", 50);
  EXPECT_EQ(engine().StoreSessions(absl::Minutes(1)), 0u);
  harness_.reset();
  Start(WithMemory(Charge(100)), &store_);
  EXPECT_EQ(Get("near").context_cap, 100u);
  Step("near", 50);
  EXPECT_EQ(ReasonOf(TryStep("far", 1).status()),
            ErrorReason::kContextCapReached);
  EXPECT_EQ(engine().StoreSessions(absl::Minutes(1)), 0u);
  harness_.reset();
  Start({}, &store_);
  EXPECT_EQ(Get("far").position, 150u);
  Step("far", 50);
}

// What a server refuses for its own bounds it leaves as it was asked for.
TEST_F(EngineCapsTest, WhatAServerCannotGiveIsWrittenDownAllTheSame) {
  for (const bool by_memory : {true, false}) {
    MemoryStore store;
    Start({}, &store);
    Create("far", 200);
    Create("near", 200);
    Step("far", 150);
    Step("near", 50);
    ASSERT_TRUE(Fork("far", "kept", std::nullopt, /*checkpoint=*/true).ok());
    EXPECT_EQ(engine().StoreSessions(absl::Minutes(1)), 0u);
    if (by_memory) {
      Start(WithMemory(Charge(100)), &store);
    } else {
      harness_.emplace(EngineOptions(), LoadModelOfCaps(kUsual, 100), &store);
    }
    harness_->clock().Advance(absl::Minutes(1));
    EXPECT_EQ(Get("near").context_cap, 100u);
    Step("near", 1);
    ASSERT_TRUE(Fork("near", "copy", std::nullopt).ok());
    const absl::Status refused = TryStep("far", 1).status();
    EXPECT_EQ(ReasonOf(refused), ErrorReason::kContextCapReached);
    EXPECT_EQ(MetadataOf(refused, "position"), "150");
    EXPECT_EQ(MetadataOf(refused, "context_cap"), "100");
    EXPECT_TRUE(absl::StrContains(
        refused.message(), by_memory ? "--state_memory" : "--max_context_cap"))
        << refused;
    const absl::Status no_copy =
        Fork(CheckpointId("kept"), "begun", std::nullopt);
    EXPECT_EQ(ReasonOf(no_copy), ErrorReason::kContextCapReached);
    EXPECT_TRUE(absl::StrContains(
        no_copy.message(), by_memory ? "--state_memory" : "--max_context_cap"));
    EXPECT_EQ(engine().StoreSessions(absl::Minutes(1)), 0u);
    Start({}, &store);
    for (const char* const id : {"far", "near", "copy"}) {
      EXPECT_EQ(Get(id).context_cap, 200u) << id;
      Step(id, 1);
    }
    Step("far", 49);
    ASSERT_TRUE(Fork(CheckpointId("kept"), "begun", std::nullopt).ok());
    EXPECT_EQ(Get("begun").context_cap, 200u);
    Step("begun", 50);
    harness_.reset();
  }
}

TEST_F(EngineCapsTest, ALowerCapThatIsAskedForThereIsKept) {
  Start({}, &store_);
  Create("a", 200);
  Step("a", 50);
  EXPECT_EQ(engine().StoreSessions(absl::Minutes(1)), 0u);
  Start(WithMemory(Charge(100)), &store_);
  ASSERT_TRUE(SetCap("a", 60).ok());
  Start({}, &store_);
  EXPECT_EQ(Get("a").context_cap, 60u);
}

// Servers before this one wrote down a cap below what a session has absorbed.
TEST_F(EngineCapsTest, AStoredCapBelowThePositionIsRaised) {
  Start({}, &store_);
  Create("a", 200);
  Create("b", 200);
  Step("a", 150);
  Step("b", 150);
  ASSERT_TRUE(Fork("a", "kept", std::nullopt, /*checkpoint=*/true).ok());
  EXPECT_EQ(engine().StoreSessions(absl::Minutes(1)), 0u);
  harness_.reset();
  std::vector<StoredChange> changes;
  ASSERT_TRUE(store_
                  .ForEach([&changes](StoredSession session) {
                    session.card.context_cap = 100;
                    changes.push_back({.session = std::move(session)});
                  })
                  .ok());
  ASSERT_TRUE(store_.PutChanges(changes).ok());
  Start({}, &store_);
  EXPECT_EQ(Get("a").context_cap, 150u);
  EXPECT_EQ(ReasonOf(TryStep("a", 1).status()),
            ErrorReason::kContextCapReached);
  ASSERT_TRUE(SetCap("a", 200).ok());
  Step("a", 50);
  const auto rewound = std::make_shared<SessionInfo>();
  ASSERT_TRUE(
      harness_->Work("b", engine().RewindWork({.position = 0}, rewound)).ok());
  Step("b", 150);
  ASSERT_TRUE(Fork(CheckpointId("kept"), "begun", 200).ok());
  Step("begun", 50);
}

TEST_F(EngineCapsTest, AnImportThatIsGivenLessKeepsTheCapThatItHad) {
  Start();
  Create("a", 200);
  Step("a", 50);
  const auto exported = std::make_shared<Engine::Export>();
  ASSERT_TRUE(harness_->Work("a", engine().ExportWork(exported)).ok());
  Start(WithMemory(Charge(100)), &store_);
  SessionOptions options;
  options.id = "b";
  const auto created = std::make_shared<SessionInfo>();
  ASSERT_TRUE(
      harness_
          ->Work("", engine().ImportWork(exported->snapshot, options, created))
          .ok());
  EXPECT_EQ(created->context_cap, 100u);
  EXPECT_EQ(engine().StoreSessions(absl::Minutes(1)), 0u);
  Start({}, &store_);
  EXPECT_EQ(Get("b").context_cap, 200u);
}

TEST_F(EngineCapsTest, IdleSessionsLeaveMemoryForALargerCap) {
  Start();
  Create("far", 100);
  Step("far", 2);
  const std::string snapshot = Export("far");
  Start(WithMemory(3 * Charge(kUsual)), &store_);
  const auto fill = [this](uint64_t seed) {
    for (const char* const id : {"a", "b", "c"}) {
      harness_->clock().Advance(absl::Seconds(1));
      Step(id, 1, seed);
    }
    const auto full = static_cast<double>(3 * Charge(kUsual));
    while (StateBytes() != full) std::this_thread::yield();
  };
  EngineHarness alone({}, SharedModel());
  for (const char* const id : {"a", "b", "c"}) Create(id, kUsual);
  alone.CreateSession("a");
  for (uint64_t i = 0; i < 3; ++i) {
    (void)alone.Step(StepOf("a", MakeTokens(1, i)));
  }
  fill(0);
  EXPECT_TRUE(Import("imported", snapshot).ok());
  fill(1);
  EXPECT_TRUE(CreateWithPrefix("created", 100).ok());
  fill(2);
  ASSERT_TRUE(SetCap("a", 100).ok());
  EXPECT_EQ(Step("a", 20, 9),
            alone.Step(StepOf("a", MakeTokens(20, 9)))->logits);
  EXPECT_EQ(Get("a").context_cap, 100u);
  Step("imported", 98);
  Step("created", 100);
}

// Whoever cannot leave memory does not.
TEST_F(EngineCapsTest, ACapIsNotRaisedWhereNoSessionIsIdle) {
  Start(WithMemory(2 * Charge(kUsual)), &store_);
  Create("a", kUsual);
  Step("a", 1);
  StepRequest request = StepOf("stays", {1});
  request.ephemeral = true;
  ASSERT_TRUE(harness_->Step(std::move(request)).ok());
  const absl::Status refused = SetCap("a", 100);
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kStateBudgetExhausted);
  EXPECT_EQ(MetadataOf(refused, "session_bytes"), absl::StrCat(Charge(100)));
  EXPECT_EQ(Get("a").context_cap, kUsual);
  Delete("stays");
  EXPECT_TRUE(SetCap("a", 100).ok());
}

TEST_F(EngineCapsTest, NoSessionIsChargedForMoreThanItAsksFor) {
  Start();
  Create("a", 16);
  Step("a", 2);
  const std::string snapshot = Export("a");
  Start(WithMemory(Charge(kUsual) + Charge(16)));
  Create("full", std::nullopt);
  ASSERT_TRUE(CreateWithPrefix("created", 16).ok());
  EXPECT_EQ(ReasonOf(CreateWithPrefix("more", 1).status()),
            ErrorReason::kStateBudgetExhausted);
  Step("created", 16);
  Delete("created");
  ASSERT_TRUE(Import("imported", snapshot).ok());
  EXPECT_EQ(Get("imported").context_cap, 16u);
  Step("imported", 14);
  EXPECT_EQ(StateBytes(), Charge(kUsual) + Charge(16));
  EXPECT_EQ(ReasonOf(Import("more", "no snapshot").status()),
            ErrorReason::kStateBudgetExhausted);
}

TEST_F(EngineCapsTest, WhatIsKeptOfPromptsGivesWayToALargerCap) {
  EngineOptions options = WithMemory(3 * Charge(kUsual));
  options.prefill_chunk_rows = 16;
  options.prefix_cache = 4;
  Start(options);
  Create("a", kUsual);
  GenerateRequest request = GenerateOf("a", MakeTokens(16, 5), 0);
  request.reuse_prefix = true;
  ASSERT_TRUE(harness_->Generate(request)->done().Get().ok());
  while (harness_->Metric({"steadystate_kept_prompts{"}) != 1) {
    std::this_thread::yield();
  }
  Create("b", kUsual);
  EXPECT_TRUE(SetCap("b", 100).ok());
  Step("b", 100);
}

TEST_F(EngineCapsTest, CapsGoFromServerToServer) {
  Start();
  Create("a", 100);
  Step("a", 80);
  const std::string snapshot = Export("a");
  const auto import = [&](std::optional<uint64_t> cap) {
    return Import(absl::StrCat("cap-", cap.value_or(0)), snapshot, cap);
  };
  EXPECT_EQ(import(std::nullopt)->context_cap, 100u);
  EXPECT_EQ(import(200)->context_cap, 200u);
  EXPECT_EQ(ReasonOf(import(79).status()), ErrorReason::kContextCapReached);
  EXPECT_EQ(Step("cap-200", 20, 4), Step("a", 20, 4));
  Step("cap-200", 100);
  EXPECT_EQ(StateBytes(), 2 * Charge(100) + Charge(200));
}

TEST_F(EngineCapsTest, APrefixBeyondTheCapIsNotReused) {
  EngineOptions options;
  options.prefill_chunk_rows = 16;
  options.prefix_cache = 4;
  Start(options);
  Create("a", 200);
  GenerateRequest request = GenerateOf("a", MakeTokens(96, 5), 0);
  request.reuse_prefix = true;
  ASSERT_TRUE(harness_->Generate(request)->done().Get().ok());
  const auto begin = [&](const std::string& id, uint64_t cap) {
    const auto created = CreateWithPrefix(id, cap);
    EXPECT_TRUE(created.ok()) << created.status();
    EXPECT_EQ(created->context_cap, cap);
    return created->position;
  };
  EXPECT_EQ(begin("long", 100), 96u);
  EXPECT_EQ(begin("short", 40), 0u);
}

}  // namespace
}  // namespace steadystate::engine_caps_test
