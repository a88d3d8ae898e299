// Goal: a tokenizer.json that is malformed is refused with the reason, one of
// an unsupported kind is told from it, and no file or text does harm. Method:
// small files, each with one thing changed.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/base/error.h"
#include "server/text/normalizer.h"
#include "server/text/tokenizer_factory.h"
#include "server/text/unicode.h"

namespace steadystate::json_tokenizer_test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr size_t kVocabSize = 10;

// Tokens a, b, ab, abb, an unknown one and an added one.
json SmallFile() {
  return json::parse(R"({
    "version": "1.0",
    "added_tokens": [{"id": 5, "content": "<s>", "special": true}],
    "normalizer": null,
    "pre_tokenizer": null,
    "decoder": {"type": "Fuse"},
    "model": {
      "type": "BPE",
      "unk_token": "?",
      "vocab": {"a": 0, "b": 1, "ab": 2, "abb": 3, "?": 4},
      "merges": ["a b", ["ab", "b"]]
    }
  })");
}

struct Outcome {
  absl::Status status;
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<std::string> warnings;
};

Outcome Make(const std::string& text) {
  Outcome outcome;
  auto made = MakeJsonTokenizer(text, "t.json", kVocabSize, outcome.warnings);
  outcome.status = made.status();
  if (made.ok()) outcome.tokenizer = *std::move(made);
  return outcome;
}

// The small file with the value at `pointer` replaced.
Outcome MakeWith(const std::string& pointer, const char* value) {
  json file = SmallFile();
  file[json::json_pointer(pointer)] = json::parse(value);
  return Make(file.dump());
}

// A file may come from anywhere, and a text too: this pattern takes time
// exponential in the length of the text.
constexpr char kCatastrophic[] =
    R"({"type": "Split", "behavior": "Isolated",
        "pattern": {"Regex": "b|(?:a+)+c"}})";

TEST(JsonTokenizerTest, TextsThatAPatternTakesTooLongOverAreRefused) {
  const Outcome made = MakeWith("/pre_tokenizer", kCatastrophic);
  ASSERT_TRUE(made.status.ok()) << made.status;
  EXPECT_THAT(made.tokenizer->Encode("aac").value(), ElementsAre(0, 0, 4));
  const auto refused = made.tokenizer->Encode(std::string(40, 'a'));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(GetErrorDetails(refused.status())->reason,
            ErrorReason::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("send the text as token ids"));
}

// None of these tokens takes too long by itself.
TEST(JsonTokenizerTest, PatternsThatTakeTooLongOverAllTokensAreRefused) {
  constexpr size_t kTokens = 400;
  json file = SmallFile();
  file["decoder"] = json::parse(
      R"({"type": "Replace", "content": "x",
          "pattern": {"Regex": "(?:a+)+[^a0-9]"}})");
  for (size_t i = kVocabSize; i < kTokens; ++i) {
    file["model"]["vocab"]["aaaaaaaaaaaaaaaaa" + std::to_string(i)] = i;
  }
  std::vector<std::string> warnings;
  const absl::Status refused =
      MakeJsonTokenizer(file.dump(), "t.json", kTokens, warnings).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("t.json: its patterns take more than 20400000 steps"));
  file["decoder"]["pattern"]["Regex"] = "a+[^a0-9]";
  EXPECT_TRUE(MakeJsonTokenizer(file.dump(), "t.json", kTokens, warnings).ok());
}

TEST(JsonTokenizerTest, MergesInOrderAndFindsAddedTokens) {
  const Outcome made = Make(SmallFile().dump());
  ASSERT_TRUE(made.status.ok()) << made.status;
  EXPECT_THAT(made.warnings, IsEmpty());
  EXPECT_EQ(made.tokenizer->kind(), "bpe");
  EXPECT_THAT(made.tokenizer->Encode("abbab").value(), ElementsAre(3, 2));
  EXPECT_THAT(made.tokenizer->Encode("a<s>b").value(), ElementsAre(0, 5, 1));
  EXPECT_THAT(made.tokenizer->Encode("axxb").value(), ElementsAre(0, 4, 4, 1));
  EXPECT_THAT(made.tokenizer->Encode("").value(), IsEmpty());
  const std::vector<int32_t> tokens = {5, 3, 9, 2};
  EXPECT_EQ(made.tokenizer->Decode(tokens), "abbab");
}

