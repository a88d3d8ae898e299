// Goal: a session that begins where an earlier prompt has been is to the byte
// what it would be had it computed the whole prompt, wherever that is kept;
// what is kept gives way to sessions, is found by its owner alone, and shows in
// no list.
// Method: the same requests with and without reuse_prefix, to two engines; what
// they draw is compared, and all that a snapshot has of their sessions.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "server/base/error.h"
#include "server/session/session_id.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/testing/memory_store.h"
#include "tests/testing/parked_threads.h"

namespace steadystate::engine_prefix_test {
namespace {

constexpr size_t kPieceRows = 4;

struct Outcome {
  std::vector<int32_t> drawn{};
  std::string text{};
  uint64_t reused = 0;
  std::optional<PrefixReuse> result{};
};

// All that decides what comes next, as bytes.
std::string Exported(EngineHarness& harness, const std::string& session) {
  const auto exported = std::make_shared<Engine::Export>();
  const absl::Status status =
      harness.Work(session, harness.engine().ExportWork(exported));
  EXPECT_TRUE(status.ok()) << status;
  return exported->snapshot;
}

std::vector<std::string> BytesOf(EngineHarness& harness,
                                 const std::string& session) {
  const std::string exported = Exported(harness, session);
  const auto read = harness.engine().snapshots().Read(exported);
  EXPECT_TRUE(read.ok()) << read.status();
  if (!read.ok()) return {};
  const SessionContents& contents = read->contents;
  std::vector<std::string> bytes(read->slots.begin(), read->slots.end());
  const auto add = [&](const auto& numbers) {
    std::string& part = bytes.emplace_back();
    for (const auto number : numbers) part += std::to_string(number) + " ";
  };
  add(contents.pending_hidden);
  add(contents.recent);
  add(contents.history);
  add(contents.cuts);
  add(contents.drawn);
  bytes.push_back(contents.unfinished_text);
  for (const RequestRecord& record : contents.records) {
    bytes.emplace_back(record.id);
    add(std::vector<uint64_t>{record.begin, record.end, record.digest[0],
                              record.digest[1], record.finished ? 1u : 0u});
    bytes.emplace_back(record.answer);
  }
  return bytes;
}

class EnginePrefixTest : public testing::TestWithParam<Durability> {
 protected:
  EnginePrefixTest() {
    options_.prefill_chunk_rows = kPieceRows;
    options_.durability = GetParam();
  }

  bool HasStore() const { return GetParam() != Durability::kNone; }

  EngineHarness& harness() {
    if (!harness_.has_value()) {
      harness_.emplace(options_, SharedTinyModel(),
                       HasStore() ? &store_ : nullptr);
    }
    return *harness_;
  }
  EngineHarness& plain() {
    if (!plain_.has_value()) {
      EngineOptions options;
      options.prefill_chunk_rows = kPieceRows;
      plain_.emplace(options);
    }
    return *plain_;
  }

  // Ends as a process does that is asked to.
  void Restart() {
    ASSERT_EQ(harness().engine().StoreSessions(absl::Seconds(60)), 0u);
    harness_.reset();
  }

  static GenerateRequest Request(const std::string& session,
                                 std::vector<int32_t> prompt, uint64_t drawn) {
    GenerateRequest request = GenerateOf(session, std::move(prompt), drawn);
    request.sampling.temperature = 1.5;
    request.sampling.seed = 5;
    request.sampling.frequency_penalty = 0.5;
    request.ignore_eos = true;
    request.expected_position = 0;
    request.request_id = "r";
    return request;
  }

  static Outcome Do(EngineHarness& harness, GenerateRequest request) {
    const auto recorder = harness.Generate(std::move(request));
    const auto& end = recorder->done().Get();
    EXPECT_TRUE(end.ok()) << end.status();
    Outcome outcome;
    for (const GeneratedToken& item : recorder->items()) {
      outcome.drawn.push_back(item.token);
      outcome.text += item.text_delta;
    }
    if (end.ok()) {
      outcome.reused = end->reused_tokens;
      outcome.result = end->prefix_reuse;
    }
    return outcome;
  }

