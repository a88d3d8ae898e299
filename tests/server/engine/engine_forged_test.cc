// Goal: a snapshot whose checksums are right and whose contents were made up
// harms nobody, whatever is asked of the session that is made of it. Method:
// records and histories that do not belong together, imported and then repeated
// as if the requests had been carried out.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/engine/unfinished_text.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/testing/end_receiver.h"

namespace steadystate::engine_forged_test {
namespace {

constexpr size_t kTokens = 12;

class EngineForgedTest : public testing::Test {
 protected:
  EngineForgedTest()
      : model_(SharedTinyModel()),
        layout_(SessionLayoutOf(*model_, EngineOptions())),
        pool_(layout_.slot(), layout_.charge_bytes(), layout_.charge_bytes()),
        state_(layout_, *pool_.Allocate()) {}

  // The state absorbs tokens, or embeddings; with logits or without.
  void Absorb(const std::vector<int32_t>& tokens, size_t rows, bool logits) {
    const std::vector<float> hidden(layout_.hidden_size(), 0.5f);
    state_.WillAbsorb(rows);
    state_.Absorbed(rows, tokens, logits ? hidden.data() : nullptr);
  }

  template <typename R>
  void Record(const R& request, uint64_t end, bool finished,
              absl::string_view answer = "") {
    state_.records().Put({.id = request.request_id,
                          .begin = *request.expected_position,
                          .end = end,
                          .digest = DigestOf(request),
                          .finished = finished,
                          .answer = answer});
  }

  // Makes session "s" of the state.
  void Import() {
    SessionCard card;
    card.id = "s";
    card.ttl = absl::Hours(1);
    auto created = std::make_shared<SessionInfo>();
    WorkRequest work = harness_.engine().ImportWork(
        harness_.engine().snapshots().Write(card, state_), {}, created);
    work.writer = harness_.engine().NewWriter();
    Future<absl::Status> done;
    SubmitThen(harness_.engine(), std::move(work),
               [done](const auto& end) { done.Set(end.status()); });
    ASSERT_TRUE(done.Get().ok()) << done.Get();
  }

  GenerateRequest Prompt(uint64_t max_tokens) const {
    GenerateRequest request =
        GenerateOf("s", MakeTokens(kTokens, 1), max_tokens);
    request.request_id = "forged";
    request.expected_position = 0;
    return request;
  }
  StepRequest Step() const {
    StepRequest request;
    request.session = "s";
    request.tokens = MakeTokens(kTokens, 1);
    request.outputs.sampling.emplace().seed = 5;
    request.request_id = "forged";
    request.expected_position = 0;
    return request;
  }

  void ExpectUnavailable(const GenerateRequest& request) {
    const auto recorder = harness_.Generate(request);
    const absl::Status status = recorder->done().Get().status();
    EXPECT_EQ(ReasonOf(status), ErrorReason::kReplayUnavailable) << status;
    // The session is of use still.
    const auto after = harness_.Step(StepOf("s", {1}));
    EXPECT_TRUE(after.ok()) << after.status();
  }
  void ExpectUnavailable(const StepRequest& request) {
    const absl::Status status = harness_.Step(request).status();
    EXPECT_EQ(ReasonOf(status), ErrorReason::kReplayUnavailable) << status;
  }