TEST(JsonTokenizerTest, TheUnknownTokenMayBeAnAddedOne) {
  const Outcome made = MakeWith("/model/unk_token", "\"<s>\"");
  ASSERT_TRUE(made.status.ok()) << made.status;
  EXPECT_THAT(made.tokenizer->Encode("axb").value(), ElementsAre(0, 5, 1));
}

TEST(JsonTokenizerTest, MalformedFilesAreRefusedWithTheReason) {
  const struct {
    const char* pointer;
    const char* value;
    const char* reason;
  } kCases[] = {
      {"/model", "3", "'model' is no object"},
      {"/model/vocab", "[]", "'vocab' is no object"},
      {"/model/vocab/a", "10", "not one in [0, 10)"},
      {"/model/vocab/a", "-1", "not one in [0, 10)"},
      {"/model/vocab/a", "0.5", "not one in [0, 10)"},
      {"/model/vocab/a", "1e30", "not one in [0, 10)"},
      {"/model/vocab/a", "\"0\"", "not one in [0, 10)"},
      {"/model/vocab/a", "1", "of another token"},
      {"/model/merges", "{}", "'merges' is no array"},
      {"/model/merges/0", "\"a\"", "not a pair"},
      {"/model/merges/0", "\"a b c\"", "not a pair"},
      {"/model/merges/0", "[\"a\"]", "not a pair"},
      {"/model/merges/0", "[\"a\", 1]", "not a pair"},
      {"/model/merges/0", "[\"a\", \"z\"]", "\"z\", which is no token"},
      {"/model/merges/0", "[\"b\", \"a\"]", "\"ba\", which is no token"},
      {"/model/unk_token", "\"!\"", "is no token"},
      {"/model/byte_fallback", "\"yes\"", "not true or false"},
      {"/added_tokens", "{}", "no array"},
      {"/added_tokens/0", "{}", "'content' is missing"},
      {"/added_tokens/0/id", "-5", "'id' is -5"},
      {"/added_tokens/0/lstrip", "1", "'lstrip' is number"},
      {"/normalizer", "{}", "'type' is missing"},
      {"/normalizer", "{\"type\": \"Sequence\"}", "'normalizers' is missing"},
      {"/normalizer", "{\"type\": \"Replace\"}", "'Regex' is missing"},
      {"/pre_tokenizer", "[]", "'type' is missing"},
      {"/pre_tokenizer",
       R"({"type": "Split", "pattern": {"Regex": "("}, "behavior": "Removed"})",
       "is wrong at byte"},
      {"/pre_tokenizer",
       R"({"type": "Split", "pattern": {"String": "x"}, "behavior": "?"})",
       "'behavior' is \"?\""},
      {"/pre_tokenizer",
       R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "?"})",
       "'prepend_scheme' is \"?\""},
      {"/decoder", R"({"type": "Strip", "content": " ", "start": -1})",
       "'start' is -1"},
  };
  for (const auto& test : kCases) {
    const Outcome made = MakeWith(test.pointer, test.value);
    EXPECT_EQ(made.status.code(), absl::StatusCode::kInvalidArgument)
        << test.pointer << " = " << test.value;
    EXPECT_THAT(std::string(made.status.message()), HasSubstr(test.reason));
    EXPECT_THAT(std::string(made.status.message()), HasSubstr("t.json: "));
  }
}

// A Sequence of `count` times the same step.
std::string Repeated(const char* member, size_t count, const char* step) {
  const json sequence = {{"type", "Sequence"},
                         {member, std::vector<json>(count, json::parse(step))}};
  return sequence.dump();
}

