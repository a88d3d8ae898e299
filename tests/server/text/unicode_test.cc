// Goal: characters are taken for what the reference library takes them for,
// whichever version of Unicode is installed. Method: tokenizers whose steps
// remove what they match, over the characters about which versions differ;
// results by the library (tests/reference/tokenizers/make_unicode_cases.py).
#include "server/text/unicode.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/text/marked_text.h"
#include "server/text/tokenizer_factory.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::unicode_test {
namespace {

using nlohmann::json;

constexpr int32_t kWord = 256;  // the added token
constexpr size_t kVocabSize = kWord + 1;

const json& Data() {
  static const auto* const data = new json(json::parse(ReadWholeFile(
      STEADYSTATE_SOURCE_DIR "/tests/data/tokenizers/unicode.json")));
  return *data;
}

std::unique_ptr<Tokenizer> MakeFrom(const json& description) {
  const TempDirectory directory;
  directory.Write("tokenizer.json", description.dump());
  auto choice = MakeTokenizer(directory.path(), false, kVocabSize);
  EXPECT_TRUE(choice.ok()) << choice.status();
  EXPECT_TRUE(choice->warnings.empty()) << choice->warnings.front();
  return std::move(choice->tokenizer);
}

// The bytes of a text's tokens, an asterisk for the added one.
std::string BytesOfTokens(const Tokenizer& tokenizer, const std::string& text) {
  std::string bytes;
  const std::vector<int32_t> encoded = tokenizer.Encode(text).value();
  for (const int32_t token : encoded) {
    bytes.push_back(token == kWord ? '*' : static_cast<char>(token));
  }
  return bytes;
}

TEST(UnicodeTest, CharactersAreWhatTheLibraryTakesThemFor) {
  ASSERT_GE(Data().at("cases").size(), 20u);
  for (const json& one : Data().at("cases")) {
    SCOPED_TRACE(one.at("name").dump());
    const auto tokenizer = MakeFrom(one.at("tokenizer"));
    ASSERT_NE(tokenizer, nullptr);
    const json& texts = Data().at("texts").at(std::string(one.at("texts")));
    ASSERT_EQ(texts.size(), one.at("results").size());
    ASSERT_GE(texts.size(), 20u);
    for (size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(BytesOfTokens(*tokenizer, texts[i]),
                one.at("results")[i].get<std::string>())
          << "text " << i;
    }
  }
}

TEST(UnicodeTest, LettersInCirclesAreOfWords) {
  EXPECT_TRUE(IsWordCharacter(U'\u24B6'));
  EXPECT_TRUE(IsWordCharacter(U'\U0001F130'));
  EXPECT_FALSE(IsWordCharacter(U'\u2460'));  // a digit in a circle
  EXPECT_TRUE(IsWordCharacter(U'\u200D'));
  EXPECT_FALSE(IsWordCharacter(U'\0'));
  EXPECT_FALSE(IsWordCharacter(U'\U0010FFFF'));
}

// U+11A7 lies before the trailing consonants of Hangul and is none.
TEST(UnicodeTest, NormalFormsKeepTheVowelBeforeHangulsTrailingConsonants) {
  const struct {
    const char* text;
    const char* composed;
  } kCases[] = {
      {"\uac00\u11a7", "\uac00\u11a7"},
      {"\uac00\u11a8", "\uac01"},
      {"\uac00\u11c2", "\uac1b"},
      {"\uac00\u11c3", "\uac00\u11c3"},
      {"\uac01\u11a7", "\uac01\u11a7"},
      {"\u1100\u1161\u11a7", "\uac00\u11a7"},
      {"\u1100\u1161\u11a8", "\uac01"},
      {"\uac00\u11a7\u11a8", "\uac00\u11a7\u11a8"},
      {"\uac00\u11a7\u0301\u0323", "\uac00\u11a7\u0323\u0301"},
      {"e\u0301\u11a7e\u0301", "\u00e9\u11a7\u00e9"},
  };
  for (const bool compatible : {false, true}) {
    for (const auto& test : kCases) {
      EXPECT_EQ(ToNormalForm(test.text, {true, compatible}), test.composed);
    }
    EXPECT_EQ(ToNormalForm("\uac00\u11a7", {false, compatible}),
              "\u1100\u1161\u11a7");
  }
  // A character of three bytes each.
  std::string literal = {kNotLiteral, kNotLiteral, kNotLiteral,
                         kLiteral,    kLiteral,    kLiteral};
  EXPECT_EQ(ToNormalForm("\uac00\u11a7", {}, literal), "\uac00\u11a7");
  EXPECT_EQ(literal, std::string({kNotLiteral, kNotLiteral, kNotLiteral,
                                  kLiteral, kLiteral, kLiteral}));
}

// Kawi is of Unicode 15.
TEST(UnicodeTest, StandInsAreAsLong) {
  const std::string text = "a\U00011F12 \U00031350";
  const auto changed = WithStandIns(text);
  ASSERT_TRUE(changed.has_value());
  EXPECT_EQ(changed->size(), text.size());
  EXPECT_EQ(changed->substr(0, 1), "a");
  EXPECT_EQ((*changed)[5], ' ');
  EXPECT_FALSE(WithStandIns(*changed).has_value());
  EXPECT_FALSE(WithStandIns("plain, \u00e9, \u4e2d").has_value());
}

}  // namespace
}  // namespace steadystate::unicode_test
