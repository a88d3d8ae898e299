// Goal: Embed answers the hidden vectors, pooled as asked; a bidirectional one
// is right, bounded, counted once, and keeps no live stream waiting. Method: an
// engine on a tiny model, and on a golden checkpoint of linear attention whose
// hidden vectors a float64 reference gives.
#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/thread_pool.h"
#include "nlohmann/json.hpp"
#include "tests/server/engine/engine_harness.h"
#include "tests/testing/npy.h"
#include "tests/testing/relative_rms.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::engine_embed_test {
namespace {

using testing::HasSubstr;

constexpr char kGolden[] =
    STEADYSTATE_SOURCE_DIR "/tests/golden/linear_attn-elu-norm";

EngineOptions SmallPieces() {
  EngineOptions options;
  options.prefill_chunk_rows = 8;
  return options;
}

std::vector<float> Flatten(const std::vector<EmbeddedRow>& rows) {
  std::vector<float> flat;
  for (const EmbeddedRow& row : rows) {
    flat.insert(flat.end(), row.hidden.begin(), row.hidden.end());
  }
  return flat;
}

class EngineEmbedTest : public testing::Test {
 protected:
  const std::vector<int32_t> tokens_ = MakeTokens(21, 4);
  EngineHarness harness_{SmallPieces()};
};

TEST_F(EngineEmbedTest, EachRowIsWhatAStepGives) {
  const auto sink = harness_.Embed(EmbedOf("", tokens_));
  const auto& summary = sink->done().Get();
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->tokens, tokens_.size());
  EXPECT_EQ(summary->position, tokens_.size());
  const auto rows = sink->items();
  ASSERT_EQ(rows.size(), tokens_.size());
  const std::string session = harness_.CreateSession();
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].position, i + 1);
    const auto step = harness_.Step(StepOf(session, {tokens_[i]}));
    EXPECT_LE(RelativeRms(rows[i].hidden, step->hidden), kCutsAgree);
  }
}

TEST_F(EngineEmbedTest, PoolingGivesOneRow) {
  const auto rows = [&](Pooling pooling) {
    EmbedRequest request = EmbedOf("", tokens_);
    request.pooling = pooling;
    const auto sink = harness_.Embed(request);
    EXPECT_EQ(sink->done().Get()->tokens, tokens_.size());
    return sink->items();
  };
  const auto all = rows(Pooling::kNone);
  const auto last = rows(Pooling::kLast);
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(last[0].hidden, all.back().hidden);
  EXPECT_EQ(last[0].position, tokens_.size());
  const auto mean = rows(Pooling::kMean);
  ASSERT_EQ(mean.size(), 1u);
  EXPECT_EQ(mean[0].position, tokens_.size());
  for (size_t i = 0; i < mean[0].hidden.size(); ++i) {
    double sum = 0;
    for (const EmbeddedRow& row : all) sum += double{row.hidden[i]};
    EXPECT_EQ(mean[0].hidden[i],
              static_cast<float>(sum / static_cast<double>(all.size())));
  }
}

TEST_F(EngineEmbedTest, ANamedSessionGoesOnAndAbsorbs) {
  harness_.CreateSession("a");
  harness_.CreateSession("b");
  for (const char* session : {"a", "b"}) {
    ASSERT_TRUE(harness_.Step(StepOf(session, {7, 8})).ok());
  }
  const auto sink = harness_.Embed(EmbedOf("a", tokens_));
  ASSERT_TRUE(sink->done().Get().ok());
  EXPECT_EQ(sink->items()[0].position, 3u);
  EXPECT_EQ(harness_.Position("a"), 2 + tokens_.size());
  EXPECT_EQ(sink->items().back().hidden,
            harness_.Step(StepOf("b", tokens_))->hidden);
}

TEST_F(EngineEmbedTest, ModelsInWhichOrderMattersRefuseToBeBidirectional) {
  EmbedRequest request = EmbedOf("", tokens_);
  request.bidirectional = true;
  const auto sink = harness_.Embed(request);
  const absl::Status& status = sink->done().Get().status();
  EXPECT_EQ(ReasonOf(status), ErrorReason::kBidirectionalUnsupported);
  EXPECT_EQ(MetadataOf(status, "layer"), "0");
  EXPECT_EQ(MetadataOf(status, "kind"), "gla");
}

