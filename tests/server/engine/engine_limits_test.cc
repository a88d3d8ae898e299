// Goal: what a model cannot do is answered, and nobody else suffers: context
// caps, outputs that are not finite, embeddings, models without a tokenizer.
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/engine/engine_harness.h"

namespace steadystate::engine_limits_test {
namespace {

constexpr uint64_t kCap = 16;

std::shared_ptr<const Model> CappedModel() {
  TinyModelOptions options;
  options.softmax_layer = 1;
  options.max_position_embeddings = kCap;
  static const auto* const model =
      new std::shared_ptr<const Model>(TinyModel(options).Load());
  return *model;
}

// A tiny model with one element of one tensor changed.
std::shared_ptr<const Model> BrokenModel(const std::string& tensor,
                                         size_t element, float value) {
  CheckpointContents contents = MakeTinyCheckpoint({});
  contents.tensors.at(tensor).values.at(element) = value;
  const TempDirectory directory;
  WriteCheckpoint(contents, directory.path());
  ModelOptions options;
  options.path = directory.path();
  options.weight_dtype = DType::kF32;
  auto model = Model::Load(options);
  EXPECT_TRUE(model.ok()) << model.status();
  return *model;
}

TEST(ContextCapTest, AStepBeyondItIsRefusedWhole) {
  EngineHarness harness({}, CappedModel());
  harness.CreateSession("s");
  ASSERT_TRUE(harness.Step(StepOf("s", MakeTokens(10, 1))).ok());
  const absl::Status status =
      harness.Step(StepOf("s", MakeTokens(7, 1))).status();
  EXPECT_EQ(ReasonOf(status), ErrorReason::kContextCapReached);
  EXPECT_EQ(MetadataOf(status, "context_cap"), "16");
  EXPECT_EQ(harness.Position("s"), 10u);
  EXPECT_EQ(harness.Step(StepOf("s", MakeTokens(6, 1)))->position, kCap);
  EXPECT_EQ(ReasonOf(harness.Step(StepOf("s", {1})).status()),
            ErrorReason::kContextCapReached);
}

TEST(ContextCapTest, AGenerationReturnsItsTokensUpToIt) {
  EngineHarness harness({}, CappedModel());
  harness.CreateSession("s");
  const auto sink = harness.Generate(GenerateOf("s", MakeTokens(10, 1), 100));
  EXPECT_EQ(ReasonOf(sink->done().Get().status()),
            ErrorReason::kContextCapReached);
  EXPECT_EQ(sink->items().size(), kCap - 10);
  EXPECT_EQ(sink->items().back().position, kCap);
  EXPECT_EQ(harness.Position("s"), kCap);
  const auto too_long = harness.Generate(
      GenerateOf(harness.CreateSession("t"), MakeTokens(kCap + 1, 1), 1));
  EXPECT_EQ(ReasonOf(too_long->done().Get().status()),
            ErrorReason::kContextCapReached);
  EXPECT_EQ(harness.Position("t"), 0u);
  EXPECT_EQ(ReasonOf(harness.Score(ScoreOf("", MakeTokens(kCap + 1, 1)))
                         ->done()
                         .Get()
                         .status()),
            ErrorReason::kContextCapReached);
}

TEST(ContextCapTest, AReusedGrowingStateEqualsAFreshOne) {
  EngineHarness sizing({}, CappedModel());
  EngineOptions options;
  options.state_memory_bytes =
      sizing.engine().GetSession(sizing.CreateSession())->state_bytes;
  EngineHarness harness(options, CappedModel());
  std::vector<float> first;
  for (int round = 0; round < 3; ++round) {
    harness.CreateSession("s");
    const auto step = harness.Step(StepOf("s", MakeTokens(12, 1)));
    ASSERT_TRUE(step.ok());
    if (round == 0) first = step->logits;
    EXPECT_EQ(step->logits, first);
    ASSERT_TRUE(harness.engine().DeleteSession("s").ok());
  }
}

TEST(NonFiniteTest, FailsTheRequestAndLeavesOthersAlone) {
  constexpr int32_t kBadToken = 7;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EngineHarness harness(
      {}, BrokenModel("model.embeddings.weight", kBadToken * 32, kInfinity));
  harness.CreateSession("good");
  harness.CreateSession("bad");
  EngineHarness sound;
  sound.CreateSession("good");
  const auto expected = sound.Step(StepOf("good", {1, 2, 3}));

  StepFuture good;
  StepFuture bad;
  {
    ComputeHold hold(harness);
    bad = harness.StepAsync(StepOf("bad", {1, kBadToken}));
    good = harness.StepAsync(StepOf("good", {1, 2, 3}));
  }
  const absl::Status status = bad.Get().status();
  EXPECT_EQ(ReasonOf(status), ErrorReason::kStateNotFinite);
  EXPECT_EQ(MetadataOf(status, "position"), "0");
  EXPECT_EQ(MetadataOf(status, "restored"), "true");
  EXPECT_EQ(good.Get()->logits, expected->logits);
  EXPECT_EQ(harness.Metric({"steadystate_state_nonfinite_total{"}), 1);

  EXPECT_EQ(harness.Position("bad"), 0u);
  const auto sink = harness.Generate(GenerateOf("bad", {}, 1));
  EXPECT_EQ(ReasonOf(sink->done().Get().status()),
            ErrorReason::kNoPendingLogits);
  // Seen although nobody asks for outputs.
  StepRequest silent;
  silent.session = "bad";
  silent.tokens = {kBadToken};
  EXPECT_EQ(ReasonOf(harness.Step(silent).status()),
            ErrorReason::kStateNotFinite);
  EXPECT_TRUE(harness.engine().DeleteSession("bad").ok());
  EXPECT_TRUE(harness.Step(StepOf("good", {1})).ok());
}

TEST(NonFiniteTest, LogitsAreCheckedToo) {
  EngineHarness harness(
      {},
      BrokenModel("lm_head.weight", 0, std::numeric_limits<float>::infinity()));
  harness.CreateSession("s");
  const auto sink = harness.Generate(GenerateOf("s", {1, 2}, 3));
  EXPECT_EQ(ReasonOf(sink->done().Get().status()),
            ErrorReason::kStateNotFinite);
  EXPECT_EQ(harness.Position("s"), 0u);
  EXPECT_EQ(
      ReasonOf(harness.Generate(GenerateOf("s", {}, 1))->done().Get().status()),
      ErrorReason::kNoPendingLogits);
  StepRequest hidden_only = StepOf("s", {3});
  hidden_only.outputs.logits = false;
  EXPECT_EQ(harness.Step(hidden_only)->position, 1u);
  // Nothing is absorbed where those of the last token are not finite.
  const auto pending = harness.Generate(GenerateOf("s", {}, 1));
  const absl::Status status = pending->done().Get().status();
  EXPECT_EQ(ReasonOf(status), ErrorReason::kStateNotFinite);
  EXPECT_EQ(MetadataOf(status, "position"), "1");
  EXPECT_EQ(MetadataOf(status, "restored"), "true");
  EXPECT_EQ(harness.Position("s"), 1u);
}

TEST(EmbeddingTest, AnEmbeddingTableRowEqualsItsToken) {
  const CheckpointContents contents = MakeTinyCheckpoint({});
  const auto& table = contents.tensors.at("model.embeddings.weight").values;
  constexpr size_t kHidden = 32;
  const std::vector<int32_t> tokens = MakeTokens(70, 1);
  StepRequest request;
  request.outputs.logits = true;
  for (const int32_t token : tokens) {
    const auto row = table.begin() + token * static_cast<ptrdiff_t>(kHidden);
    request.embeddings.insert(request.embeddings.end(), row, row + kHidden);
  }
  EngineHarness harness;
  request.session = harness.CreateSession();
  const auto embedded = harness.Step(request);
  ASSERT_TRUE(embedded.ok()) << embedded.status();
  EXPECT_EQ(embedded->position, tokens.size());
  EXPECT_EQ(embedded->logits,
            harness.Step(StepOf(harness.CreateSession(), tokens))->logits);
}

TEST(NoTokenizerTest, GeneratesTokensWithoutText) {
  TinyModelOptions model;
  model.byte_tokenizer = false;
  EngineHarness harness({}, TinyModel(model).Load());
  GenerateRequest request = GenerateOf(harness.CreateSession(), {1}, 5);
  const auto sink = harness.Generate(request);
  ASSERT_TRUE(sink->done().Get().ok());
  EXPECT_EQ(sink->items().size(), 5u);
  for (const GeneratedToken& item : sink->items()) {
    EXPECT_EQ(item.text_delta, "");
  }
  request.stop_strings = {"x"};
  EXPECT_EQ(ReasonOf(harness.Generate(request)->done().Get().status()),
            ErrorReason::kTokenizerUnavailable);
}

}  // namespace
}  // namespace steadystate::engine_limits_test
