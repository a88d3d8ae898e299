// Goal: a request that is sent again is carried out once, and its sender gets
// the answer that was lost. Method: every request is repeated after, beside and
// before the first; whatever is answered is compared with a session that was
// never disturbed, to the bit.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/engine/engine_harness.h"

namespace steadystate::engine_repeat_test {
namespace {

using testing::IsEmpty;

constexpr size_t kChunk = 8;

EngineOptions Options(size_t history = 4096) {
  EngineOptions options;
  options.prefill_chunk_rows = kChunk;
  options.history = history;
  return options;
}

using Counts = std::vector<size_t>;

template <typename R>
R Keyed(R request, const std::string& id, uint64_t expected_position) {
  request.request_id = id;
  request.expected_position = expected_position;
  return request;
}

// A step that asks for a token and its most likely rivals.
StepRequest SampleOf(const std::string& session, std::vector<int32_t> tokens) {
  StepRequest request;
  request.session = session;
  request.tokens = std::move(tokens);
  request.outputs.sampling.emplace().seed = 5;
  request.outputs.top_logprobs = 2;
  return request;
}

std::vector<std::pair<int32_t, float>> Pairs(
    const std::vector<TokenLogprob>& from) {
  std::vector<std::pair<int32_t, float>> pairs;
  pairs.reserve(from.size());
  for (const TokenLogprob& entry : from) {
    pairs.emplace_back(entry.token, entry.logprob);
  }
  return pairs;
}

void ExpectSameAnswer(const StepRecord& first, const StepRecord& second) {
  EXPECT_EQ(first.position, second.position);
  EXPECT_EQ(first.sampled_token, second.sampled_token);
  EXPECT_EQ(first.sampled_logprob, second.sampled_logprob);
  EXPECT_EQ(first.text_delta, second.text_delta);
  EXPECT_EQ(Pairs(first.top_logprobs), Pairs(second.top_logprobs));
  EXPECT_EQ(first.logits, second.logits);
  EXPECT_EQ(first.hidden, second.hidden);
}

class EngineRepeatTest : public testing::Test {
 protected:
  explicit EngineRepeatTest(const EngineOptions& options = Options())
      : harness_(options) {
    harness_.CreateSession("s");
  }

  Engine& engine() { return harness_.engine(); }
  double Replays() { return harness_.Metric({"steadystate_replays_total"}); }
  double Mismatches() {
    return harness_.Metric({"steadystate_position_mismatches_total"});
  }

  StepRecord Done(StepRequest request) {
    const auto result = harness_.Step(std::move(request));
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *result : StepRecord();
  }

