// Goal: every kind of tokenizer does what the library does that it comes from.
// Method: on a few thousand strings, the ids and the text that comes back are
// those that the libraries gave (tests/reference/tokenizers/make.py).
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/text/tokenizer_factory.h"
#include "server/text/unicode.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::reference_test {
namespace {

constexpr size_t kVocabSize = 2000;

struct Kind {
  const char* folder;
  const char* kind;
};

void PrintTo(const Kind& kind, std::ostream* to) { *to << kind.folder; }

std::string DataPath(absl::string_view name) {
  return absl::StrCat(STEADYSTATE_SOURCE_DIR, "/tests/data/tokenizers/", name);
}

const std::vector<std::string>& Strings() {
  static const auto* const strings = new std::vector<std::string>(
      nlohmann::json::parse(ReadWholeFile(DataPath("strings.json"))));
  return *strings;
}

class ReferenceTest : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    const std::string folder = DataPath(GetParam().folder);
    auto choice = MakeTokenizer(folder, false, kVocabSize);
    ASSERT_TRUE(choice.ok()) << choice.status();
    ASSERT_EQ(absl::StrJoin(choice->warnings, ";"), "");
    tokenizer_ = std::move(choice->tokenizer);
    ASSERT_NE(tokenizer_, nullptr);
    lines_ = absl::StrSplit(ReadWholeFile(folder + "/ids.txt"), '\n');
    decoded_ = nlohmann::json::parse(ReadWholeFile(folder + "/decoded.json"));
    ASSERT_GT(Strings().size(), 2000u);
    ASSERT_EQ(lines_.size(), Strings().size() + 1);
    ASSERT_LT(std::count(lines_.begin(), lines_.end(), "?"), 100);
  }

  // The library's versions differ about this string.
  bool IsOpen(size_t index) const { return lines_[index] == "?"; }

  std::vector<int32_t> ExpectedTokens(size_t index) const {
    std::vector<int32_t> tokens;
    for (const absl::string_view id :
         absl::StrSplit(lines_[index], ' ', absl::SkipEmpty())) {
      tokens.push_back(-1);
      EXPECT_TRUE(absl::SimpleAtoi(id, &tokens.back())) << id;
    }
    return tokens;
  }

  std::string ExpectedText(size_t index) const {
    const auto decoded = decoded_.find(absl::StrCat(index));
    return decoded == decoded_.end() ? Strings()[index] : decoded->second;
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<std::string> lines_;
  std::map<std::string, std::string> decoded_;
};

TEST_P(ReferenceTest, TokensAreTheLibrarys) {
  EXPECT_EQ(tokenizer_->kind(), GetParam().kind);
  for (size_t i = 0; i < Strings().size(); ++i) {
    if (IsOpen(i)) continue;
    ASSERT_EQ(tokenizer_->Encode(Strings()[i]).value(), ExpectedTokens(i))
        << "string " << i << ": " << nlohmann::json(Strings()[i]).dump();
  }
}

TEST_P(ReferenceTest, TextIsTheLibrarys) {
  for (size_t i = 0; i < Strings().size(); ++i) {
    if (IsOpen(i)) continue;
    ASSERT_EQ(ToUtf8(tokenizer_->Decode(ExpectedTokens(i))), ExpectedText(i))
        << "string " << i << ": " << nlohmann::json(Strings()[i]).dump();
  }
}

// What a stream shows: the same text, but for what a decoder takes from the
// start of a whole text.
TEST_P(ReferenceTest, TokensOneByOneGiveTheSameTextButForItsStart) {
  for (size_t i = 0; i < Strings().size(); ++i) {
    if (IsOpen(i)) continue;
    const std::vector<int32_t> tokens = ExpectedTokens(i);
    std::string streamed;
    for (const int32_t token : tokens) {
      tokenizer_->AppendBytes(token, streamed);
    }
    const std::string whole = tokenizer_->Decode(tokens);
    const std::string streamed_text = ToUtf8(streamed);
    ASSERT_GE(streamed_text.size(), whole.size());
    const size_t more = streamed_text.size() - whole.size();
    EXPECT_EQ(streamed_text.substr(more), ToUtf8(whole)) << "string " << i;
    EXPECT_EQ(streamed_text.substr(0, more), std::string(more, ' '));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ReferenceTest,
    testing::Values(
        Kind{"neox", "byte_level_bpe"}, Kind{"prefix_space", "byte_level_bpe"},
        Kind{"gpt2", "byte_level_bpe"}, Kind{"llama3", "byte_level_bpe"},
        Kind{"qwen2", "byte_level_bpe"}, Kind{"qwen3_5", "byte_level_bpe"},
        Kind{"lfm2", "byte_level_bpe"}, Kind{"granite", "byte_level_bpe"},
        Kind{"nemotron", "byte_level_bpe"}, Kind{"llama", "byte_fallback_bpe"},
        Kind{"mistral", "byte_fallback_bpe"},
        Kind{"metaspace", "byte_fallback_bpe"}, Kind{"unknown", "bpe"},
        Kind{"sentencepiece_bpe", "sentencepiece"},
        Kind{"sentencepiece_unigram", "sentencepiece"}, Kind{"rwkv", "rwkv"}),
    [](const auto& test) { return std::string(test.param.folder); });

}  // namespace
}  // namespace steadystate::reference_test