class EngineBidirectionalTest : public testing::Test {
 protected:
  static std::shared_ptr<const Model> Linear() {
    static const std::shared_ptr<const Model> model =
        *Model::Load({.path = kGolden, .weight_dtype = DType::kF32});
    return model;
  }

  EmbedRequest Request() const {
    EmbedRequest request = EmbedOf("", tokens_);
    request.bidirectional = true;
    return request;
  }

  const std::vector<int32_t> tokens_ =
      nlohmann::json::parse(
          ReadWholeFile(std::string(kGolden) + "/token_ids.json"))
          .get<std::vector<int32_t>>();
};

TEST_F(EngineBidirectionalTest, AgreesWithTheReferenceHoweverItIsCut) {
  const NpyArray expected =
      ReadNpy(std::string(kGolden) + "/embed_bidirectional.npy");
  std::vector<float> first;
  for (const size_t chunk_rows : {size_t{64}, size_t{8}, size_t{1}}) {
    EngineOptions options;
    options.prefill_chunk_rows = chunk_rows;
    options.threads = chunk_rows == 8 ? 2 : 1;
    EngineHarness harness(options, Linear());
    const auto sink = harness.Embed(Request());
    ASSERT_TRUE(sink->done().Get().ok()) << sink->done().Get().status();
    EXPECT_EQ(sink->done().Get()->tokens, tokens_.size());
    EXPECT_EQ(sink->items()[2].position, 3u);
    const std::vector<float> hidden = Flatten(sink->items());
    ASSERT_EQ(hidden.size(), expected.values.size());
    if (first.empty()) first = hidden;
    EXPECT_LE(RelativeRms(hidden, first), kCutsAgree) << chunk_rows;
  }
  double error = 0;
  double size = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    error += std::pow(double{first[i]} - expected.values[i], 2);
    size += std::pow(expected.values[i], 2);
  }
  EXPECT_LE(std::sqrt(error / size), 1e-5);
}

TEST_F(EngineBidirectionalTest, EmbeddingsMayTakeTheTokensPlace) {
  EngineHarness harness(SmallPieces(), Linear());
  std::vector<InputRow> rows;
  for (const int32_t token : tokens_) rows.push_back({.token = token});
  EmbedRequest request = Request();
  request.tokens.clear();
  request.embeddings.resize(rows.size() * Linear()->description().hidden_size);
  ThreadPool pool(1);
  Workspace workspace = Linear()->MakeWorkspace(rows.size(), pool);
  Linear()->Embed(rows, request.embeddings.data(), workspace);
  const auto by_vector = harness.Embed(request);
  const auto by_token = harness.Embed(Request());
  ASSERT_TRUE(by_vector->done().Get().ok());
  ASSERT_TRUE(by_token->done().Get().ok());
  EXPECT_EQ(Flatten(by_vector->items()), Flatten(by_token->items()));
}

TEST_F(EngineBidirectionalTest, EveryRowSeesTheEnd) {
  EngineHarness harness(SmallPieces(), Linear());
  const auto whole = harness.Embed(Request());
  EmbedRequest changed = Request();
  changed.tokens.back() = (changed.tokens.back() + 1) % 7;
  const auto other = harness.Embed(changed);
  ASSERT_TRUE(whole->done().Get().ok());
  ASSERT_TRUE(other->done().Get().ok());
  EXPECT_NE(whole->items()[0].hidden, other->items()[0].hidden);
}

TEST_F(EngineBidirectionalTest, LiveStreamsDoNotWaitForIt) {
  EngineHarness harness(SmallPieces(), Linear());
  const std::string session = harness.CreateSession();
  std::shared_ptr<Recorder<GenerateRequest>> live;
  std::shared_ptr<Recorder<EmbedRequest>> embed;
  Future<bool> done_before;
  {
    ComputeHold hold(harness);
    embed = harness.Embed(Request());
    GenerateRequest generate = GenerateOf(session, {1}, 5);
    generate.ignore_eos = true;
    live = harness.Generate(generate);
    embed->set_on_item([live, done_before](size_t count) {
      if (count == 1) done_before.Set(live->done().IsSet());
    });
  }
  // 2 layers, 2 halves, 5 pieces: rows come out from the 16th batch on, and
  // five tokens take seven.
  EXPECT_TRUE(done_before.Get());
  EXPECT_TRUE(embed->done().Get().ok());
}

