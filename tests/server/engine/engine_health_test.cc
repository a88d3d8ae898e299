// Goal: a request whose output is not finite leaves its session, to the byte,
// where the error says; where that cannot be, the session computes nothing any
// more, no good state is lost for it, and a client can take it back.
// Method: a model with one token that makes everything infinite, in engines
// that keep states nowhere, in memory, in a store or in a store and a log, and
// that are killed; what comes next is compared with a sound model's session
// that was never given that token.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/base/error.h"
#include "server/session/session_events.h"
#include "server/session/snapshot.h"
#include "server/session/state_pool.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/testing/memory_store.h"
#include "tests/testing/parked_threads.h"

namespace steadystate::engine_health_test {
namespace {

enum class Kept : uint8_t { kNowhere, kInMemory, kInStore, kInStoreAndLog };
constexpr int32_t kBad = 7;
constexpr size_t kChunkRows = 4;

std::shared_ptr<const Model> ModelWithABadToken() {
  static const auto* const loaded = [] {
    CheckpointContents contents = MakeTinyCheckpoint({});
    constexpr size_t kHidden = 32;
    contents.tensors.at("model.embeddings.weight").values.at(kBad * kHidden) =
        std::numeric_limits<float>::infinity();
    const TempDirectory directory;
    WriteCheckpoint(contents, directory.path());
    ModelOptions options;
    options.path = directory.path();
    options.weight_dtype = DType::kF32;
    return new std::shared_ptr<const Model>(*Model::Load(options));
  }();
  return *loaded;
}

std::vector<int32_t> GoodTokens(size_t count, uint64_t seed) {
  std::vector<int32_t> tokens = MakeTokens(count, seed);
  for (int32_t& token : tokens) {
    if (token == kBad) token = kBad + 1;
  }
  return tokens;
}

StepRequest Embeddings(const std::string& session, size_t rows) {
  StepRequest request = StepOf(session, {});
  request.embeddings.assign(
      rows * ModelWithABadToken()->description().hidden_size, 0.25f);
  request.embeddings[1] = -0.5f;
  return request;
}

template <typename R>
R Keyed(R request, const std::string& id, uint64_t position) {
  request.request_id = id;
  request.expected_position = position;
  return request;
}

void ExpectNotFinite(const absl::Status& status, uint64_t position,
                     bool restored) {
  ASSERT_EQ(ReasonOf(status), ErrorReason::kStateNotFinite) << status;
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(MetadataOf(status, "position"), absl::StrCat(position)) << status;
  EXPECT_EQ(MetadataOf(status, "restored"), restored ? "true" : "false")
      << status;
}

class EngineHealthTest : public testing::TestWithParam<Kept> {
 protected:
  EngineHealthTest() {
    options_.prefill_chunk_rows = kChunkRows;
    reference_.emplace(options_);
    if (GetParam() == Kept::kInMemory) {
      options_.history = 64;
      options_.snapshots = 4;
    }
    if (IsLogged()) options_.durability = Durability::kLog;
    Start();
  }

  bool HasStore() const { return GetParam() >= Kept::kInStore; }
  bool IsLogged() const { return GetParam() == Kept::kInStoreAndLog; }

  // Of an engine that was there, what a kill leaves of it.
  void Start() {
    harness_.reset();
    harness_.emplace(options_, ModelWithABadToken(),
                     HasStore() ? &store_ : nullptr);
  }

  void StartWithMemoryFor(size_t sessions) {
    Start();
    options_.state_memory_bytes =
        sessions * harness_->engine().snapshots().layout().charge_bytes();
    Start();
  }

  void Create(const std::string& session) {
    harness_->CreateSession(session);
    reference_->CreateSession(session);
  }

  // Both go on, and to the same.
  void ExpectSame(const std::string& session, const StepRequest& step) {
    const auto got = harness_->Step(step);
    ASSERT_TRUE(got.ok()) << got.status();
    const auto expected = reference_->Step(step);
    ASSERT_TRUE(expected.ok()) << expected.status();
    EXPECT_EQ(got->position, expected->position);
    EXPECT_EQ(got->logits, expected->logits) << session;
  }
  void ExpectSame(const std::string& session, std::vector<int32_t> tokens) {
    ExpectSame(session, StepOf(session, std::move(tokens)));
  }

  SessionInfo Info(const std::string& session) {
    const auto info = harness_->engine().GetSession(session);
    EXPECT_TRUE(info.ok()) << info.status();
    return info.ok() ? *info : SessionInfo();
  }