  EngineHarness harness_;
};

class EngineShortHistoryTest : public EngineRepeatTest {
 protected:
  EngineShortHistoryTest() : EngineRepeatTest(Options(6)) {}
};

TEST_F(EngineRepeatTest, AStepThatWasCarriedOutIsAnsweredAgain) {
  std::vector<StepRequest> requests;
  std::vector<StepRecord> answers;
  std::string text;
  for (uint64_t i = 0; i < 20; ++i) {
    requests.push_back(
        Keyed(SampleOf("s", {static_cast<int32_t>(i)}), absl::StrCat(i), i));
    requests.back().outputs.text = i % 2 == 0;
    answers.push_back(Done(requests.back()));
    EXPECT_FALSE(answers.back().replayed);
    if (!requests.back().outputs.text) {
      EXPECT_EQ(answers.back().text_delta, "");
    }
    text += answers.back().text_delta;
  }
  EXPECT_NE(text, "");
  for (size_t i = 0; i < requests.size(); ++i) {
    const StepRecord again = Done(requests[i]);
    EXPECT_TRUE(again.replayed);
    ExpectSameAnswer(again, answers[i]);
  }
  EXPECT_EQ(harness_.Position("s"), 20u);
  EXPECT_EQ(Replays(), 20);
  EXPECT_EQ(Mismatches(), 0);
  // Nor has a repeat left anything in the state.
  harness_.CreateSession("t");
  for (StepRequest request : requests) {
    request.session = "t";
    Done(request);
  }
  ExpectSameAnswer(Done(StepOf("s", {1})), Done(StepOf("t", {1})));
}

TEST_F(EngineRepeatTest, WhatIsTooMuchToKeepIsComputedAgain) {
  StepRequest request = Keyed(StepOf("s", MakeTokens(20, 1)), "a", 0);
  request.outputs.top_logprobs = 200;
  request.outputs.sampling.emplace().seed = 3;
  const StepRecord first = Done(request);
  ASSERT_FALSE(first.logits.empty());
  for (int i = 0; i < 2; ++i) {
    const StepRecord again = Done(request);
    EXPECT_TRUE(again.replayed);
    ExpectSameAnswer(again, first);
  }
  EXPECT_EQ(harness_.Position("s"), 20u);
  // Not when the session has gone on.
  Done(StepOf("s", {1}));
  const absl::Status refused = harness_.Step(request).status();
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kReplayUnavailable);
  EXPECT_EQ(MetadataOf(refused, "position"), "20");
  EXPECT_EQ(MetadataOf(refused, "expected_position"), "0");
  EXPECT_EQ(harness_.Position("s"), 21u);
}

TEST_F(EngineRepeatTest, NothingIsTakenForARepeatWithoutIdAndPosition) {
  StepRequest request = SampleOf("s", {1});
  request.request_id = "a";
  Done(request);
  EXPECT_FALSE(Done(request).replayed);
  EXPECT_EQ(harness_.Position("s"), 2u);
  request.request_id.clear();
  request.expected_position = 0;
  EXPECT_EQ(ReasonOf(harness_.Step(request).status()),
            ErrorReason::kPositionMismatch);
  // Nor is what has another id, or none where the first had one.
  Done(Keyed(SampleOf("s", {1}), "a", 2));
  EXPECT_EQ(ReasonOf(harness_.Step(Keyed(SampleOf("s", {1}), "b", 2)).status()),
            ErrorReason::kPositionMismatch);
  EXPECT_EQ(Replays(), 0);
  EXPECT_EQ(Mismatches(), 2);
}

TEST_F(EngineRepeatTest, AnIdIsForOneRequest) {
  const StepRequest first = Keyed(SampleOf("s", {1}), "a", 0);
  Done(first);
  std::vector<StepRequest> others(4, first);
  others[0].tokens = {2};
  others[1].tokens = {1, 1};
  others[2].outputs.sampling->seed = 6;
  others[3].outputs.logits = true;
  for (const StepRequest& other : others) {
    const absl::Status refused = harness_.Step(other).status();
    EXPECT_EQ(ReasonOf(refused), ErrorReason::kRequestIdReused);
    EXPECT_EQ(MetadataOf(refused, "value"), "a");
  }
  const auto generate =
      harness_.Generate(Keyed(GenerateOf("s", {1}, 3), "a", 0));
  EXPECT_EQ(ReasonOf(generate->done().Get().status()),
            ErrorReason::kRequestIdReused);
  EXPECT_EQ(harness_.Position("s"), 1u);
  EXPECT_TRUE(Done(first).replayed);
}

// Whoever waits for the end of an endless generation hears nothing.
TEST_F(EngineRepeatTest, AnIdOfOneThatRunsOrWaitsIsTakenToo) {
  const StepRequest first = Keyed(SampleOf("s", {1}), "a", 0);
  const StepRequest second = Keyed(SampleOf("s", {1}), "b", 1);
  StepRequest other_first = first;
  other_first.tokens = {2};
  StepRequest other_second = second;
  other_second.outputs.logits = true;
  std::vector<StepFuture> answers;
  {
    ComputeHold hold(harness_);
    const WriterId writer = engine().NewWriter();
    for (StepRequest request : {first, second}) {
      request.writer = writer;
      answers.push_back(harness_.StepAsync(std::move(request)));
    }
    for (const StepRequest& other : {other_first, other_second}) {
      const absl::Status refused = harness_.Step(other).status();
      EXPECT_EQ(ReasonOf(refused), ErrorReason::kRequestIdReused) << refused;
      EXPECT_EQ(MetadataOf(refused, "value"), other.request_id);
    }
    // Another type of request, too.
    const auto generate =
        harness_.Generate(Keyed(GenerateOf("s", {1}, 3), "a", 0));
    EXPECT_EQ(ReasonOf(generate->done().Get().status()),
              ErrorReason::kRequestIdReused);
    answers.push_back(harness_.StepAsync(first));
  }
  for (const StepFuture& answer : answers) EXPECT_TRUE(answer.Get().ok());
  EXPECT_TRUE(answers.back().Get()->replayed);
  EXPECT_EQ(harness_.Position("s"), 2u);
}

TEST_F(EngineRepeatTest, WhatIsOlderThanTheRecordsIsAMismatch) {
  const StepRequest first = Keyed(SampleOf("s", {1}), "0", 0);
  Done(first);
  for (uint64_t i = 1; i < RequestRecords::kMaxRecords; ++i) {
    Done(Keyed(SampleOf("s", {1}), absl::StrCat(i), i));
  }
  EXPECT_TRUE(Done(first).replayed);
  Done(Keyed(SampleOf("s", {1}), "last", RequestRecords::kMaxRecords));
  const absl::Status refused = harness_.Step(first).status();
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kPositionMismatch);
  EXPECT_EQ(MetadataOf(refused, "position"),
            absl::StrCat(RequestRecords::kMaxRecords + 1));
}