  // A new session, which draws some tokens, with reuse and without; both are
  // to be equal. -> how much was reused
  uint64_t Reused(const std::string& session,
                  const std::vector<int32_t>& prompt, uint64_t drawn = 6) {
    harness().CreateSession(session);
    GenerateRequest request = Request(session, prompt, drawn);
    request.reuse_prefix = true;
    const Outcome outcome = Do(harness(), request);
    plain().CreateSession(session);
    const Outcome expected = Do(plain(), Request(session, prompt, drawn));
    EXPECT_EQ(outcome.drawn, expected.drawn);
    EXPECT_EQ(outcome.text, expected.text);
    EXPECT_EQ(BytesOf(harness(), session), BytesOf(plain(), session));
    EXPECT_FALSE(expected.result.has_value());
    EXPECT_EQ(outcome.result == PrefixReuse::kReused, outcome.reused > 0);
    return outcome.reused;
  }

  SessionInfo Info(const std::string& session) {
    const auto info = harness().engine().GetSession(session);
    EXPECT_TRUE(info.ok()) << info.status();
    return info.ok() ? *info : SessionInfo();
  }

  absl::Status Checkpoint(const std::string& session, const std::string& name) {
    ForkOptions options;
    options.ids = {CheckpointId(name)};
    options.checkpoints = true;
    const auto forks = std::make_shared<Forks>();
    return harness().Work(session, harness().engine().ForkWork(options, forks));
  }

  size_t Listed(enum Listed what) {
    const auto page = harness().engine().ListSessions(1000, "", {.what = what});
    return page.ok() ? page->sessions.size() : 1000;
  }

