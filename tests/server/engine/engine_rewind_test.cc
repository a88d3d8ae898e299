// Goal: a session that is taken back is, to the byte and to the unfinished
// character, what it would be had it absorbed nothing since; so is a copy of it
// as it was; and what cannot be reached is refused with how far it goes.
// Method: random requests, with states kept in memory, in a store or nowhere,
// in engines that are killed in between; whenever a session has gone back, its
// requests up to there are sent to a session of another engine, and what comes
// next is compared.
#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/base/error.h"
#include "server/session/session_id.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/testing/end_receiver.h"
#include "tests/testing/memory_store.h"
#include "tests/testing/parked_threads.h"

namespace steadystate::engine_rewind_test {
namespace {

// Where states are kept.
enum class Kept : uint8_t { kNowhere, kInMemory, kInStore, kInStoreAndLog };

// A request: tokens that are given, or so many that are drawn.
struct Deed {
  std::vector<int32_t> tokens{};
  uint64_t drawn = 0;
  uint64_t seed = 0;

  uint64_t size() const { return drawn + tokens.size(); }
};

struct Outcome {
  std::vector<float> logits{};
  std::vector<int32_t> drawn{};
  std::string text{};

  bool operator==(const Outcome&) const = default;
};

Outcome Do(EngineHarness& harness, const std::string& session,
           const Deed& deed) {
  Outcome outcome;
  if (deed.drawn == 0) {
    const auto result = harness.Step(StepOf(session, deed.tokens));
    EXPECT_TRUE(result.ok()) << result.status();
    if (result.ok()) outcome.logits = result->logits;
    return outcome;
  }
  GenerateRequest request = GenerateOf(session, deed.tokens, deed.drawn);
  request.sampling.temperature = 1.5;
  request.sampling.seed = deed.seed;
  request.sampling.frequency_penalty = 0.5;
  request.ignore_eos = true;
  const auto recorder = harness.Generate(std::move(request));
  EXPECT_TRUE(recorder->done().Get().ok()) << recorder->done().Get().status();
  for (const GeneratedToken& item : recorder->items()) {
    outcome.drawn.push_back(item.token);
    outcome.text += item.text_delta;
  }
  return outcome;
}

absl::Status Work(EngineHarness& harness, const std::string& session,
                  WorkRequest work) {
  work.session = session;
  work.writer = harness.engine().NewWriter();
  Future<absl::Status> done;
  SubmitThen(harness.engine(), std::move(work),
             [done](const auto& end) { done.Set(end.status()); });
  // The engine's thread has the other one still.
  return done.Get().ok() ? absl::OkStatus() : CloneError(done.Get());
}

absl::Status Rewind(EngineHarness& harness, const std::string& session,
                    const PastPoint& to, SessionInfo* rewound = nullptr) {
  const auto info = std::make_shared<SessionInfo>();
  absl::Status status =
      Work(harness, session, harness.engine().RewindWork(to, info));
  if (rewound != nullptr) *rewound = *info;
  return status;
}

absl::Status ForkAt(EngineHarness& harness, const std::string& session,
                    const std::vector<std::string>& ids,
                    std::optional<uint64_t> position) {
  ForkOptions options;
  options.ids = ids;
  options.count = ids.size();
  options.at.position = position;
  const auto forks = std::make_shared<Forks>();
  return Work(harness, session, harness.engine().ForkWork(options, forks));
}

class EngineRewindTest : public testing::TestWithParam<Kept> {
 protected:
  EngineRewindTest() { Start(); }

  bool HasStore() const { return GetParam() >= Kept::kInStore; }

  void Start() {
    EngineOptions options;
    options.history = kHistory;
    if (GetParam() == Kept::kInMemory) options.snapshots = 3;
    if (GetParam() == Kept::kInStoreAndLog) {
      options.durability = Durability::kLog;
    }
    harness_.reset();
    harness_.emplace(options, SharedTinyModel(),
                     HasStore() ? &store_ : nullptr);
  }

  SessionInfo Info(const std::string& session) {
    const auto info = harness_->engine().GetSession(session);
    EXPECT_TRUE(info.ok()) << info.status();
    return info.ok() ? *info : SessionInfo();
  }