// Of each n bytes these would make more than any machine has memory for, or
// take their time.
TEST(JsonTokenizerTest, StepsThatLetTextExplodeAreRefused) {
  constexpr char kDouble[] =
      R"({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"})";
  const std::string thousand(1000, 'a');
  const std::string thousandfold = absl::StrCat(
      R"({"type": "Replace", "pattern": {"Regex": "a|b"}, "content": ")",
      thousand, "\"}");
  const std::string mark = absl::StrCat(
      R"({"type": "Metaspace", "replacement": ")", thousand, "\"}");
  const struct {
    const char* pointer;
    std::string value;
    const char* reason;
  } kCases[] = {
      {"/normalizer", Repeated("normalizers", 8, kDouble),
       "can make a text 256 times as long, at most 72"},
      {"/normalizer", Repeated("normalizers", 60, kDouble),
       "times as long, at most 72"},
      {"/normalizer", Repeated("normalizers", 64, thousandfold.c_str()),
       "a text 1e+192 times"},
      {"/normalizer", Repeated("normalizers", 3, R"({"type": "NFKD"})"),
       "can make a text 1331 times"},
      {"/normalizer",
       absl::StrCat(R"({"type": "Prepend", "prepend": ")", thousand, "\"}"),
       "can make a text 1001 times"},
      {"/pre_tokenizer", mark, "can make a text 2000 times"},
      {"/pre_tokenizer",
       Repeated("pretokenizers", 4, R"({"type": "ByteLevel"})"),
       "can make a text 256 times"},
      {"/decoder", Repeated("decoders", 40, kDouble),
       "can make a token 1.09951e+12 times as long, at most 4"},
      {"/decoder", thousandfold, "can make a token 1000 times"},
  };
  for (const auto& test : kCases) {
    json file = SmallFile();
    file[json::json_pointer(test.pointer)] = json::parse(test.value);
    file["added_tokens"] =
        json::parse(R"([{"id": 5, "content": "a", "normalized": true}])");
    const Outcome made = Make(file.dump());
    EXPECT_EQ(made.status.code(), absl::StatusCode::kInvalidArgument)
        << test.value.substr(0, 100);
    EXPECT_THAT(std::string(made.status.message()), HasSubstr(test.reason));
  }
}

TEST(JsonTokenizerTest, LongTokensAreRefused) {
  json file = SmallFile();
  file["model"]["vocab"][std::string(8193, 'x')] = 6;
  EXPECT_THAT(std::string(Make(file.dump()).status.message()),
              HasSubstr("token 6 has 8193 bytes, at most 8192"));
  // Too long only as it is looked for.
  file = SmallFile();
  file["normalizer"] = json::parse(
      R"({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"})");
  file["added_tokens"] = {{{"id", 5}, {"content", std::string(512, 'a')}}};
  EXPECT_EQ(Make(file.dump()).status, absl::OkStatus());
  file["added_tokens"] = {{{"id", 5}, {"content", std::string(513, 'a')}}};
  EXPECT_THAT(std::string(Make(file.dump()).status.message()),
              HasSubstr("an added token of 1026 bytes, at most 1024"));
}

TEST(NormalizerTest, NoTextGrowsBeyondWhatIsSaid) {
  for (const char* type : {"NFC", "NFD", "NFKC", "NFKD", "ByteLevel"}) {
    const auto normalizer = Normalizer::FromJson({{"type", type}});
    ASSERT_TRUE(normalizer.ok()) << normalizer.status();
    double most = 0;
    for (char32_t code = 1; code < 0x30000; ++code) {
      if (code >= 0xD800 && code <= 0xDFFF) continue;
      std::string text;
      AppendUtf8(code, text);
      const auto bytes = static_cast<double>(text.size());
      most = std::max(
          most,
          static_cast<double>(normalizer->Normalize(text)->size()) / bytes);
    }
    EXPECT_EQ(most, normalizer->growth().PerByte()) << type;
  }
}