TEST_F(EngineRepeatTest, ARepeatWaitsForTheFirst) {
  Done(Keyed(SampleOf("s", {9}), "before", 0));
  std::vector<StepRequest> requests;
  for (uint64_t i = 1; i <= 4; ++i) {
    requests.push_back(Keyed(SampleOf("s", {2}), absl::StrCat(i), i));
  }
  std::vector<StepFuture> firsts;
  std::vector<StepFuture> seconds;
  {
    ComputeHold hold(harness_);
    const WriterId broken = engine().NewWriter();
    for (StepRequest request : requests) {
      request.writer = broken;
      firsts.push_back(harness_.StepAsync(std::move(request)));
    }
    // Others are refused as ever, with an id or without.
    for (const StepRequest& other :
         {SampleOf("s", {2}), Keyed(SampleOf("s", {2}), "5", 5),
          Keyed(SampleOf("s", {2}), "1", 3), Keyed(SampleOf("s", {9}), "x", 0),
          Keyed(SampleOf("s", {9}), "before", 1)}) {
      EXPECT_EQ(ReasonOf(harness_.Step(other).status()),
                ErrorReason::kSessionBusy);
    }
    // A client that comes back sends all again, and goes on: what was carried
    // out, what waits, and what never came.
    const WriterId back = engine().NewWriter();
    requests.insert(requests.begin(), Keyed(SampleOf("s", {9}), "before", 0));
    requests.push_back(Keyed(SampleOf("s", {2}), "5", 5));
    for (StepRequest request : requests) {
      request.writer = back;
      seconds.push_back(harness_.StepAsync(std::move(request)));
    }
    // The former is not put out by that: it may have been the live one.
    StepRequest late = SampleOf("s", {3});
    late.writer = broken;
    seconds.push_back(harness_.StepAsync(std::move(late)));
  }
  for (size_t i = 0; i < seconds.size(); ++i) {
    const auto& second = seconds[i].Get();
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_EQ(second->replayed, i + 2 < seconds.size());
    EXPECT_EQ(second->position, i + 1);
    if (i == 0 || i > firsts.size()) continue;
    ExpectSameAnswer(*firsts[i - 1].Get(), *second);
  }
  EXPECT_EQ(harness_.Position("s"), 7u);
}

TEST_F(EngineRepeatTest, ARepeatOfWhatNeverBeganIsCarriedOut) {
  const StepRequest request = Keyed(SampleOf("s", {1}), "a", 0);
  StepFuture first;
  StepFuture second;
  {
    ComputeHold hold(harness_);
    RequestId id = 0;
    first = harness_.StepAsync(request, &id);
    second = harness_.StepAsync(request);
    engine().Cancel(id);
  }
  EXPECT_EQ(ReasonOf(first.Get().status()), ErrorReason::kCancelled);
  ASSERT_TRUE(second.Get().ok()) << second.Get().status();
  EXPECT_FALSE(second.Get()->replayed);
  EXPECT_EQ(harness_.Position("s"), 1u);
}

