// Goal: every kind of tokenizer serves text: the model says which it is, text
// and tokens translate both ways, and generation streams whole characters and
// ends at stop strings. Method: a real server and client on a tiny model that
// has one of the tokenizers of tests/data/tokenizers beside its weights.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/base/config.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/text/text_stream.h"
#include "tests/server/rpc/open_server.h"
#include "tests/server/rpc/wire_error.h"
#include "tests/testing/checkpoint_writer.h"
#include "tests/testing/temp_directory.h"
#include "tests/testing/tiny_model.h"

namespace steadystate::tokenizer_kinds_test {
namespace {

// Spaces, scripts, an emoji of several code points; no character that the
// normal forms of these tokenizers change.
constexpr char kText[] =
    "Free and  equal, \xD0\xB4\xD0\xB0 \xE4\xBA\xBA\xE4\xBA\xBA "
    "\xF0\x9F\x91\x8D\xF0\x9F\x8F\xBD\n\tx = 42";

struct Kind {
  const char* file;  // within tests/data/tokenizers
  const char* kind;
};

void PrintTo(const Kind& kind, std::ostream* to) { *to << kind.file; }

// A tiny checkpoint with a tokenizer's file.
class CheckpointWithTokenizer {
 public:
  explicit CheckpointWithTokenizer(const std::string& file) {
    TinyModelOptions options;
    options.vocab_size = 1500;
    options.byte_tokenizer = false;
    WriteCheckpoint(MakeTinyCheckpoint(options), directory_.path());
    directory_.Write(
        file.substr(file.rfind('/') + 1),
        ReadWholeFile(absl::StrCat(STEADYSTATE_SOURCE_DIR,
                                   "/tests/data/tokenizers/", file)));
  }

  OpenServerOptions Options() const {
    OpenServerOptions options;
    options.checkpoint = directory_.path().c_str();
    return options;
  }

 private:
  TempDirectory directory_;
};

class TokenizerKindsTest : public testing::TestWithParam<Kind> {
 protected:
  TokenizerKindsTest()
      : checkpoint_(GetParam().file), server_(checkpoint_.Options()) {}

  void SetUp() override {
#if defined(ABSL_HAVE_ADDRESS_SANITIZER) || defined(ABSL_HAVE_THREAD_SANITIZER)
    if (GetParam().kind == std::string("sentencepiece")) {
      GTEST_SKIP() << "sanitizers forbid RTLD_DEEPBIND";
    }
#endif
    ASSERT_NE(server_.model().tokenizer(), nullptr)
        << testing::PrintToString(server_.model().description().warnings);
  }

  std::vector<int32_t> Tokenize(const std::string& text) {
    v1::TokenizeRequest request;
    request.set_text(text);
    v1::TokenizeResponse response;
    Context context;
    EXPECT_THAT(server_.models().Tokenize(&context, request, &response),
                IsOk());
    return {response.tokens().begin(), response.tokens().end()};
  }

  std::string Detokenize(const std::vector<int32_t>& tokens) {
    v1::DetokenizeRequest request;
    request.mutable_tokens()->Assign(tokens.begin(), tokens.end());
    v1::DetokenizeResponse response;
    Context context;
    EXPECT_THAT(server_.models().Detokenize(&context, request, &response),
                IsOk());
    return response.text();
  }

  struct Generated {
    std::vector<int32_t> tokens;
    std::string text;
    v1::FinishReason finish_reason = v1::FINISH_REASON_UNSPECIFIED;
  };

  Generated Generate(const std::string& stop) {
    v1::GenerateRequest request;
    request.set_session(server_.CreateSession());
    request.set_text(kText);
    request.set_max_tokens(120);
    request.set_ignore_eos(true);
    request.mutable_sampling()->set_seed(3);
    if (!stop.empty()) request.add_stop(stop);
    Context context;
    const auto stream = server_.generation().Generate(&context, request);
    Generated generated;
    v1::GenerateResponse response;
    while (stream->Read(&response)) {
      for (const auto& token : response.tokens()) {
        generated.tokens.push_back(token.token());
      }
      generated.text += response.text_delta();
      generated.finish_reason = response.finish_reason();
    }
    EXPECT_THAT(stream->Finish(), IsOk());
    return generated;
  }