  static absl::Status Rewind(EngineHarness& harness, const std::string& session,
                             uint64_t position) {
    return harness.Work(
        session, harness.engine().RewindWork({.position = position},
                                             std::make_shared<SessionInfo>()));
  }
  absl::Status Rewind(const std::string& session, uint64_t position) {
    return Rewind(*harness_, session, position);
  }
  absl::Status Fork(const std::string& session, const std::string& id,
                    std::optional<uint64_t> position = std::nullopt) {
    ForkOptions fork;
    fork.ids = {id};
    fork.at.position = position;
    return harness_->Work(
        session, harness_->engine().ForkWork(fork, std::make_shared<Forks>()));
  }
  absl::Status Export(const std::string& session) {
    return harness_->Work(session, harness_->engine().ExportWork(
                                       std::make_shared<Engine::Export>()));
  }
  absl::Status Hibernate(const std::string& session) {
    return harness_->Hibernate(session);
  }

  // The snapshot with one number of the state not one.
  std::string Spoiled(const std::string& snapshot) {
    const SnapshotFormat& format = harness_->engine().snapshots();
    const auto read = format.Read(snapshot);
    EXPECT_TRUE(read.ok()) << read.status();
    const SessionLayout& layout = format.layout();
    StatePool pool(layout.slot(), layout.charge_bytes(), layout.charge_bytes());
    SessionState state(layout, *pool.Allocate());
    format.Restore(*read, state);
    reinterpret_cast<float*>(state.model_state())[3] =
        std::numeric_limits<float>::quiet_NaN();
    return format.Write(read->card, state);
  }

  double Counted(const std::string& result) {
    return harness_->Metric({"steadystate_state_nonfinite_total{",
                             absl::StrCat("result=\"", result, "\"")});
  }