TEST_F(EngineRepeatTest, RepeatsHaveAsManyPlacesAgain) {
  EngineOptions options;
  options.max_queued_per_session = 4;
  EngineHarness harness(options);
  harness.CreateSession("s");
  const StepRequest request = Keyed(SampleOf("s", {1}), "a", 0);
  std::vector<StepFuture> repeats;
  {
    ComputeHold hold(harness);
    for (size_t i = 0; i < 9; ++i)
      repeats.push_back(harness.StepAsync(request));
    const absl::Status refused = harness.Step(request).status();
    EXPECT_EQ(ReasonOf(refused), ErrorReason::kQueueFull);
  }
  for (size_t i = 0; i < repeats.size(); ++i) {
    ASSERT_TRUE(repeats[i].Get().ok()) << repeats[i].Get().status();
    EXPECT_EQ(repeats[i].Get()->replayed, i > 0);
  }
  EXPECT_EQ(harness.Position("s"), 1u);
}

TEST_F(EngineRepeatTest, ScoreAndEmbedAreCarriedOutOnceAndNotToldAgain) {
  const ScoreRequest score = Keyed(ScoreOf("s", MakeTokens(20, 1)), "a", 0);
  EXPECT_TRUE(harness_.Score(score)->done().Get().ok());
  absl::Status refused = harness_.Score(score)->done().Get().status();
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kReplayUnavailable);
  EXPECT_EQ(MetadataOf(refused, "position"), "20");
  const EmbedRequest embed = Keyed(EmbedOf("s", MakeTokens(20, 1)), "a", 20);
  EXPECT_TRUE(harness_.Embed(embed)->done().Get().ok());
  refused = harness_.Embed(embed)->done().Get().status();
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kReplayUnavailable);
  EXPECT_EQ(MetadataOf(refused, "position"), "40");
  EXPECT_EQ(harness_.Position("s"), 40u);
}

// What a generation has handed over, and how it ended.
struct Story {
  std::vector<int32_t> tokens;
  std::vector<uint64_t> positions;
  std::string text;
  GenerateSummary summary;
};

Story StoryOf(Recorder<GenerateRequest>& sink) {
  Story story;
  const auto& summary = sink.done().Get();
  EXPECT_TRUE(summary.ok()) << summary.status();
  for (const GeneratedToken& item : sink.items()) {
    story.tokens.push_back(item.token);
    story.positions.push_back(item.position);
    story.text += item.text_delta;
  }
  if (!summary.ok()) return story;
  story.summary = *summary;
  story.text += summary->text_tail;
  return story;
}

void ExpectSameStory(const Story& told, const Story& whole) {
  EXPECT_EQ(told.tokens, whole.tokens);
  EXPECT_EQ(told.positions, whole.positions);
  EXPECT_EQ(told.text, whole.text);
  EXPECT_EQ(told.summary.finish_reason, whole.summary.finish_reason);
  EXPECT_EQ(told.summary.position, whole.summary.position);
  EXPECT_EQ(told.summary.prompt_tokens, whole.summary.prompt_tokens);
  EXPECT_EQ(told.summary.generated_tokens, whole.summary.generated_tokens);
  EXPECT_EQ(told.summary.seed, whole.summary.seed);
}

class EngineTakeUpTest : public EngineRepeatTest {
 protected:
  static constexpr uint64_t kTokens = 150;

  // The prompt takes three pieces. Anything may be drawn, so characters stay
  // unfinished, and a stop string may lie across a cut.
  static GenerateRequest Request(const std::string& session) {
    GenerateRequest request =
        GenerateOf(session, MakeTokens(2 * kChunk + 3, 1), kTokens);
    request.sampling.temperature = 2;
    request.sampling.seed = 77;
    request.sampling.frequency_penalty = 0.5;
    request.ignore_eos = true;
    return Keyed(request, "g", 0);
  }

  Story Whole() {
    harness_.CreateSession("whole");
    return StoryOf(*harness_.Generate(Request("whole")));
  }

  // Cancels a generation when it has handed over so many items.
  void Break(const GenerateRequest& request, size_t items) {
    RequestId id = 0;
    std::shared_ptr<Recorder<GenerateRequest>> sink;
    {
      ComputeHold hold(harness_);
      sink = harness_.Generate(request, &id);
      sink->set_on_item([this, &id, items](size_t count) {
        if (count == items) engine().Cancel(id);
      });
    }
    EXPECT_EQ(ReasonOf(sink->done().Get().status()), ErrorReason::kCancelled);
  }
};