  CheckpointWithTokenizer checkpoint_;
  OpenServer server_;
};

TEST_P(TokenizerKindsTest, TextTranslatesBothWays) {
  v1::GetModelRequest request;
  request.set_name("models/-");
  v1::Model model;
  Context context;
  ASSERT_THAT(server_.models().GetModel(&context, request, &model), IsOk());
  EXPECT_EQ(model.tokenizer(), GetParam().kind);
  const std::vector<int32_t> tokens = Tokenize(kText);
  EXPECT_LT(tokens.size(), sizeof(kText));
  EXPECT_EQ(Detokenize(tokens), kText);
  EXPECT_TRUE(Tokenize("").empty());
}

// As the words of others, a special token is its letters.
TEST_P(TokenizerKindsTest, LiteralPartsHaveNoSpecialTokens) {
  v1::GetModelRequest model_request;
  model_request.set_name("models/-");
  v1::Model model;
  Context of_model;
  ASSERT_THAT(server_.models().GetModel(&of_model, model_request, &model),
              IsOk());
  for (const v1::Model::SpecialToken& special : model.special_tokens()) {
    if (special.text() == "<unk>") continue;
    v1::TokenizeRequest request;
    request.add_parts()->set_text(special.text());
    request.add_parts()->set_text("a" + special.text());
    request.mutable_parts(1)->set_literal(true);
    v1::TokenizeResponse response;
    Context context;
    ASSERT_THAT(server_.models().Tokenize(&context, request, &response),
                IsOk());
    ASSERT_GT(response.tokens_size(), 2);
    const auto id = static_cast<int32_t>(special.id());
    EXPECT_EQ(
        std::count(response.tokens().begin(), response.tokens().end(), id), 1)
        << special.text();
  }
}

// The stream has the bytes of its tokens as they stand within a text.
TEST_P(TokenizerKindsTest, GenerationStreamsText) {
  const Generated generated = Generate("");
  EXPECT_EQ(generated.finish_reason, v1::LENGTH);
  ASSERT_EQ(generated.tokens.size(), 120u);
  std::string bytes;
  for (const int32_t token : generated.tokens) {
    server_.model().tokenizer()->AppendBytes(token, bytes);
  }
  TextStream stream({}, "");
  EXPECT_EQ(generated.text, stream.Append(bytes));
}

TEST_P(TokenizerKindsTest, StopStringsEndIt) {
  const std::string text = Generate("").text;
  // Two letters that come up somewhere, perhaps of different tokens.
  size_t at = 5;
  const auto is_letter = [&text](size_t i) {
    return text[i] >= 'a' && text[i] <= 'z';
  };
  while (at + 2 < text.size() && !(is_letter(at) && is_letter(at + 1))) ++at;
  ASSERT_LT(at + 2, text.size()) << text;
  const std::string stop = text.substr(at, 2);
  const Generated stopped = Generate(stop);
  EXPECT_EQ(stopped.finish_reason, v1::STOP_STRING);
  EXPECT_EQ(stopped.text, text.substr(0, text.find(stop)));
}

// What takes SentencePiece too long is refused; other kinds take what a message
// holds.
TEST_P(TokenizerKindsTest, TextsHaveALengthThatEndsInTime) {
  const std::string text((size_t{256} << 10) + 1, 'a');
  v1::TokenizeRequest request;
  request.set_text(text);
  v1::TokenizeResponse response;
  Context context;
  const grpc::Status status =
      server_.models().Tokenize(&context, request, &response);
  if (GetParam().kind == std::string("sentencepiece")) {
    EXPECT_THAT(status, IsAboutField("text"));
  } else {
    EXPECT_THAT(status, IsOk());
    EXPECT_GT(response.tokens_size(), 0);
  }
}

// A small message may name tokens of a large text: that is found out before the
// text is made, as the bytes of the tokens alone show.
TEST_P(TokenizerKindsTest, TextsThatFitInNoMessageAreNotMade) {
  const Tokenizer& tokenizer = *server_.model().tokenizer();
  int32_t longest = 0;
  size_t most = 0;
  for (int32_t token = 0; token < 1500; ++token) {
    std::string bytes;
    tokenizer.AppendBytes(token, bytes);
    if (bytes.size() <= most) continue;
    most = bytes.size();
    longest = token;
  }
  const size_t count = (size_t{4} << 20) / most + 1;
  v1::DetokenizeRequest request;
  request.mutable_tokens()->Resize(static_cast<int>(count), longest);
  v1::DetokenizeResponse response;
  Context context;
  const grpc::Status status =
      server_.models().Detokenize(&context, request, &response);
  EXPECT_THAT(status, HasReason(ErrorReason::kMessageTooLarge));
  EXPECT_EQ(ToWireError(status).metadata["bytes"], absl::StrCat(count * most));
}

INSTANTIATE_TEST_SUITE_P(
    All, TokenizerKindsTest,
    testing::Values(Kind{"neox/tokenizer.json", "byte_level_bpe"},
                    Kind{"llama3/tokenizer.json", "byte_level_bpe"},
                    Kind{"llama/tokenizer.json", "byte_fallback_bpe"},
                    Kind{"mistral/tokenizer.json", "byte_fallback_bpe"},
                    Kind{"sentencepiece_bpe/tokenizer.model", "sentencepiece"},
                    Kind{"rwkv/rwkv_vocab_small.txt", "rwkv"}),
    [](const auto& test) {
      const std::string file = test.param.file;
      return file.substr(0, file.find('/'));
    });

}  // namespace
}  // namespace steadystate::tokenizer_kinds_test