  void Hibernate(const std::string& session) {
    const absl::Status done = harness_->Hibernate(session);
    EXPECT_TRUE(done.ok()) << done;
  }

  // The requests that lead to a position; the last one may be cut short.
  static std::vector<Deed> UpTo(uint64_t position, std::vector<Deed> deeds) {
    uint64_t at = 0;
    for (size_t i = 0; i < deeds.size(); ++i) {
      if (at + deeds[i].size() > position) {
        const uint64_t left = position - at;
        Deed& last = deeds[i];
        if (last.drawn > 0) last.drawn = left;
        if (last.drawn == 0) last.tokens.resize(left);
        deeds.resize(left == 0 ? i : i + 1);
        break;
      }
      at += deeds[i].size();
    }
    return deeds;
  }

  // What comes next in the session is what comes next where nothing else has
  // been absorbed than `deeds`.
  void ExpectSameAsFresh(const std::string& session, std::vector<Deed>& deeds) {
    const std::string fresh = absl::StrCat("fresh-", ++fresh_);
    reference_.CreateSession(fresh);
    for (const Deed& deed : deeds) Do(reference_, fresh, deed);
    std::vector<Deed> next = {{.tokens = {1, 2}}};
    if (!deeds.empty()) next.insert(next.begin(), Deed{.drawn = 7, .seed = 9});
    for (const Deed& deed : next) {
      EXPECT_EQ(Do(*harness_, session, deed), Do(reference_, fresh, deed));
      deeds.push_back(deed);
    }
    EXPECT_TRUE(reference_.engine().DeleteSession(fresh).ok());
  }