TEST_F(EngineBidirectionalTest, RowsAreCountedOnce) {
  EngineHarness harness(SmallPieces(), Linear());
  const std::vector<std::string> series = {"steadystate_tokens_total{",
                                           "kind=\"prompt\""};
  const double before = harness.Metric(series);
  ASSERT_TRUE(harness.Embed(Request())->done().Get().ok());
  EXPECT_EQ(harness.Metric(series) - before,
            static_cast<double>(tokens_.size()));
}

TEST_F(EngineBidirectionalTest, TheLengthIsBounded) {
  EngineOptions options;
  options.max_embed_tokens = 39;
  EngineHarness harness(options, Linear());
  const auto refused = harness.Embed(Request());
  const absl::Status& status = refused->done().Get().status();
  EXPECT_EQ(ReasonOf(status), ErrorReason::kInvalidArgument);
  EXPECT_EQ(MetadataOf(status, "field"), "tokens");
  EXPECT_EQ(MetadataOf(status, "value"), "40");
  EXPECT_THAT(MetadataOf(status, "bounds"), HasSubstr("1 to 39"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--max_embed_tokens"));
  EmbedRequest causal = EmbedOf("", tokens_);
  EXPECT_TRUE(harness.Embed(causal)->done().Get().ok());
}

TEST_F(EngineBidirectionalTest, ItsMemoryCountsAsInput) {
  // Room for the residual stream of one such request, not of two.
  const uint64_t row_bytes =
      Linear()->description().hidden_size * sizeof(float) + sizeof(int32_t);
  EngineOptions options = SmallPieces();
  options.max_queued_input_bytes = 60 * row_bytes;
  EngineHarness harness(options, Linear());
  std::shared_ptr<Recorder<EmbedRequest>> first;
  std::shared_ptr<Recorder<EmbedRequest>> second;
  {
    ComputeHold hold(harness);
    first = harness.Embed(Request());
    second = harness.Embed(Request());
  }
  EXPECT_TRUE(first->done().Get().ok());
  EXPECT_EQ(ReasonOf(second->done().Get().status()), ErrorReason::kQueueFull);
  EmbedRequest longer = Request();
  longer.tokens.resize(61, 1);
  const auto third = harness.Embed(longer);
  EXPECT_EQ(MetadataOf(third->done().Get().status(), "bounds"),
            "1 to 60 with bidirectional (--max_embed_tokens)");
}

TEST_F(EngineBidirectionalTest, ACancelledOneGivesItsStateBack) {
  EngineOptions options = SmallPieces();
  {
    EngineHarness any(options, Linear());
    // The other state is that of the session that holds the engine.
    options.state_memory_bytes =
        2 * any.engine().GetSession(any.CreateSession())->state_bytes;
  }
  EngineHarness harness(options, Linear());
  RequestId id = 0;
  std::shared_ptr<Recorder<EmbedRequest>> sink;
  {
    ComputeHold hold(harness);
    sink = harness.Embed(Request(), &id);
    // It pauses after its first rows, which come out of the last layer.
    sink->set_limit(1);
  }
  sink->AwaitItems(8);
  const auto refused = harness.Embed(Request());
  EXPECT_EQ(ReasonOf(refused->done().Get().status()),
            ErrorReason::kStateBudgetExhausted);
  harness.engine().Cancel(id);
  EXPECT_EQ(ReasonOf(sink->done().Get().status()), ErrorReason::kCancelled);
  EXPECT_TRUE(harness.Embed(Request())->done().Get().ok());
}

TEST_F(EngineBidirectionalTest, NoSessionTakesPart) {
  EngineHarness harness({}, Linear());
  EmbedRequest request = Request();
  request.session = harness.CreateSession();
  const auto sink = harness.Embed(request);
  EXPECT_EQ(ReasonOf(sink->done().Get().status()),
            ErrorReason::kInvalidArgument);
  EXPECT_EQ(MetadataOf(sink->done().Get().status(), "field"), "session");
}

}  // namespace
}  // namespace steadystate::engine_embed_test