TEST(NormalizerTest, GrowthOfStepsIsThatOfTheWorstText) {
  const auto normalizer = Normalizer::FromJson(json::parse(R"(
      {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "ab"},
        {"type": "Replace", "pattern": {"Regex": "a?bb"}, "content": "aaaaaa"},
        {"type": "Replace", "pattern": {"String": "a"}, "content": "xyz"},
        {"type": "Replace", "pattern": {"String": "xyz"}, "content": "a"},
        {"type": "Strip"}]})"));
  ASSERT_TRUE(normalizer.ok()) << normalizer.status();
  // Two bytes become six, then each of them three.
  EXPECT_EQ(normalizer->growth().factor, 9);
  EXPECT_EQ(normalizer->growth().added, 18);
}

// As by the library: one for each match of nothing.
TEST(NormalizerTest, WhatMatchesNothingIsReplacedToo) {
  const auto normalizer = Normalizer::FromJson(json::parse(
      R"({"type": "Replace", "pattern": {"Regex": "x*"}, "content": "--"})"));
  ASSERT_TRUE(normalizer.ok()) << normalizer.status();
  EXPECT_EQ(normalizer->Normalize("ax\u00e9xx").value(), "--a--\u00e9--");
  EXPECT_EQ(normalizer->Normalize("").value(), "");
  EXPECT_EQ(normalizer->Normalize("a").value(), "--a--");
  EXPECT_EQ(normalizer->growth().PerByte(), 5);
}

TEST(JsonTokenizerTest, OtherKindsAreUnimplemented) {
  const struct {
    const char* pointer;
    const char* value;
  } kCases[] = {
      {"/model/type", "\"Unigram\""},
      {"/model/type", "\"WordPiece\""},
      {"/model/dropout", "0.1"},
      {"/model/continuing_subword_prefix", "\"##\""},
      {"/model/end_of_word_suffix", "\"</w>\""},
      {"/normalizer", "{\"type\": \"BertNormalizer\"}"},
      {"/pre_tokenizer", "{\"type\": \"UnicodeScripts\"}"},
      {"/pre_tokenizer",
       R"({"type": "Split", "pattern": {"Regex": "\\w+"},
           "behavior": "Removed"})"},
      {"/decoder", "null"},
      {"/decoder", "{\"type\": \"CTC\"}"},
      {"/decoder", R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
                       {"type": "ByteFallback"}]})"},
  };
  for (const auto& test : kCases) {
    EXPECT_EQ(MakeWith(test.pointer, test.value).status.code(),
              absl::StatusCode::kUnimplemented)
        << test.pointer << " = " << test.value;
  }
}

TEST(JsonTokenizerTest, WhatIsNoTokenizerIsRefused) {
  const std::string deep = std::string(1000, '[') + std::string(1000, ']');
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("7"),
        std::string("\xFF"), deep}) {
    EXPECT_EQ(Make(text).status.code(), absl::StatusCode::kInvalidArgument)
        << text.substr(0, 10);
  }
}

// Every prefix of the file, and the file with each byte changed, either makes
// a tokenizer that works or is refused.
TEST(JsonTokenizerTest, DamagedFilesDoNoHarm) {
  const std::string whole = SmallFile().dump();
  size_t made_any = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    EXPECT_FALSE(Make(whole.substr(0, at)).status.ok());
    std::string changed = whole;
    changed[at] = '1';
    const Outcome made = Make(changed);
    if (made.tokenizer == nullptr) continue;
    ++made_any;
    const std::vector<int32_t> encoded =
        made.tokenizer->Encode("ab<s>?\n").value();
    for (const int32_t token : encoded) {
      EXPECT_LT(token, static_cast<int32_t>(kVocabSize));
    }
  }
  EXPECT_GT(made_any, 0u);
}

TEST(JsonTokenizerTest, AddedTokensBeyondTheModelAreLeftOut) {
  const Outcome made = MakeWith("/added_tokens/0/id", "10");
  ASSERT_TRUE(made.status.ok()) << made.status;
  ASSERT_EQ(made.warnings.size(), 1u);
  EXPECT_THAT(made.warnings[0], HasSubstr("'<s>' has the id 10"));
  EXPECT_THAT(made.tokenizer->Encode("<s>a").value(), ElementsAre(4, 4, 4, 0));
}