  static constexpr size_t kHistory = 100;
  MemoryStore store_;
  std::optional<EngineHarness> harness_;
  EngineHarness reference_;
  size_t fresh_ = 0;
};

INSTANTIATE_TEST_SUITE_P(All, EngineRewindTest,
                         testing::Values(Kept::kNowhere, Kept::kInMemory,
                                         Kept::kInStore, Kept::kInStoreAndLog));

TEST_P(EngineRewindTest, WhatFollowsIsAsIfNothingElseHadBeen) {
  std::mt19937 random(3);
  harness_->CreateSession("s");
  std::vector<Deed> deeds;
  uint64_t position = 0;
  size_t rewound = 0;
  size_t far = 0;
  for (int i = 0; i < 150; ++i) {
    const auto what = random() % 8;
    Deed deed;
    if (what < 3 || position == 0) {
      deed.tokens = MakeTokens(1 + random() % 20, random());
    } else if (what < 5) {
      deed = {.drawn = 1 + random() % 6, .seed = random()};
    } else if (what == 5 && HasStore()) {
      Hibernate("s");
    } else if (what == 6 && GetParam() == Kept::kInStoreAndLog) {
      Start();
    }
    if (deed.size() > 0) {
      Do(*harness_, "s", deed);
      position += deed.size();
      deeds.push_back(std::move(deed));
    }
    const SessionInfo before = Info("s");
    ASSERT_EQ(before.position, position);
    ASSERT_LE(before.earliest_position, position);
    if (random() % 3 != 0) continue;
    const uint64_t to = before.earliest_position +
                        random() % (position - before.earliest_position + 1);
    SessionInfo after;
    const absl::Status status =
        Rewind(*harness_, "s", {.position = to}, &after);
    if (HasStore() && !status.ok()) {
      // A snapshot that the engine took by itself was in the other's place.
      ASSERT_EQ(ReasonOf(status), ErrorReason::kPositionOutOfReach) << status;
      ASSERT_EQ(MetadataOf(status, "earliest_position"),
                absl::StrCat(Info("s").earliest_position));
      ASSERT_GT(Info("s").earliest_position, to);
      continue;
    }
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(after.position, to);
    ++rewound;
    if (position - to > 8) ++far;
    // What was taken back may be needed by nobody before it is stored, or lost.
    if (HasStore() && random() % 4 == 0) Hibernate("s");
    if (GetParam() == Kept::kInStoreAndLog && random() % 4 == 0) Start();
    EXPECT_EQ(Info("s").position, to);
    deeds = UpTo(to, std::move(deeds));
    ExpectSameAsFresh("s", deeds);
    position = 0;
    for (const Deed& done : deeds) position += done.size();
    if (position < 2 * kHistory) continue;
    ASSERT_TRUE(harness_->engine().DeleteSession("s").ok());
    harness_->CreateSession("s");
    deeds.clear();
    position = 0;
  }
  EXPECT_GT(rewound, 20u);
  EXPECT_GT(far, 3u);
}

TEST_P(EngineRewindTest, CopiesAreWhatTheSessionWas) {
  std::mt19937 random(7);
  harness_->CreateSession("s");
  std::vector<Deed> deeds;
  for (int i = 0; i < 8; ++i) {
    deeds.push_back({.tokens = MakeTokens(1 + random() % 5, random())});
    deeds.push_back({.drawn = 1 + random() % 5, .seed = random()});
  }
  uint64_t position = 0;
  for (const Deed& deed : deeds) {
    Do(*harness_, "s", deed);
    position += deed.size();
  }
  for (uint64_t at = 0; at <= position; at += 5) {
    const std::string first = absl::StrCat("first-", at);
    const std::string second = absl::StrCat("second-", at);
    const absl::Status forked = ForkAt(*harness_, "s", {first, second}, at);
    ASSERT_TRUE(forked.ok()) << forked;
    if (HasStore()) Hibernate(second);
    if (GetParam() == Kept::kInStoreAndLog && at % 2 == 0) Start();
    for (const std::string& copy : {first, second}) {
      EXPECT_EQ(Info(copy).position, at);
      std::vector<Deed> before = UpTo(at, deeds);
      ExpectSameAsFresh(copy, before);
      EXPECT_TRUE(harness_->engine().DeleteSession(copy).ok());
    }
  }
  ExpectSameAsFresh("s", deeds);
}

TEST_P(EngineRewindTest, CheckpointsStayAsTheyAre) {
  harness_->CreateSession("s");
  std::vector<Deed> deeds = {{.tokens = MakeTokens(20, 1)},
                             {.drawn = 5, .seed = 4}};
  for (const Deed& deed : deeds) Do(*harness_, "s", deed);
  const std::string checkpoint = CheckpointId("c");
  ForkOptions options;
  options.checkpoints = true;
  options.ids = {checkpoint};
  const auto kept = std::make_shared<Forks>();
  ASSERT_TRUE(
      Work(*harness_, "s", harness_->engine().ForkWork(options, kept)).ok());
  EXPECT_EQ(kept->ids.front(), checkpoint);
  EXPECT_EQ(ReasonOf(Work(*harness_, "s",
                          harness_->engine().ForkWork(options, kept))),
            ErrorReason::kCheckpointAlreadyExists);
  std::vector<Deed> more = deeds;
  ExpectSameAsFresh("s", more);
  harness_->clock().Advance(absl::Hours(23));
  for (int i = 0; i < 4; ++i) {
    SCOPED_TRACE(i);
    // It may be in memory, in the store, or on its way there.
    if (HasStore() && i % 2 == 1) Hibernate(checkpoint);
    if (GetParam() == Kept::kInStoreAndLog && i >= 2) Start();
    const std::string made = absl::StrCat("made-", i);
    ASSERT_TRUE(ForkAt(*harness_, checkpoint, {made}, std::nullopt).ok());
    EXPECT_EQ(Info(made).position, 25u);
    EXPECT_EQ(Info(made).ttl, absl::Hours(1));
    std::vector<Deed> next = deeds;
    ExpectSameAsFresh(made, next);
    if (HasStore() && i % 2 == 1) Hibernate(checkpoint);
    SessionInfo rewound;
    ASSERT_TRUE(
        Rewind(*harness_, made, {.checkpoint = checkpoint}, &rewound).ok());
    EXPECT_EQ(rewound.position, 25u);
    next = deeds;
    ExpectSameAsFresh(made, next);
    // Forward, too, and where nothing has been absorbed.
    const std::string empty = absl::StrCat("empty-", i);
    harness_->CreateSession(empty);
    ASSERT_TRUE(Rewind(*harness_, empty, {.checkpoint = checkpoint}).ok());
    next = deeds;
    ExpectSameAsFresh(empty, next);
  }
  // Neither is listed among the others, page by page.
  const auto list = [&](Listed what) {
    std::vector<std::string> ids;
    std::string token;
    do {
      const auto page =
          harness_->engine().ListSessions(1, token, {.what = what});
      EXPECT_TRUE(page.ok()) << page.status();
      for (const SessionInfo& info : page->sessions) ids.push_back(info.id);
      token = page->next_page_token;
    } while (!token.empty());
    return ids;
  };
  EXPECT_EQ(list(Listed::kCheckpoints), std::vector<std::string>{checkpoint});
  const std::vector<std::string> sessions = list(Listed::kSessions);
  EXPECT_EQ(sessions.size(), 8u);
  EXPECT_EQ(std::count(sessions.begin(), sessions.end(), checkpoint), 0);
  ASSERT_TRUE(harness_->engine().DeleteSession(checkpoint).ok());
  EXPECT_EQ(ReasonOf(Rewind(*harness_, "made-3", {.checkpoint = checkpoint})),
            ErrorReason::kCheckpointNotFound);
  EXPECT_EQ(ReasonOf(ForkAt(*harness_, checkpoint, {"x"}, std::nullopt)),
            ErrorReason::kCheckpointNotFound);
}

TEST_P(EngineRewindTest, WhatCannotBeReachedIsRefused) {
  harness_->CreateSession("s");
  for (int i = 0; i < 30; ++i) Do(*harness_, "s", {.tokens = {1, 2, 3, 4, 5}});
  const SessionInfo info = Info("s");
  EXPECT_GE(info.earliest_position, 150 - kHistory);
  if (GetParam() == Kept::kInMemory) {
    EXPECT_LE(info.earliest_position, 150 - kHistory / 2);
  }
  const absl::Status early =
      Rewind(*harness_, "s", {.position = info.earliest_position - 1});
  EXPECT_EQ(ReasonOf(early), ErrorReason::kPositionOutOfReach) << early;
  EXPECT_EQ(MetadataOf(early, "earliest_position"),
            absl::StrCat(info.earliest_position));
  EXPECT_EQ(MetadataOf(early, "position"), "150");
  EXPECT_THAT(
      std::string(early.message()),
      testing::HasSubstr(
          info.earliest_position < 150
              ? absl::StrCat("position from ", info.earliest_position, " on")
              : "only to 0: no earlier state of it is kept (--snapshots"));
  const absl::Status late = Rewind(*harness_, "s", {.position = 151});
  EXPECT_EQ(ReasonOf(late), ErrorReason::kPositionOutOfReach);
  EXPECT_THAT(std::string(late.message()),
              testing::HasSubstr("is at position 150 and has not been at 151"));
  const absl::Status beyond = Rewind(*harness_, "s", {.inputs_back = 151});
  EXPECT_EQ(ReasonOf(beyond), ErrorReason::kPositionOutOfReach);
  EXPECT_THAT(std::string(beyond.message()),
              testing::HasSubstr("cannot go back by 151 tokens"));
  EXPECT_EQ(ReasonOf(ForkAt(*harness_, "s", {"copy"}, 151)),
            ErrorReason::kPositionOutOfReach);
  EXPECT_EQ(Info("s").position, 150u);
  // The beginning needs no state that is kept.
  EXPECT_TRUE(Rewind(*harness_, "s", {.position = 0}).ok());
}

TEST_P(EngineRewindTest, EmbeddingsAreNotAbsorbedAgain) {
  harness_->CreateSession("s");
  Do(*harness_, "s", {.tokens = {1, 2, 3}});
  StepRequest embedding = StepOf("s", {});
  embedding.embeddings.assign(2 * SharedTinyModel()->description().hidden_size,
                              0.25f);
  ASSERT_TRUE(harness_->Step(embedding).ok());
  Do(*harness_, "s", {.tokens = {4}});
  EXPECT_EQ(Info("s").earliest_position, 6u);
  EXPECT_EQ(ReasonOf(Rewind(*harness_, "s", {.position = 5})),
            ErrorReason::kPositionOutOfReach);
  // The beginning needs nothing to be absorbed.
  ASSERT_TRUE(Rewind(*harness_, "s", {.position = 0}).ok());
  EXPECT_EQ(Info("s").earliest_position, 0u);
  std::vector<Deed> none;
  ExpectSameAsFresh("s", none);
}

TEST_P(EngineRewindTest, RequestsThatWereTakenBackHaveNotBeen) {
  harness_->CreateSession("s");
  const auto keyed = [](uint64_t position, std::vector<int32_t> tokens) {
    StepRequest step = StepOf("s", std::move(tokens));
    step.outputs = {};
    step.request_id = absl::StrCat("at ", position);
    step.expected_position = position;
    return step;
  };
  ASSERT_TRUE(harness_->Step(keyed(0, {1, 2})).ok());
  ASSERT_TRUE(harness_->Step(keyed(2, {3, 4})).ok());
  ASSERT_TRUE(harness_->Step(keyed(4, {5, 6})).ok());
  ASSERT_TRUE(Rewind(*harness_, "s", {.inputs_back = 2}).ok());
  // The one before is known still, the one after is done anew.
  const auto before = harness_->Step(keyed(2, {3, 4}));
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_TRUE(before->replayed);
  const auto after = harness_->Step(keyed(4, {7, 8, 9}));
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_FALSE(after->replayed);
  EXPECT_EQ(after->position, 7u);
}

TEST_P(EngineRewindTest, WhatAWriterHasQueuedComesFirst) {
  harness_->CreateSession("s");
  Do(*harness_, "s", {.tokens = {1, 2, 3}});
  StepFuture step;
  {
    ComputeHold hold(*harness_);
    step = harness_->StepAsync(StepOf("s", {4}));
    EXPECT_EQ(ReasonOf(Rewind(*harness_, "s", {.position = 1})),
              ErrorReason::kSessionBusy);
  }
  EXPECT_TRUE(step.Get().ok());
  EXPECT_EQ(Info("s").position, 4u);
}

TEST_P(EngineRewindTest, AStoreThatFailsChangesNothing) {
  if (!HasStore()) GTEST_SKIP() << "has no store";
  harness_->CreateSession("s");
  std::vector<Deed> deeds = {{.tokens = {1, 2, 3}}, {.tokens = {4, 5}}};
  for (const Deed& deed : deeds) Do(*harness_, "s", deed);
  for (const bool after : {false, true}) {
    after ? store_.FailWritesAfterThem(true) : store_.FailWrites(true);
    EXPECT_EQ(ReasonOf(Rewind(*harness_, "s", {.position = 1})),
              ErrorReason::kStoreUnavailable);
    EXPECT_EQ(ReasonOf(ForkAt(*harness_, "s", {"copy"}, 1)),
              ErrorReason::kStoreUnavailable);
    EXPECT_EQ(Info("s").position, 5u);
    after ? store_.FailWritesAfterThem(false) : store_.FailWrites(false);
    harness_->clock().Advance(absl::Seconds(2));
  }
  ExpectSameAsFresh("s", deeds);
  if (GetParam() == Kept::kInStoreAndLog) {
    Start();
    EXPECT_EQ(Info("s").position, 14u);
    ExpectSameAsFresh("s", deeds);
  }
}

TEST_P(EngineRewindTest, OthersGoOnMeanwhile) {
  if (!HasStore()) GTEST_SKIP() << "parks in a store";
  harness_->CreateSession("s");
  harness_->CreateSession("other");
  for (const char* const session : {"s", "other"}) {
    Do(*harness_, session, {.tokens = {1, 2, 3}});
  }
  Future<absl::Status> done;
  ThreadHold hold("SessionPast::Rewind, stored");
  WorkRequest work = harness_->engine().RewindWork(
      {.position = 1}, std::make_shared<SessionInfo>());
  work.session = "s";
  work.writer = harness_->engine().NewWriter();
  SubmitThen(harness_->engine(), std::move(work),
             [done](const auto& end) { done.Set(end.status()); });
  hold.WaitUntilHeld();
  EXPECT_TRUE(harness_->Step(StepOf("other", {1})).ok());
  // It ends when the rewinding has.
  EXPECT_TRUE(harness_->engine().DeleteSession("s").ok());
  EXPECT_FALSE(done.IsSet());
  hold.Release();
  (void)done.Get();
  EXPECT_EQ(ReasonOf(harness_->engine().GetSession("s").status()),
            ErrorReason::kSessionNotFound);
}

}  // namespace
}  // namespace steadystate::engine_rewind_test
