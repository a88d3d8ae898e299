// Goal: ids that no token has are never drawn and never among the likeliest,
// while logits stay what the model computed. Method: a real server on a model
// whose table has more rows than its tokenizer tokens, of which one would win
// every time.
#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/open_server.h"
#include "tests/server/rpc/wire_error.h"
#include "tests/testing/checkpoint_writer.h"
#include "tests/testing/temp_directory.h"
#include "tests/testing/tiny_model.h"

namespace steadystate::padded_rows_test {
namespace {

constexpr size_t kTokens = 1004;  // of the tokenizer
constexpr size_t kVocabSize = 1010;

// Row `to` of the head: `factor` times its row 0.
void CopyRow(CheckpointContents& contents, size_t to, float factor) {
  TensorContents& head = contents.tensors.at("lm_head.weight");
  const size_t width = head.shape[1];
  for (size_t i = 0; i < width; ++i) {
    head.values[to * width + i] = factor * head.values[i];
  }
}

class PaddedRowsTest : public testing::Test {
 protected:
  PaddedRowsTest() : server_(Options(directory_, {})) {}

  // The last two rows point to where a token does and away from it: of any
  // hidden vector one has by far the largest logit.
  static OpenServerOptions Options(const TempDirectory& directory,
                                   const std::vector<int32_t>& eos_tokens) {
    TinyModelOptions model;
    model.vocab_size = kVocabSize;
    model.byte_tokenizer = false;
    model.eos_tokens = eos_tokens;
    CheckpointContents contents = MakeTinyCheckpoint(model);
    CopyRow(contents, kVocabSize - 2, 1000);
    CopyRow(contents, kVocabSize - 1, -1000);
    WriteCheckpoint(contents, directory.path());
    directory.Write(
        "tokenizer.json",
        ReadWholeFile(STEADYSTATE_SOURCE_DIR "/tests/data/tokenizers/lfm2/"
                                             "tokenizer.json"));
    OpenServerOptions options;
    options.checkpoint = directory.path().c_str();
    return options;
  }

  TempDirectory directory_;
  OpenServer server_;
};

template <typename Tops>
void ExpectTokens(const Tops& tops, int count) {
  EXPECT_EQ(tops.size(), count);
  for (const auto& top : tops) EXPECT_LT(top.token(), int32_t{kTokens});
}

TEST_F(PaddedRowsTest, StepsDrawTokens) {
  const std::string session = server_.CreateSession();
  for (const double temperature : {0.0, 1.0, 100.0}) {
    v1::StepRequest request = LogitsStepOf(session, {5, 6});
    request.mutable_output()->mutable_sample()->set_temperature(temperature);
    request.mutable_output()->set_top_logprobs(256);
    const v1::StepResponse step = server_.Step(request);
    EXPECT_LT(step.sampled_token(), int32_t{kTokens});
    ExpectTokens(step.top_logprobs(), 256);
    // The logits are the model's.
    const auto& logits = step.logits();
    ASSERT_EQ(logits.size(), int{kVocabSize});
    const auto best = std::max_element(logits.begin(), logits.end());
    EXPECT_GE(best - logits.begin(), ptrdiff_t{kVocabSize - 2});
    if (temperature == 0) {
      EXPECT_EQ(step.sampled_token(), step.top_logprobs(0).token());
      EXPECT_EQ(std::max_element(logits.begin(), logits.begin() + kTokens) -
                    logits.begin(),
                step.sampled_token());
    }
  }
}

TEST_F(PaddedRowsTest, GenerationsAndScoresHaveTokensAlone) {
  v1::GenerateRequest generate;
  generate.set_text("All human beings");
  generate.set_max_tokens(50);
  generate.set_logprobs(3);
  generate.mutable_sampling()->set_seed(4);
  Context context;
  const auto stream = server_.generation().Generate(&context, generate);
  v1::GenerateResponse part;
  int tokens = 0;
  while (stream->Read(&part)) {
    for (const auto& token : part.tokens()) {
      ++tokens;
      EXPECT_LT(token.token(), int32_t{kTokens});
      ExpectTokens(token.top_logprobs(), 3);
    }
  }
  EXPECT_THAT(stream->Finish(), IsOk());
  EXPECT_EQ(tokens, 50);

  v1::ScoreRequest score;
  score.set_text("born free and equal");
  score.set_top_logprobs(2);
  Context other;
  const auto scores = server_.generation().Score(&other, score);
  v1::ScoreResponse scored;
  int judged = 0;
  while (scores->Read(&scored)) {
    for (const auto& token : scored.tokens()) {
      if (!token.has_logprob()) continue;
      ++judged;
      ExpectTokens(token.top_logprobs(), 2);
    }
  }
  EXPECT_THAT(scores->Finish(), IsOk());
  EXPECT_GT(judged, 0);
}

// config.json may give an id a meaning that no tokenizer's file has.
TEST_F(PaddedRowsTest, EndTokensMayBeDrawnAllTheSame) {
  EXPECT_THAT(server_.model().description().ids_without_token,
              testing::ElementsAre(1004, 1005, 1006, 1007, 1008, 1009));
  const TempDirectory directory;
  OpenServer server(Options(directory, {1005, 1009}));
  EXPECT_THAT(server.model().description().ids_without_token,
              testing::ElementsAre(1004, 1006, 1007, 1008));
}

// What others put before a text is told, and not done.
TEST_F(PaddedRowsTest, ModelsTellWhatOthersPutBeforeAText) {
  v1::GetModelRequest request;
  request.set_name("models/-");
  v1::Model model;
  Context context;
  ASSERT_THAT(server_.models().GetModel(&context, request, &model), IsOk());
  EXPECT_THAT(model.text_prefix_tokens(), testing::ElementsAre(1001));
  ASSERT_GT(model.special_tokens_size(), 1);
  EXPECT_TRUE(std::ranges::any_of(model.special_tokens(), [](const auto& t) {
    return t.id() == 1001 && t.text() == "<|startoftext|>";
  }));
  v1::TokenizeRequest tokenize;
  tokenize.set_text("<|startoftext|>a");
  v1::TokenizeResponse tokens;
  Context other;
  ASSERT_THAT(server_.models().Tokenize(&other, tokenize, &tokens), IsOk());
  EXPECT_EQ(tokens.tokens(0), 1001);
  EXPECT_EQ(tokens.tokens_size(), 2);
}

}  // namespace
}  // namespace steadystate::padded_rows_test