// Ids 6 to 9 of the model have no token.
TEST(JsonTokenizerTest, IdsOfTokensAreTold) {
  const Outcome made = Make(SmallFile().dump());
  ASSERT_TRUE(made.status.ok()) << made.status;
  for (int32_t id = 0; id < static_cast<int32_t>(kVocabSize); ++id) {
    EXPECT_EQ(made.tokenizer->HasToken(id), id < 6) << id;
  }
}

// What it says is for clients; a text becomes the same tokens without.
TEST(JsonTokenizerTest, PostProcessorsThatAreDamagedAreLeftOut) {
  Outcome made = MakeWith("/post_processor", R"({"type": "ByteLevel"})");
  ASSERT_TRUE(made.status.ok()) << made.status;
  EXPECT_THAT(made.warnings, IsEmpty());
  made = MakeWith("/post_processor", "7");
  ASSERT_TRUE(made.status.ok()) << made.status;
  EXPECT_TRUE(made.tokenizer->text_prefix().empty());
  ASSERT_EQ(made.warnings.size(), 1u);
  EXPECT_THAT(made.warnings[0], HasSubstr("'post_processor'"));
  EXPECT_THAT(made.tokenizer->Encode("ab").value(), ElementsAre(2));
}

TEST(JsonTokenizerTest, TellsWhichTokensAreNoText) {
  json file = SmallFile();
  file["added_tokens"] = json::parse(R"([
    {"id": 7, "content": "<b>", "special": true},
    {"id": 6, "content": "<t>"},
    {"id": 5, "content": "<a>", "special": true, "single_word": true}])");
  const Outcome made = Make(file.dump());
  ASSERT_TRUE(made.status.ok()) << made.status;
  EXPECT_THAT(made.tokenizer->special_tokens(),
              ElementsAre(SpecialToken{5, "<a>"}, SpecialToken{7, "<b>"}));
}

// As in the reference library, where this is written in its tests.
TEST(JsonTokenizerTest, AddedTokensTakeSpaceAndWholeWords) {
  json file = SmallFile();
  file["added_tokens"] = json::parse(R"([
    {"id": 5, "content": "L", "special": true, "lstrip": true},
    {"id": 6, "content": "R", "special": true, "rstrip": true},
    {"id": 7, "content": "W", "special": true, "single_word": true}])");
  const Outcome made = Make(file.dump());
  ASSERT_TRUE(made.status.ok()) << made.status;
  EXPECT_THAT(made.tokenizer->Encode("a \t La").value(), ElementsAre(0, 5, 0));
  EXPECT_THAT(made.tokenizer->Encode("aR\xE3\x80\x80\n b").value(),
              ElementsAre(0, 6, 1));
  EXPECT_THAT(made.tokenizer->Encode("R  L").value(), ElementsAre(6, 5));
  EXPECT_THAT(made.tokenizer->Encode("aW").value(), ElementsAre(0, 4));
  EXPECT_THAT(made.tokenizer->Encode("W_").value(), ElementsAre(4, 4));
  EXPECT_THAT(made.tokenizer->Encode("a-W").value(), ElementsAre(0, 4, 7));
}

TEST(JsonTokenizerTest, BytesThatAreNoTextAreReplacementCharacters) {
  json file = SmallFile();
  file["model"]["vocab"]["\xEF\xBF\xBD"] = 6;
  const Outcome made = Make(file.dump());
  ASSERT_TRUE(made.status.ok()) << made.status;
  EXPECT_THAT(made.tokenizer->Encode("a\xFF\xE2\x82").value(),
              ElementsAre(0, 6, 6));
}

TEST(Utf8Test, EveryCharacterComesBack) {
  for (char32_t code = 0; code <= 0x10FFFF; code += code < 0x900 ? 1 : 251) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    std::string text = "x";
    AppendUtf8(code, text);
    EXPECT_EQ(ToUtf8(text), text);
    EXPECT_EQ(FirstCharacter(text.substr(1)).code, code);
    EXPECT_EQ(FirstCharacter(text.substr(1)).bytes, text.size() - 1);
    EXPECT_EQ(LastCharacter(text).code, code);
  }
}

}  // namespace
}  // namespace steadystate::json_tokenizer_test