TEST_F(EngineTakeUpTest, ABrokenGenerationGoesOnAsIfItWereWhole) {
  const Story whole = Whole();
  ASSERT_EQ(whole.tokens.size(), kTokens);
  for (const size_t items : Counts({1, 2, 63, 64, 65, 130, 149})) {
    SCOPED_TRACE(items);
    const std::string session = harness_.CreateSession();
    const GenerateRequest request = Request(session);
    Break(request, items);
    const uint64_t position = harness_.Position(session);
    ASSERT_LT(position, whole.summary.position);
    const Story again = StoryOf(*harness_.Generate(request));
    ExpectSameStory(again, whole);
    EXPECT_EQ(again.summary.replayed_tokens, position - request.prompt.size());
    ExpectSameAnswer(Done(StepOf(session, {1})), [&] {
      const std::string other = harness_.CreateSession();
      GenerateRequest unbroken = Request(other);
      StoryOf(*harness_.Generate(unbroken));
      return Done(StepOf(other, {1}));
    }());
  }
}

TEST_F(EngineTakeUpTest, ItMayBreakAgainAndAgain) {
  const Story whole = Whole();
  const GenerateRequest request = Request("s");
  for (const size_t items : Counts({3, 10, 11, 70, 140})) Break(request, items);
  ExpectSameStory(StoryOf(*harness_.Generate(request)), whole);
  // And be told again when it is over, from first to last.
  for (int i = 0; i < 2; ++i) {
    const Story again = StoryOf(*harness_.Generate(request));
    ExpectSameStory(again, whole);
    EXPECT_EQ(again.summary.replayed_tokens, kTokens);
  }
  // Also when the session has gone on.
  Done(StepOf("s", {1, 2, 3}));
  ExpectSameStory(StoryOf(*harness_.Generate(request)), whole);
}

TEST_F(EngineTakeUpTest, ItMayBreakWithinThePrompt) {
  const Story whole = Whole();
  const GenerateRequest request = Request("s");
  // A live generation's tokens come between the pieces of the prompt.
  RequestId id = 0;
  std::shared_ptr<Recorder<GenerateRequest>> live;
  std::shared_ptr<Recorder<GenerateRequest>> sink;
  {
    ComputeHold hold(harness_);
    live = harness_.Generate(GenerateOf(harness_.CreateSession(), {1}, 40));
    live->set_on_item([this, &id](size_t items) {
      if (items == 1) engine().Cancel(id);
    });
    sink = harness_.Generate(request, &id);
  }
  const auto& end = sink->done().Get();
  EXPECT_EQ(ReasonOf(end.status()), ErrorReason::kCancelled);
  EXPECT_THAT(sink->items(), IsEmpty());
  EXPECT_TRUE(live->done().Get().ok());
  EXPECT_LT(harness_.Position("s"), request.prompt.size());
  ExpectSameStory(StoryOf(*harness_.Generate(request)), whole);
}

TEST_F(EngineTakeUpTest, TheServersSeedStaysThatOfTheFirst) {
  GenerateRequest request = Request("s");
  request.seed_drawn = true;
  Break(request, 20);
  request.sampling.seed = 1;  // as drawn for the repeat
  const Story again = StoryOf(*harness_.Generate(request));
  ExpectSameStory(again, Whole());
  EXPECT_EQ(again.summary.seed, 77u);
}

TEST_F(EngineTakeUpTest, AStopStringIsFoundAcrossTheCut) {
  const Story whole = Whole();
  for (const size_t items : Counts({20, 21, 22})) {
    const std::string session = harness_.CreateSession();
    GenerateRequest request = Request(session);
    // A piece of the text, so that it is found about there.
    request.stop_strings = {whole.text.substr(18, 8)};
    const std::string other = harness_.CreateSession();
    GenerateRequest unbroken = request;
    unbroken.session = other;
    const Story stopped = StoryOf(*harness_.Generate(unbroken));
    ASSERT_EQ(stopped.summary.finish_reason, FinishReason::kStopString);
    if (stopped.tokens.size() <= items) continue;
    Break(request, items);
    ExpectSameStory(StoryOf(*harness_.Generate(request)), stopped);
  }
}