  EngineOptions options_;
  MemoryStore store_;
  std::optional<EngineHarness> harness_;
  std::optional<EngineHarness> reference_;
};

std::string NameOf(const testing::TestParamInfo<Kept>& tested) {
  constexpr const char* kNames[] = {"nowhere", "memory", "store", "log"};
  return kNames[static_cast<size_t>(tested.param)];
}

INSTANTIATE_TEST_SUITE_P(All, EngineHealthTest,
                         testing::Values(Kept::kNowhere, Kept::kInMemory,
                                         Kept::kInStore, Kept::kInStoreAndLog),
                         NameOf);

TEST_P(EngineHealthTest, AStepHasNotBeen) {
  Create("s");
  ExpectSame("s", {1, 2, 3});
  const auto failed = harness_->Step(StepOf("s", {4, kBad, 5}));
  ExpectNotFinite(failed.status(), 3, /*restored=*/true);
  EXPECT_EQ(Info("s").position, 3u);
  EXPECT_FALSE(Info("s").not_finite);
  ExpectSame("s", {4, 5});
  EXPECT_EQ(Counted("restored"), 1);
  EXPECT_EQ(Counted("not_restored"), 0);
}

TEST_P(EngineHealthTest, AStepOfManyPiecesIsUndoneWholeAndNoRepeatSucceeds) {
  Create("s");
  ExpectSame("s", {1, 2, 3});
  std::vector<int32_t> tokens = GoodTokens(3 * kChunkRows, 5);
  tokens.back() = kBad;
  const StepRequest step = Keyed(StepOf("s", tokens), "r", 3);
  for (int i = 0; i < 3; ++i) {
    ExpectNotFinite(harness_->Step(step).status(), 3, /*restored=*/true);
    EXPECT_EQ(Info("s").position, 3u);
    if (i == 1 && HasStore()) {
      EXPECT_TRUE(Hibernate("s").ok());
    }
    if (i == 1 && IsLogged()) Start();
  }
  // Under its name something else may be asked for: it has not been.
  ExpectSame("s", Keyed(StepOf("s", {5}), "r", 3));
  const auto repeat = harness_->Step(Keyed(StepOf("s", {5}), "r", 3));
  ASSERT_TRUE(repeat.ok()) << repeat.status();
  EXPECT_TRUE(repeat->replayed);
  ExpectSame("s", {6});
}

TEST_P(EngineHealthTest, APromptStaysUpToThePieceBefore) {
  Create("s");
  ExpectSame("s", {1, 2, 3});
  std::vector<int32_t> prompt = GoodTokens(3 * kChunkRows, 5);
  prompt.back() = kBad;
  const GenerateRequest request = Keyed(GenerateOf("s", prompt, 5), "r", 3);
  const uint64_t position = 3 + 2 * kChunkRows;
  for (int i = 0; i < 2; ++i) {
    const auto sink = harness_->Generate(request);
    ExpectNotFinite(sink->done().Get().status(), position, /*restored=*/true);
    EXPECT_TRUE(sink->items().empty());
    EXPECT_EQ(Info("s").position, position);
  }
  const std::vector<int32_t> before(prompt.begin(),
                                    prompt.begin() + 2 * kChunkRows);
  ASSERT_TRUE(reference_->Step(StepOf("s", before)).ok());
  ExpectSame("s", {4});
}

TEST_P(EngineHealthTest, ATokenThatIsDrawnIsNotReturned) {
  Create("s");
  GenerateRequest good = GenerateOf("s", GoodTokens(6, 1), 8);
  good.sampling.logit_bias = {{kBad, -100.0f}};
  good.ignore_eos = true;
  const auto sink = harness_->Generate(good);
  ASSERT_TRUE(sink->done().Get().ok()) << sink->done().Get().status();
  ASSERT_TRUE(reference_->Generate(good)->done().Get().ok());
  GenerateRequest bad = GenerateOf("s", {}, 3);
  bad.sampling.logit_bias = {{kBad, 100.0f}};
  const auto failed = harness_->Generate(bad);
  ExpectNotFinite(failed->done().Get().status(), 14, /*restored=*/true);
  EXPECT_TRUE(failed->items().empty());
  EXPECT_EQ(Info("s").position, 14u);
  // Where it was its logits are, once it has come there again.
  if (IsLogged()) Start();
  good.prompt.clear();
  const auto next = harness_->Generate(good);
  const auto expected = reference_->Generate(good);
  // Its last hidden vector is a function of what it absorbs again.
  ASSERT_TRUE(next->done().Get().ok()) << next->done().Get().status();
  ASSERT_TRUE(expected->done().Get().ok());
  ASSERT_EQ(next->items().size(), expected->items().size());
  for (size_t i = 0; i < next->items().size(); ++i) {
    EXPECT_EQ(next->items()[i].token, expected->items()[i].token);
  }
}

TEST_P(EngineHealthTest, ScoreAndEmbedFailLikewise) {
  Create("s");
  ExpectSame("s", {1, 2, 3});
  ExpectNotFinite(
      harness_->Score(ScoreOf("s", {4, kBad}))->done().Get().status(), 3, true);
  ExpectNotFinite(
      harness_->Embed(EmbedOf("s", {4, kBad}))->done().Get().status(), 3, true);
  ExpectSame("s", {4});
  // A state of their own is nobody's afterwards.
  const absl::Status alone =
      harness_->Score(ScoreOf("", {4, kBad}))->done().Get().status();
  EXPECT_EQ(ReasonOf(alone), ErrorReason::kStateNotFinite);
  EXPECT_EQ(MetadataOf(alone, "position"), "");
  EXPECT_EQ(Counted("no_session"), 1);
  EXPECT_EQ(Counted("restored"), 2);
}

TEST_P(EngineHealthTest, OthersOfTheBatchAndCopiesGoOn) {
  Create("s");
  Create("other");
  ExpectSame("s", {1, 2, 3});
  ExpectSame("other", {3, 4});
  ASSERT_TRUE(Fork("s", "copy").ok());
  StepFuture bad;
  StepFuture good;
  StepFuture queued;
  {
    ComputeHold hold(*harness_);
    StepRequest first = StepOf("s", {kBad});
    first.writer = harness_->engine().NewWriter();
    StepRequest second = StepOf("s", {4});
    second.writer = first.writer;
    bad = harness_->StepAsync(first);
    queued = harness_->StepAsync(second);
    good = harness_->StepAsync(StepOf("other", {5}));
  }
  ExpectNotFinite(bad.Get().status(), 3, /*restored=*/true);
  EXPECT_EQ(good.Get()->logits, reference_->Step(StepOf("other", {5}))->logits);
  // What waited behind it is carried out where it is now.
  const auto expected = reference_->Step(StepOf("s", {4}));
  ASSERT_TRUE(queued.Get().ok()) << queued.Get().status();
  EXPECT_EQ(queued.Get()->logits, expected->logits);
  EXPECT_EQ(harness_->Step(StepOf("copy", {4}))->logits, expected->logits);
}

TEST_P(EngineHealthTest, AStepThatStartsAnewNeedsNoSoundState) {
  Create("s");
  ExpectSame("s", Embeddings("s", 2));
  ASSERT_FALSE(harness_->Step(StepOf("s", {1, 2, 3, 4, 5, kBad})).ok());
  StepRequest start = StepOf("s", {3, 4});
  start.starts = true;
  ExpectSame("s", start);
  start.session = "new";  // that it has made is gone when it fails
  start.tokens = {1, 2, 3, 4, 5, kBad};
  ASSERT_FALSE(harness_->Step(start).ok() ||
               harness_->engine().GetSession("new").ok());
}

// Embeddings are not kept: nothing leads to where they have been.
TEST_P(EngineHealthTest, WhereNothingLeadsBackNothingIsComputed) {
  if (IsLogged()) GTEST_SKIP() << "the log leads there";
  Create("s");
  ExpectSame("s", Keyed(StepOf("s", GoodTokens(20, 1)), "first", 0));
  if (HasStore()) {
    ASSERT_TRUE(Hibernate("s").ok());
  }
  ExpectSame("s", Embeddings("s", 2));
  const absl::Status failed = harness_->Step(StepOf("s", {kBad})).status();
  ExpectNotFinite(failed, 23, /*restored=*/false);
  // In memory after the first step, within which one was due.
  const uint64_t kept = GetParam() == Kept::kNowhere ? 0 : 20;
  EXPECT_EQ(MetadataOf(failed, "kept_position"), absl::StrCat(kept));
  EXPECT_TRUE(Info("s").not_finite);
  EXPECT_EQ(Info("s").position, 23u);
  for (int i = 0; i < 2; ++i) {
    ExpectNotFinite(harness_->Step(StepOf("s", {4})).status(), 23, false);
    ExpectNotFinite(
        harness_->Generate(GenerateOf("s", {4}, 2))->done().Get().status(), 23,
        false);
    ExpectNotFinite(Fork("s", "copy"), 23, false);
    ExpectNotFinite(Export("s"), 23, false);
    ExpectNotFinite(Rewind("s", 23), 23, false);
  }
  EXPECT_EQ(Counted("not_restored"), 1);
  // What was carried out before can be told still.
  const auto repeat =
      harness_->Step(Keyed(StepOf("s", GoodTokens(20, 1)), "first", 0));
  EXPECT_FALSE(repeat.ok());  // it asks for logits
  EXPECT_EQ(ReasonOf(Rewind("s", 22)), ErrorReason::kPositionOutOfReach);
  ASSERT_TRUE(Fork("s", "copy", kept).ok());
  ASSERT_TRUE(Rewind("s", kept).ok());
  EXPECT_FALSE(Info("s").not_finite);
  ASSERT_TRUE(Rewind(*reference_, "s", kept).ok());
  ExpectSame("s", {4, 5});
  ASSERT_TRUE(harness_->Step(StepOf("copy", {4, 5})).ok());
  ExpectSame("s", {6});
}

TEST_P(EngineHealthTest, ASessionThatLeavesMemoryIsWhatTheStoreHas) {
  if (GetParam() != Kept::kInStore) GTEST_SKIP() << "it is taken back at once";
  Create("s");
  ExpectSame("s", GoodTokens(20, 1));
  ASSERT_TRUE(Hibernate("s").ok());
  ExpectSame("s", Embeddings("s", 2));
  ExpectNotFinite(harness_->Step(StepOf("s", {kBad})).status(), 23, false);
  const SessionEvents& events = harness_->engine().session_events();
  const uint64_t before = events.next();
  ASSERT_TRUE(Hibernate("s").ok());
  EXPECT_EQ(Info("s").position, 20u);
  const auto told = events.Read({}, before, 10);
  ASSERT_TRUE(told.ok()) << told.status();
  ASSERT_EQ(told->events.size(), 2u);
  EXPECT_EQ(told->events[0].kind, SessionEventKind::kRewound);
  EXPECT_EQ(told->events[0].position, 20u);
  EXPECT_EQ(told->events[1].kind, SessionEventKind::kHibernated);
  EXPECT_EQ(told->events[1].position, 20u);
  // Whoever asks first is told, whatever else happens meanwhile.
  ASSERT_TRUE(Export("s").ok());
  ASSERT_TRUE(Hibernate("s").ok());
  ExpectNotFinite(harness_->Step(StepOf("s", {4})).status(), 20, true);
  ASSERT_TRUE(Rewind(*reference_, "s", 0).ok());
  ASSERT_TRUE(reference_->Step(StepOf("s", GoodTokens(20, 1))).ok());
  ExpectSame("s", {4});
  ExpectSame("s", {5});
}

TEST_P(EngineHealthTest, WhatAKillOrAnEndLeavesIsFinite) {
  if (!HasStore()) GTEST_SKIP() << "no store";
  for (const bool in_order : {false, true}) {
    if (!in_order && !IsLogged()) continue;
    const std::string session = in_order ? "end" : "kill";
    Create(session);
    ExpectSame(session, GoodTokens(20, 1));
    ASSERT_TRUE(Hibernate(session).ok());
    ExpectSame(session, Embeddings(session, 2));
    ExpectNotFinite(harness_->Step(StepOf(session, {kBad})).status(),
                    IsLogged() ? 22 : 23, /*restored=*/IsLogged());
    if (in_order) {
      EXPECT_EQ(harness_->engine().StoreSessions(absl::Seconds(60)), 0u);
    }
    Start();
    // The log has the embeddings, and nothing of what followed.
    EXPECT_EQ(Info(session).position, IsLogged() ? 22u : 20u);
    if (!IsLogged()) {
      ExpectNotFinite(harness_->Step(StepOf(session, {4})).status(), 20, true);
      ASSERT_TRUE(Rewind(*reference_, session, 0).ok());
      ASSERT_TRUE(reference_->Step(StepOf(session, GoodTokens(20, 1))).ok());
    }
    ExpectSame(session, {4});
  }
}

// There is nothing better.
TEST_P(EngineHealthTest, AStateThatIsAllThereIsIsStored) {
  if (GetParam() != Kept::kInStore) GTEST_SKIP() << "it is never all there is";
  Create("s");
  ExpectSame("s", Embeddings("s", 2));
  ExpectNotFinite(harness_->Step(StepOf("s", {kBad})).status(), 3, false);
  EXPECT_EQ(harness_->engine().StoreSessions(absl::Seconds(60)), 0u);
  Start();
  EXPECT_EQ(Info("s").position, 3u);
  ExpectNotFinite(harness_->Step(StepOf("s", {4})).status(), 3, false);
  ASSERT_TRUE(Rewind("s", 0).ok());
  ASSERT_TRUE(Rewind(*reference_, "s", 0).ok());
  ExpectSame("s", {4});
}

TEST_P(EngineHealthTest, WhereTheStoreFailsTheSessionCanBeTakenBackLater) {
  if (!HasStore()) GTEST_SKIP() << "no store";
  for (const bool after_it : {false, true}) {
    const std::string session = after_it ? "after" : "before";
    Create(session);
    ExpectSame(session, {1, 2, 3});
    ASSERT_TRUE(Hibernate(session).ok());
    ExpectSame(session, {4, 5});
    after_it ? store_.FailWritesAfterThem(true) : store_.FailWrites(true);
    ExpectNotFinite(harness_->Step(StepOf(session, {kBad})).status(), 6, false);
    ExpectNotFinite(harness_->Step(StepOf(session, {6})).status(), 6, false);
    after_it ? store_.FailWritesAfterThem(false) : store_.FailWrites(false);
    harness_->clock().Advance(absl::Seconds(2));
    if (IsLogged()) Start();
    if (!IsLogged()) {
      ASSERT_TRUE(Rewind(session, 5).ok());
    }
    EXPECT_EQ(Info(session).position, 5u);
    ExpectSame(session, {6});
  }
}

TEST_P(EngineHealthTest, WhatComesWhileItIsTakenBackHasItsWay) {
  Create("s");
  ExpectSame("s", {1, 2, 3});
  {
    ThreadHold hold("SessionKeeper::DoJob");
    RequestId id = 0;
    const StepFuture bad = harness_->StepAsync(StepOf("s", {kBad}), &id);
    hold.WaitUntilHeld();
    EXPECT_EQ(Info("s").position, 3u);
    harness_->engine().Cancel(id);
    hold.Release();
    ExpectNotFinite(bad.Get().status(), 3, /*restored=*/true);
  }
  ExpectSame("s", {4});
  Future<absl::Status> removed;
  {
    ThreadHold hold("SessionKeeper::DoJob");
    const StepFuture bad = harness_->StepAsync(StepOf("s", {kBad}));
    hold.WaitUntilHeld();
    ASSERT_TRUE(harness_->engine()
                    .DeleteSession("s",
                                   [removed](const absl::Status& status) {
                                     removed.Set(CloneError(status));
                                   })
                    .ok());
    hold.Release();
    EXPECT_EQ(ReasonOf(bad.Get().status()), ErrorReason::kSessionNotFound);
  }
  EXPECT_TRUE(removed.Get().ok());
  if (HasStore()) Start();
  EXPECT_EQ(ReasonOf(harness_->engine().GetSession("s").status()),
            ErrorReason::kSessionNotFound);
}

// No output shows it yet.
TEST_P(EngineHealthTest, AStateThatIsNotFiniteIsFoundWhereAllOfItIsRead) {
  if (GetParam() == Kept::kInMemory) GTEST_SKIP() << "as nowhere";
  Create("s");
  ExpectSame("s", GoodTokens(20, 1));
  const auto exported = std::make_shared<Engine::Export>();
  ASSERT_TRUE(
      harness_->Work("s", harness_->engine().ExportWork(exported)).ok());
  SessionOptions options;
  options.id = "t";
  ASSERT_TRUE(harness_
                  ->Work("", harness_->engine().ImportWork(
                                 Spoiled(exported->snapshot), options,
                                 std::make_shared<SessionInfo>()))
                  .ok());
  const auto norms = std::make_shared<Engine::Norms>();
  ASSERT_TRUE(harness_->Work("t", harness_->engine().NormsWork(norms)).ok());
  EXPECT_EQ(norms->slots.front().non_finite, 1u);
  EXPECT_TRUE(Info("t").not_finite);
  EXPECT_EQ(Counted("not_restored"), 1);
  ExpectNotFinite(harness_->Step(StepOf("t", {4})).status(), 20, false);
  ExpectNotFinite(Export("t"), 20, false);
  if (HasStore()) {
    // Nothing else is there of it.
    ASSERT_TRUE(Hibernate("t").ok());
    ExpectNotFinite(harness_->Step(StepOf("t", {4})).status(), 20, false);
  }
  // What it remembers leads there.
  ASSERT_TRUE(Rewind("t", 12).ok());
  ASSERT_TRUE(Rewind(*reference_, "s", 12).ok());
  const auto got = harness_->Step(StepOf("t", {4}));
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->logits, reference_->Step(StepOf("s", {4}))->logits);
}

// Its own tokens take the place of those that lead to where it began.
TEST_P(EngineHealthTest, AStepThatForgetsItsWayBackIsUndoneWhole) {
  options_.history = 32;
  options_.snapshots = GetParam() == Kept::kInMemory ? 2 : 0;
  Start();
  Create("s");
  for (const size_t before : {size_t{10}, size_t{3}, size_t{40}, size_t{5}}) {
    ExpectSame("s", GoodTokens(before, before));
    if (before == 40 && HasStore()) {
      ASSERT_TRUE(Hibernate("s").ok());
    }
    const uint64_t position = Info("s").position;
    for (const size_t rows : {size_t{30}, size_t{31}, size_t{90}}) {
      std::vector<int32_t> tokens = GoodTokens(rows, rows);
      tokens.back() = kBad;
      ExpectNotFinite(harness_->Step(StepOf("s", tokens)).status(), position,
                      /*restored=*/true);
      EXPECT_EQ(Info("s").position, position);
    }
    if (IsLogged()) Start();
  }
  ExpectSame("s", GoodTokens(40, 9));
  ExpectSame("s", {4});
}

// There is no memory for a copy, nor does it need one.
TEST_P(EngineHealthTest, ItsWayIsRememberedWhereMemoryIsFull) {
  options_.history = 32;
  options_.snapshots = 0;
  StartWithMemoryFor(1);
  Create("s");
  ExpectSame("s", GoodTokens(10, 1));
  std::vector<int32_t> tokens = GoodTokens(60, 2);
  tokens.back() = kBad;
  ExpectNotFinite(harness_->Step(StepOf("s", tokens)).status(), 10, true);
  ExpectSame("s", GoodTokens(60, 3));
}

// What a copy takes is free again for others.
TEST_P(EngineHealthTest, ACopyIsChargedForAsLongAsItsStep) {
  if (GetParam() != Kept::kNowhere) GTEST_SKIP() << "none is made";
  options_.history = 32;
  StartWithMemoryFor(2);
  Create("s");
  ExpectSame("s", GoodTokens(40, 1));
  for (const bool bad : {true, false, true}) {
    std::vector<int32_t> tokens = GoodTokens(60, 2);
    if (bad) tokens.back() = kBad;
    const uint64_t position = Info("s").position;
    const auto step = harness_->Step(StepOf("s", tokens));
    if (bad) ExpectNotFinite(step.status(), position, true);
    if (!bad) {
      ASSERT_TRUE(reference_->Step(StepOf("s", tokens)).ok());
    }
    // There is room for one more session between two such Steps.
    Create("t");
    ExpectSame("t", {1, 2});
    ASSERT_TRUE(harness_->engine().DeleteSession("t", nullptr).ok());
    ASSERT_TRUE(reference_->engine().DeleteSession("t", nullptr).ok());
  }
  ExpectSame("s", {4});
}

// A snapshot in the midst of it would stand for what leads to its beginning.
TEST_P(EngineHealthTest, NoSnapshotIsTakenInTheMidstOfAStep) {
  options_.history = 16;
  options_.snapshots = GetParam() == Kept::kInMemory ? 1 : 0;
  // A piece of one row counts for 10 us, also by a clock that stands still.
  options_.max_replay = absl::Milliseconds(1);
  options_.prefill_chunk_rows = 1;
  EngineOptions plain;
  plain.prefill_chunk_rows = 1;
  reference_.emplace(plain);
  Start();
  Create("s");
  ExpectSame("s", Embeddings("s", 10));
  if (HasStore()) {
    ASSERT_TRUE(Hibernate("s").ok());
  }
  for (const size_t rows : {size_t{150}, size_t{200}}) {
    harness_->clock().Advance(absl::Seconds(1));
    std::vector<int32_t> tokens = GoodTokens(rows, 3);
    tokens.back() = kBad;
    ExpectNotFinite(harness_->Step(StepOf("s", tokens)).status(), 10,
                    /*restored=*/true);
  }
  if (IsLogged()) Start();
  ExpectSame("s", GoodTokens(40, 4));
  if (HasStore()) {
    ASSERT_TRUE(Hibernate("s").ok());
  }
  ExpectSame("s", {5});
}

// Of a Step that a kill has cut in two its repeat is undone as well.
TEST_P(EngineHealthTest, AStepThatAKillCutInTwoIsUndoneWhole) {
  if (!IsLogged()) GTEST_SKIP() << "nothing is left of it";
  options_.history = 16;
  Start();
  Create("s");
  ExpectSame("s", Embeddings("s", 10));
  std::vector<int32_t> tokens = GoodTokens(60, 3);
  tokens.back() = kBad;
  const StepRequest step = Keyed(StepOf("s", tokens), "r", 10);
  MemoryStore killed;
  {
    ThreadHold hold("Journal, written");
    const StepFuture cut = harness_->StepAsync(step);
    hold.WaitUntilHeld();
    store_.CopyTo(killed);
    hold.Release();
    ExpectNotFinite(cut.Get().status(), 10, /*restored=*/true);
  }
  harness_.reset();
  harness_.emplace(options_, ModelWithABadToken(), &killed);
  EXPECT_GT(Info("s").position, 10u);
  ExpectNotFinite(harness_->Step(step).status(), 10, /*restored=*/true);
  ExpectSame("s", {5});
  harness_.reset();
}

// The log has all that was answered, whatever the session remembers.
TEST_P(EngineHealthTest, WhatWasAnsweredIsInTheLog) {
  if (!IsLogged()) GTEST_SKIP() << "no log";
  for (const Durability durability : {Durability::kLog, Durability::kSync}) {
    options_.durability = durability;
    const std::string session = durability == Durability::kLog ? "l" : "y";
    Start();
    Create(session);
    ExpectSame(session, {1, 2, 3});
    for (int i = 0; i < 5; ++i) ExpectSame(session, Embeddings(session, 10));
    const uint64_t position = Info(session).position;
    ExpectNotFinite(harness_->Step(StepOf(session, {kBad})).status(), position,
                    /*restored=*/true);
    ASSERT_TRUE(Hibernate(session).ok());
    EXPECT_EQ(Info(session).position, position);
    Start();
    EXPECT_EQ(Info(session).position, position);
    ExpectSame(session, {4});
    ExpectNotFinite(harness_->Step(StepOf(session, {kBad})).status(),
                    position + 1, /*restored=*/true);
    ExpectSame(session, {5});
  }
}

// It was told that nothing leads back, since the store failed; when that works
// again everything that was answered is there, and whoever asks is told.
TEST_P(EngineHealthTest, WhatAStoreThatFailedKeptFromBeingUndoneIsUndoneLater) {
  if (!HasStore()) GTEST_SKIP() << "no store";
  for (const std::string then : {"step", "hibernate", "end"}) {
    Create(then);
    ExpectSame(then, GoodTokens(3, 1));
    if (IsLogged()) ExpectSame(then, Embeddings(then, 20));
    const uint64_t position = Info(then).position;
    std::vector<int32_t> tokens = GoodTokens(3 * kChunkRows, 5);
    tokens.back() = kBad;
    store_.FailWrites(true);
    const uint64_t after = position + tokens.size();
    ExpectNotFinite(harness_->Step(StepOf(then, tokens)).status(), after,
                    /*restored=*/false);
    ExpectNotFinite(harness_->Step(StepOf(then, {4})).status(), after, false);
    store_.FailWrites(false);
    harness_->clock().Advance(absl::Milliseconds(1500));
    if (then == "hibernate") {
      ASSERT_TRUE(Hibernate(then).ok());
    }
    if (then == "end") {
      EXPECT_EQ(harness_->engine().StoreSessions(absl::Seconds(60)), 0u);
    }
    if (then != "step") Start();
    ExpectNotFinite(harness_->Step(StepOf(then, {4})).status(), position,
                    /*restored=*/true);
    EXPECT_EQ(Info(then).position, position);
    ExpectSame(then, {4});
    ASSERT_TRUE(Hibernate(then).ok());
    ExpectSame(then, {5});
  }
}

TEST_P(EngineHealthTest, TheNextServerTellsWhatWasTakenBack) {
  if (GetParam() != Kept::kInStore) GTEST_SKIP() << "nothing is";
  Create("s");
  ExpectSame("s", GoodTokens(20, 1));
  ASSERT_TRUE(Hibernate("s").ok());
  ExpectSame("s", Embeddings("s", 2));
  ExpectNotFinite(harness_->Step(StepOf("s", {kBad})).status(), 23, false);
  ASSERT_TRUE(Hibernate("s").ok());
  Start();
  EXPECT_EQ(Info("s").position, 20u);
  ExpectNotFinite(harness_->Step(StepOf("s", {4})).status(), 20, true);
  ASSERT_TRUE(Rewind(*reference_, "s", 0).ok());
  ASSERT_TRUE(reference_->Step(StepOf("s", GoodTokens(20, 1))).ok());
  ExpectSame("s", {4});
  ASSERT_TRUE(Hibernate("s").ok());
  Start();
  ExpectSame("s", {5});
}

// The snapshot that is all there is does not count.
TEST_P(EngineHealthTest, ThereIsAlwaysAWayToTheKeptPosition) {
  Create("s");
  ExpectSame("s", GoodTokens(20, 1));
  const auto exported = std::make_shared<Engine::Export>();
  ASSERT_TRUE(
      harness_->Work("s", harness_->engine().ExportWork(exported)).ok());
  SessionOptions options;
  options.id = "t";
  const auto info = std::make_shared<SessionInfo>();
  const std::string spoiled = Spoiled(exported->snapshot);
  ASSERT_TRUE(
      harness_->Work("", harness_->engine().ImportWork(spoiled, options, info))
          .ok());
  EXPECT_EQ(info->not_finite, IsLogged());
  if (HasStore()) {
    ASSERT_TRUE(Hibernate("t").ok());
  }
  if (HasStore()) Start();
  ASSERT_TRUE(harness_
                  ->Work("t", harness_->engine().NormsWork(
                                  std::make_shared<Engine::Norms>()))
                  .ok());
  const absl::Status failed = harness_->Step(StepOf("t", {4})).status();
  ExpectNotFinite(failed, 20, /*restored=*/false);
  EXPECT_EQ(MetadataOf(failed, "kept_position"), "0");
  EXPECT_EQ(ReasonOf(Rewind("t", 20)), ErrorReason::kStateNotFinite);
  ASSERT_TRUE(Rewind("t", 0).ok());
  reference_->CreateSession("t");
  ExpectSame("t", {4});
}

TEST_P(EngineHealthTest, AnythingInAnyOrder) {
  std::mt19937 random(21);
  Create("s");
  size_t failed = 0;
  for (int i = 0; i < 150; ++i) {
    const uint64_t position = Info("s").position;
    const auto what = random() % 8;
    std::vector<int32_t> tokens = GoodTokens(1 + random() % 10, random());
    if (what < 3) {
      ExpectSame("s", tokens);
    } else if (what < 6) {
      tokens[random() % tokens.size()] = kBad;
      StepRequest step = StepOf("s", tokens);
      if (random() % 2 == 0) step = Keyed(step, absl::StrCat(i), position);
      const absl::Status status = harness_->Step(step).status();
      // The engine may have kept a later state in the place of an earlier one.
      ExpectNotFinite(status, position, /*restored=*/true);
      EXPECT_EQ(Info("s").position, position);
      ++failed;
    } else if (what == 6 && HasStore()) {
      ASSERT_TRUE(Hibernate("s").ok());
    } else if (what == 7 && IsLogged()) {
      Start();
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(failed, 30u);
}

}  // namespace
}  // namespace steadystate::engine_health_test