  const std::shared_ptr<const Model> model_;
  const SessionLayout layout_;
  StatePool pool_;
  SessionState state_;
  EngineHarness harness_;
};

// The model's layers hold any number; counting ends all the same.
TEST_F(EngineForgedTest, APositionAtTheEndOfAllPositions) {
  Absorb({}, (size_t{1} << 53) - 1, false);
  Import();
  const auto last = harness_.Step(StepOf("s", {1}));
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->position, uint64_t{1} << 53);
  EXPECT_EQ(ReasonOf(harness_.Step(StepOf("s", {1})).status()),
            ErrorReason::kContextCapReached);
}

TEST_F(EngineForgedTest, APromptWithoutLogits) {
  for (const bool finished : {false, true}) {
    const GenerateRequest request = Prompt(5);
    if (state_.position() == 0) Absorb(request.prompt, kTokens, false);
    Record(request, kTokens, finished, "12345678");
    if (!finished) {
      Import();
      ExpectUnavailable(request);
    }
  }
}

TEST_F(EngineForgedTest, AGenerationThatEndedBeforeItGeneratedAnything) {
  const GenerateRequest request = Prompt(5);
  Absorb(request.prompt, kTokens, true);
  Record(request, kTokens, true, "12345678");
  Import();
  ExpectUnavailable(request);
}

// No token: whoever looks for its text would look before the vocabulary.
TEST_F(EngineForgedTest, AnEmbeddingThatWasDrawn) {
  const std::vector<float> hidden(layout_.hidden_size(), 0.5f);
  state_.WillAbsorb(2);
  state_.Absorbed(1, std::vector<int32_t>{0xe2}, hidden.data(), /*drawn=*/true);
  state_.Absorbed(1, {}, hidden.data(), /*drawn=*/true);
  EXPECT_EQ(UnfinishedTextAt(*model_, state_, 2), "\xe2");
}

TEST_F(EngineForgedTest, AGenerationOverEmbeddings) {
  const GenerateRequest request = Prompt(5);
  Absorb(request.prompt, kTokens, true);
  Absorb({}, 3, true);
  Record(request, kTokens + 3, false, "12345678");
  Import();
  ExpectUnavailable(request);
}

TEST_F(EngineForgedTest, AGenerationThatIsLongerThanItMayBe) {
  const GenerateRequest request = Prompt(2);
  Absorb(request.prompt, kTokens, true);
  Absorb(MakeTokens(9, 2), 9, true);
  Record(request, kTokens + 9, false, "12345678");
  Import();
  const auto recorder = harness_.Generate(request);
  EXPECT_TRUE(recorder->done().Get().ok()) << recorder->done().Get().status();
  EXPECT_EQ(recorder->items().size(), 2u);
}

TEST_F(EngineForgedTest, AFinishedGenerationThatEndsTooEarly) {
  const GenerateRequest request = Prompt(20);
  Absorb(request.prompt, kTokens, true);
  Absorb(MakeTokens(3, 2), 3, true);
  Record(request, kTokens + 3, true, "12345678");
  Import();
  ExpectUnavailable(request);
}

TEST_F(EngineForgedTest, AnAnswerThatIsTooShort) {
  const GenerateRequest request = Prompt(20);
  Absorb(request.prompt, kTokens, true);
  Record(request, kTokens, false, "1");
  Import();
  const auto recorder = harness_.Generate(request);
  EXPECT_TRUE(recorder->done().Get().ok()) << recorder->done().Get().status();
}

TEST_F(EngineForgedTest, AStepThatHasAbsorbedMoreThanItHas) {
  for (const bool finished : {false, true}) {
    const StepRequest request = Step();
    if (state_.position() == 0) Absorb(request.tokens, kTokens, true);
    if (!finished) Absorb(request.tokens, kTokens, true);
    Record(request, state_.position(), finished, "1");
  }
  Import();
  ExpectUnavailable(Step());
}

TEST_F(EngineForgedTest, AStepThatIsUnfinishedAndHasAbsorbedAll) {
  const StepRequest request = Step();
  Absorb(request.tokens, kTokens, true);
  Record(request, kTokens, false);
  Import();
  ExpectUnavailable(request);
}

TEST_F(EngineForgedTest, AStepWhoseAnswerIsTooShort) {
  const StepRequest request = Step();
  Absorb(request.tokens, kTokens, true);
  Record(request, kTokens, true, "123");
  Import();
  // Computed again, from the made up logits.
  const auto again = harness_.Step(request);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->replayed);
}

}  // namespace
}  // namespace steadystate::engine_forged_test