TEST_F(EngineTakeUpTest, AnEmptyPromptGoesOnFromTheTextBefore) {
  // The first bytes of a character, whose end comes with the next tokens.
  GenerateRequest first = Request("s");
  first.max_tokens = 1;
  first.sampling.logit_bias = {{0xe2, 100.0f}};
  StoryOf(*harness_.Generate(first));
  GenerateRequest request =
      Keyed(GenerateOf("s", {}, 20), "h", harness_.Position("s"));
  request.ignore_eos = true;
  harness_.CreateSession("t");
  first.session = "t";
  StoryOf(*harness_.Generate(first));
  GenerateRequest unbroken = request;
  unbroken.session = "t";
  const Story whole = StoryOf(*harness_.Generate(unbroken));
  Break(request, 1);
  ExpectSameStory(StoryOf(*harness_.Generate(request)), whole);
}

TEST_F(EngineTakeUpTest, NotWhenTheSessionHasGoneOn) {
  const GenerateRequest request = Request("s");
  Break(request, 10);
  Done(StepOf("s", {1}));
  EXPECT_EQ(ReasonOf(harness_.Generate(request)->done().Get().status()),
            ErrorReason::kPositionMismatch);
}

TEST_F(EngineTakeUpTest, NotWithLogProbabilities) {
  GenerateRequest request = Request("s");
  request.logprobs = 0;
  Break(request, 10);
  EXPECT_EQ(ReasonOf(harness_.Generate(request)->done().Get().status()),
            ErrorReason::kReplayUnavailable);
}

// Its client is gone, and nobody has noticed: it is paused for ever.
TEST_F(EngineTakeUpTest, ARepeatTakesOverFromOneThatIsNotRead) {
  const Story whole = Whole();
  for (const bool reads : {false, true}) {
    const std::string session = reads ? "r" : "s";
    if (reads) harness_.CreateSession(session);
    GenerateRequest request = Request(session);
    if (reads) request.max_tokens = std::nullopt;  // it never ends
    std::shared_ptr<Recorder<GenerateRequest>> first;
    {
      ComputeHold hold(harness_);
      first = harness_.Generate(request);
      if (!reads) first->set_limit(3);
    }
    first->AwaitItems(3);
    const auto second = harness_.Generate(request);
    second->AwaitItems(kTokens);
    EXPECT_EQ(ReasonOf(first->done().Get().status()), ErrorReason::kCancelled);
    std::vector<int32_t> tokens;
    for (const GeneratedToken& item : second->items()) {
      tokens.push_back(item.token);
      if (tokens.size() == kTokens) break;
    }
    EXPECT_EQ(tokens, whole.tokens);
    EXPECT_TRUE(second->items().front().replayed);
    if (reads) {
      ASSERT_TRUE(harness_.engine().DeleteSession(session).ok());
    } else {
      ExpectSameStory(StoryOf(*second), whole);
    }
  }
}

TEST_F(EngineTakeUpTest, ARepeatOfOneThatRunsWaitsForIt) {
  const GenerateRequest request = Request("s");
  const Story whole = Whole();
  std::shared_ptr<Recorder<GenerateRequest>> first;
  std::shared_ptr<Recorder<GenerateRequest>> second;
  {
    ComputeHold hold(harness_);
    first = harness_.Generate(request);
    second = harness_.Generate(request);
  }
  ExpectSameStory(StoryOf(*first), whole);
  const Story again = StoryOf(*second);
  ExpectSameStory(again, whole);
  EXPECT_EQ(again.summary.replayed_tokens, kTokens);
}

TEST_F(EngineShortHistoryTest, TokensThatAreForgottenCannotBeReplayed) {
  GenerateRequest request = Keyed(GenerateOf("s", {1, 2, 3}, 6), "g", 0);
  request.ignore_eos = true;
  EXPECT_TRUE(harness_.Generate(request)->done().Get().ok());
  EXPECT_EQ(StoryOf(*harness_.Generate(request)).tokens.size(), 6u);
  Done(StepOf("s", {1}));
  const absl::Status refused =
      harness_.Generate(request)->done().Get().status();
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kReplayUnavailable);
  EXPECT_EQ(MetadataOf(refused, "position"), "9");
}

}  // namespace
}  // namespace steadystate::engine_repeat_test