  EngineOptions options_;
  MemoryStore store_;
  std::optional<EngineHarness> harness_;
  std::optional<EngineHarness> plain_;
};

std::string NameOf(const testing::TestParamInfo<Durability>& tested) {
  switch (tested.param) {
    case Durability::kShutdown:
      return "shutdown";
    case Durability::kLog:
      return "log";
    default:
      return "none";
  }
}

INSTANTIATE_TEST_SUITE_P(Durabilities, EnginePrefixTest,
                         testing::Values(Durability::kNone,
                                         Durability::kShutdown,
                                         Durability::kLog),
                         NameOf);

TEST_P(EnginePrefixTest, BeginsWhereAnEarlierPromptHasBeen) {
  const std::vector<int32_t> prompt = MakeTokens(40, 1);
  const auto first = [&](size_t count) {
    return std::vector<int32_t>(prompt.begin(),
                                prompt.begin() + static_cast<ptrdiff_t>(count));
  };
  EXPECT_EQ(Reused("a", first(10)), 0u);
  // What ends within a piece is cut in another way there.
  EXPECT_EQ(Reused("b", first(10)), 8u);
  EXPECT_EQ(Reused("c", first(9)), 8u);
  EXPECT_EQ(Reused("d", first(7)), 0u);
  EXPECT_EQ(Reused("e", first(40)), 8u);
  EXPECT_EQ(Reused("f", first(40)), 40u);
  EXPECT_EQ(Reused("g", first(40), 0), 40u);
  EXPECT_EQ(Reused("h", first(39)), 8u);
  EXPECT_EQ(Reused("i", first(39)), 36u);
  std::vector<int32_t> other = first(40);
  other[1] ^= 1;
  EXPECT_EQ(Reused("j", other), 0u);
  other = first(40);
  other[37] ^= 1;
  EXPECT_EQ(Reused("k", other), 36u);
  EXPECT_EQ(Listed(Listed::kSessions), 11u);
  EXPECT_EQ(Listed(Listed::kCheckpoints), 0u);
  EXPECT_EQ(harness().Metric({"prefix_requests_total", "\"reused\""}), 8);
  EXPECT_EQ(harness().Metric({"prefix_requests_total", "\"not_kept\""}), 3);
  EXPECT_EQ(harness().Metric({"prefix_reused_tokens_total"}),
            8 + 8 + 8 + 40 + 40 + 8 + 36 + 36);
}

TEST_P(EnginePrefixTest, WhatHasNoSessionIsReusedAndKeptToo) {
  GenerateRequest request = Request("", MakeTokens(10, 1), 6);
  request.expected_position.reset();
  request.reuse_prefix = true;
  const Outcome first = Do(harness(), request);
  EXPECT_EQ(first.reused, 0u);
  const Outcome second = Do(harness(), request);
  EXPECT_EQ(second.reused, 8u);
  EXPECT_EQ(second.drawn, first.drawn);
  EXPECT_EQ(Reused("a", MakeTokens(10, 1)), 8u);
  EXPECT_EQ(Listed(Listed::kSessions), 1u);
}

// Whoever brings a session may say that it had any prompt.
TEST_P(EnginePrefixTest, WhatAClientBroughtIsNotFound) {
  harness().CreateSession("a");
  Do(harness(), Request("a", MakeTokens(8, 1), 0));
  SessionOptions options;
  options.id = "b";
  ASSERT_TRUE(harness()
                  .Work("", harness().engine().ImportWork(
                                Exported(harness(), "a"), options,
                                std::make_shared<SessionInfo>()))
                  .ok());
  ASSERT_TRUE(harness().engine().DeleteSession("a").ok());
  ASSERT_TRUE(Checkpoint("b", "c").ok());
  EXPECT_EQ(Reused("d", MakeTokens(12, 1)), 0u);
  // Nor what is made of it, wherever that has been.
  if (HasStore()) harness().clock().Advance(absl::Hours(24 * 30));
  ForkOptions fork;
  fork.ids = {"e"};
  ASSERT_TRUE(harness()
                  .Work(CheckpointId("c"), harness().engine().ForkWork(
                                               fork, std::make_shared<Forks>()))
                  .ok());
  ASSERT_TRUE(Checkpoint("e", "f").ok());
  EXPECT_EQ(Reused("g", MakeTokens(12, 1)), HasStore() ? 0u : 12u);
}

TEST_P(EnginePrefixTest, KeepsWhatIsOnlyAbsorbed) {
  EXPECT_EQ(Reused("a", MakeTokens(12, 1), 0), 0u);
  EXPECT_EQ(Reused("b", MakeTokens(12, 1), 0), 12u);
  EXPECT_EQ(Info("b").position, 12u);
}

TEST_P(EnginePrefixTest, SaysWhyNothingIsReused) {
  harness().CreateSession("a");
  GenerateRequest request = Request("a", MakeTokens(3, 1), 2);
  request.reuse_prefix = true;
  EXPECT_EQ(Do(harness(), request).result, PrefixReuse::kTooShort);
  request.expected_position = 5;
  EXPECT_EQ(Do(harness(), request).result, PrefixReuse::kSessionNotNew);
  harness().CreateSession("b");
  request = Request("b", MakeTokens(8, 1), 2);
  request.reuse_prefix = true;
  EXPECT_EQ(Do(harness(), request).result, PrefixReuse::kNotKept);
}

TEST_P(EnginePrefixTest, CheckpointsServe) {
  const std::vector<int32_t> prompt = MakeTokens(20, 1);
  harness().CreateSession("a");
  Do(harness(), Request("a", {prompt.begin(), prompt.begin() + 10}, 0));
  ASSERT_TRUE(Checkpoint("a", "ten").ok());
  // All of it, though it ends within a piece; else what has the same cuts.
  EXPECT_EQ(Reused("b", {prompt.begin(), prompt.begin() + 10}), 10u);
  EXPECT_EQ(Reused("c", prompt), 0u);
  EXPECT_EQ(Reused("d", {prompt.begin(), prompt.begin() + 10}), 10u);
  // What has drawn something is no prompt.
  Do(harness(), [&] {
    GenerateRequest more = Request("a", {}, 2);
    more.expected_position = 10;
    return more;
  }());
  ASSERT_TRUE(Checkpoint("a", "drawn").ok());
  EXPECT_EQ(Listed(Listed::kCheckpoints), 2u);
  if (!HasStore()) return;
  Restart();
  harness();
  EXPECT_EQ(Reused("e", {prompt.begin(), prompt.begin() + 10}), 10u);
}

TEST_P(EnginePrefixTest, IsTheOwnersAlone) {
  const std::vector<int32_t> prompt = MakeTokens(8, 1);
  const auto reused = [&](const std::string& owner, const std::string& id) {
    SessionOptions options;
    options.owner = owner;
    options.id = id;
    EXPECT_TRUE(harness().engine().CreateSession(options).ok());
    GenerateRequest request = Request(id, prompt, 2);
    request.owner = owner;
    request.reuse_prefix = true;
    return Do(harness(), request).reused;
  };
  EXPECT_EQ(reused("x", "a"), 0u);
  EXPECT_EQ(reused("y", "a"), 0u);
  EXPECT_EQ(reused("x", "b"), 8u);
  EXPECT_EQ(reused("", "a"), 0u);
}

TEST_P(EnginePrefixTest, ASessionIsCreatedWhereAPromptHasBeen) {
  const std::vector<int32_t> prompt = MakeTokens(10, 1);
  EXPECT_EQ(Reused("a", prompt), 0u);
  const auto create = [&](const std::string& id, std::vector<int32_t> tokens,
                          SessionInfo& info) {
    SessionOptions options;
    options.id = id;
    const auto created = std::make_shared<SessionInfo>();
    absl::Status status = harness().Work(
        "", harness().engine().CreateWork(std::move(tokens), options, created));
    info = *created;
    return status;
  };
  SessionInfo info;
  ASSERT_TRUE(create("b", prompt, info).ok());
  EXPECT_EQ(info.position, 8u);
  EXPECT_EQ(info.prefix_reuse, PrefixReuse::kReused);
  EXPECT_FALSE(Info("b").prefix_reuse.has_value());
  GenerateRequest rest = Request("b", {prompt.begin() + 8, prompt.end()}, 6);
  rest.expected_position = 8;
  const Outcome outcome = Do(harness(), rest);
  EXPECT_EQ(outcome.drawn, Do(plain(),
                              [&] {
                                plain().CreateSession("p");
                                return Request("p", prompt, 6);
                              }())
                               .drawn);
  ASSERT_TRUE(create("c", MakeTokens(10, 2), info).ok());
  EXPECT_EQ(info.position, 0u);
  EXPECT_EQ(info.prefix_reuse, PrefixReuse::kNotKept);
  EXPECT_EQ(ReasonOf(create("b", prompt, info)),
            ErrorReason::kSessionAlreadyExists);
  EXPECT_EQ(ReasonOf(create("d", {-1}, info)), ErrorReason::kTokenOutOfRange);
  EXPECT_EQ(ReasonOf(create("d", {}, info)), ErrorReason::kInvalidArgument);
  EXPECT_EQ(Listed(Listed::kSessions), 3u);
}

TEST_P(EnginePrefixTest, ARepeatIsAnsweredAsTheFirst) {
  const std::vector<int32_t> prompt = MakeTokens(10, 1);
  EXPECT_EQ(Reused("a", prompt), 0u);
  harness().CreateSession("b");
  GenerateRequest request = Request("b", prompt, 5);
  request.reuse_prefix = true;
  const Outcome first = Do(harness(), request);
  EXPECT_EQ(first.reused, 8u);
  EXPECT_EQ(Do(harness(), request).drawn, first.drawn);
  EXPECT_EQ(Info("b").position, 15u);
}

TEST_P(EnginePrefixTest, TheLeastAskedForGivesWay) {
  options_.prefix_cache = 2;
  EXPECT_EQ(Reused("a", MakeTokens(8, 1)), 0u);
  harness().clock().Advance(absl::Seconds(1));
  EXPECT_EQ(Reused("b", MakeTokens(8, 2)), 0u);
  harness().clock().Advance(absl::Seconds(1));
  EXPECT_EQ(Reused("c", MakeTokens(8, 1)), 8u);
  harness().clock().Advance(absl::Seconds(1));
  EXPECT_EQ(Reused("d", MakeTokens(8, 3)), 0u);
  harness().clock().Advance(absl::Seconds(1));
  EXPECT_EQ(Reused("e", MakeTokens(8, 1)), 8u);
  EXPECT_EQ(Reused("f", MakeTokens(8, 2)), 0u);
}

TEST_P(EnginePrefixTest, NothingIsKeptIfNothingMayBe) {
  options_.prefix_cache = 0;
  EXPECT_EQ(Reused("a", MakeTokens(8, 1)), 0u);
  EXPECT_EQ(Reused("b", MakeTokens(8, 1)), 0u);
}

TEST_P(EnginePrefixTest, EndsWhenNobodyAsksForIt) {
  options_.session_ttl = absl::Minutes(1);
  EXPECT_EQ(Reused("a", MakeTokens(8, 1)), 0u);
  harness().clock().Advance(absl::Seconds(50));
  EXPECT_EQ(Reused("b", MakeTokens(8, 1)), 8u);
  harness().clock().Advance(absl::Seconds(50));
  EXPECT_EQ(Reused("c", MakeTokens(8, 1)), 8u);
  harness().clock().Advance(absl::Seconds(61));
  EXPECT_EQ(Reused("d", MakeTokens(8, 1)), 0u);
  EXPECT_EQ(Reused("e", MakeTokens(8, 1)), 8u);
}

TEST_P(EnginePrefixTest, GivesWayToSessions) {
  EngineHarness measured(options_);
  measured.CreateSession("a");
  const uint64_t bytes = measured.engine().GetSession("a")->state_bytes;
  options_.state_memory_bytes = 3 * bytes;
  // What the store may have: three of what one takes there.
  EXPECT_EQ(Reused("a", MakeTokens(8, 1)), 0u);
  EXPECT_EQ(Reused("b", MakeTokens(8, 1)), 8u);
  harness().CreateSession("c");
  if (!HasStore()) {
    EXPECT_EQ(ReasonOf(harness().engine().CreateSession({}).status()),
              ErrorReason::kStateBudgetExhausted);
    // There is no room for one more now.
    EXPECT_TRUE(harness().engine().DeleteSession("b").ok());
    EXPECT_TRUE(harness().engine().DeleteSession("c").ok());
    EXPECT_EQ(Reused("d", MakeTokens(8, 1)), 0u);
    EXPECT_TRUE(harness().engine().DeleteSession("a").ok());
    EXPECT_EQ(Reused("e", MakeTokens(8, 1)), 8u);
    return;
  }
  // It leaves memory for others, and comes back.
  for (uint64_t i = 0; i < 10; ++i) {
    EXPECT_EQ(Reused("s" + std::to_string(i), MakeTokens(6, 10 + i)), 0u);
  }
  EXPECT_EQ(Reused("z", MakeTokens(8, 1)), 8u);
}

TEST_P(EnginePrefixTest, NoMoreThanMayBeAreThereAfterARestart) {
  if (!HasStore()) GTEST_SKIP() << "nothing outlives the engine";
  EXPECT_EQ(Reused("a", MakeTokens(8, 1)), 0u);
  EXPECT_EQ(Reused("b", MakeTokens(8, 2)), 0u);
  EXPECT_EQ(harness().Metric({"steadystate_kept_prompts{"}), 2);
  Restart();
  options_.prefix_cache = 1;
  EXPECT_EQ(harness().Metric({"steadystate_kept_prompts{"}), 1);
  // Nor is the other one there again.
  Restart();
  options_.prefix_cache = 2;
  EXPECT_EQ(harness().Metric({"steadystate_kept_prompts{"}), 1);
}

TEST_P(EnginePrefixTest, IsThereAfterARestart) {
  if (!HasStore()) GTEST_SKIP() << "nothing outlives the engine";
  EXPECT_EQ(Reused("a", MakeTokens(10, 1)), 0u);
  Restart();
  EXPECT_EQ(Reused("b", MakeTokens(10, 1)), 8u);
  // What was cut otherwise is not what this would be.
  Restart();
  options_.prefill_chunk_rows = 8;
  plain_.reset();
  harness().CreateSession("c");
  GenerateRequest request = Request("c", MakeTokens(10, 1), 1);
  request.reuse_prefix = true;
  EXPECT_EQ(Do(harness(), request).result, PrefixReuse::kNotKept);
}

TEST_P(EnginePrefixTest, OutlivesAKillWhereTheLogDoes) {
  if (GetParam() != Durability::kLog) GTEST_SKIP() << "not logged";
  EXPECT_EQ(Reused("a", MakeTokens(10, 1)), 0u);
  EXPECT_EQ(Reused("b", MakeTokens(10, 1)), 8u);
  const std::vector<std::string> before = BytesOf(harness(), "b");
  harness_.reset();
  // The next request brings it back.
  EXPECT_TRUE(harness().Step(StepOf("b", {1})).ok());
  EXPECT_TRUE(plain().Step(StepOf("b", {1})).ok());
  EXPECT_EQ(BytesOf(harness(), "b"), BytesOf(plain(), "b"));
}

TEST_P(EnginePrefixTest, FailsAsAWholeWhereItCannotBeStored) {
  if (GetParam() != Durability::kLog) GTEST_SKIP() << "not logged";
  EXPECT_EQ(Reused("a", MakeTokens(10, 1)), 0u);
  harness().CreateSession("b");
  GenerateRequest request = Request("b", MakeTokens(10, 1), 3);
  request.reuse_prefix = true;
  store_.FailWrites(true);
  const auto recorder = harness().Generate(request);
  EXPECT_EQ(ReasonOf(recorder->done().Get().status()),
            ErrorReason::kStoreUnavailable);
  EXPECT_EQ(Info("b").position, 0u);
  store_.FailWrites(false);
  harness().clock().Advance(absl::Seconds(2));
  const Outcome outcome = Do(harness(), request);
  EXPECT_EQ(outcome.reused, 8u);
  plain().CreateSession("b");
  EXPECT_EQ(outcome.drawn,
            Do(plain(), Request("b", MakeTokens(10, 1), 3)).drawn);
  EXPECT_EQ(BytesOf(harness(), "b"), BytesOf(plain(), "b"));
}

TEST_P(EnginePrefixTest, ASessionThatIsDeletedMeanwhileLeavesNothing) {
  harness().CreateSession("a");
  GenerateRequest request = Request("a", MakeTokens(8, 1), 3);
  request.reuse_prefix = true;
  ThreadHold hold("SessionPrefixes::Keep");
  const auto recorder = harness().Generate(request);
  hold.WaitUntilHeld();
  EXPECT_TRUE(harness().engine().DeleteSession("a").ok());
  hold.Release();
  EXPECT_EQ(ReasonOf(recorder->done().Get().status()),
            ErrorReason::kSessionNotFound);
  EXPECT_EQ(Listed(Listed::kSessions), 0u);
  EXPECT_EQ(Reused("b", MakeTokens(8, 1)), 8u);
}

}  // namespace
}  // namespace steadystate::engine_prefix_test
