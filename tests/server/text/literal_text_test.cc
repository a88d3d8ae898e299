// Goal: no added token is found where a byte of its spelling is literal, and
// nothing else changes. Method: small files in which each way to get one past
// would show; then the files and strings of tests/data/tokenizers, cut at
// random.
#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/text/marked_text.h"
#include "server/text/sentencepiece_marks.h"
#include "server/text/tokenizer_factory.h"
#include "server/text/unicode.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::literal_text_test {
namespace {

using nlohmann::json;

constexpr size_t kVocabSize = 300;
constexpr int32_t kMark = 100;  // and the ids that follow
constexpr int32_t kUnknown = 99;

// The id of an ASCII character in the small files.
int32_t IdOf(char c) { return c - ' '; }

std::vector<int32_t> IdsOf(absl::string_view text) {
  std::vector<int32_t> ids;
  for (const char c : text) ids.push_back(IdOf(c));
  return ids;
}

std::vector<int32_t> operator+(std::vector<int32_t> a,
                               const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Tokens are characters of ASCII, an unknown one and the added ones.
json FileWith(const char* added, const char* normalizer = "null") {
  json file = json::parse(R"({
    "version": "1.0", "pre_tokenizer": null, "decoder": {"type": "Fuse"},
    "model": {"type": "BPE", "unk_token": "?unk", "vocab": {"?unk": 99},
              "merges": []}})");
  for (char c = ' '; c < '\x7F'; ++c) {
    file["model"]["vocab"][std::string(1, c)] = IdOf(c);
  }
  file["added_tokens"] = json::parse(added);
  file["normalizer"] = json::parse(normalizer);
  return file;
}

std::unique_ptr<Tokenizer> Make(const json& file) {
  std::vector<std::string> warnings;
  auto made = MakeJsonTokenizer(file.dump(), "t.json", kVocabSize, warnings);
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

constexpr bool kL = true;

std::vector<int32_t> Ids(const Tokenizer& tokenizer,
                         const std::vector<TextPart>& parts) {
  const auto ids = tokenizer.EncodeParts(parts);
  EXPECT_TRUE(ids.ok()) << ids.status();
  return ids.value_or(std::vector<int32_t>());
}

constexpr char kMarks[] = R"([
  {"id": 100, "content": "<|im_end|>", "special": true},
  {"id": 101, "content": "<|im", "special": false, "normalized": false}])";

TEST(LiteralTextTest, MarksAreReadWhereTheTemplateHasThem) {
  const auto made = Make(FileWith(kMarks));
  EXPECT_THAT(
      Ids(*made, {{"a<|im_end|>"}, {"<|im_end|>", kL}, {"<|im_end|>"}}),
      testing::ElementsAreArray(IdsOf("a") + std::vector{kMark} +
                                IdsOf("<|im_end|>") + std::vector{kMark}));
  // What is not special is a mark, too.
  EXPECT_EQ(Ids(*made, {{"<|im", kL}}), IdsOf("<|im"));
  EXPECT_EQ(Ids(*made, {{"<|im"}}), std::vector{kMark + 1});
}

TEST(LiteralTextTest, BordersSpellNoMark) {
  const auto made = Make(FileWith(kMarks));
  EXPECT_EQ(Ids(*made, {{"<|im_", kL}, {"end|>"}}), IdsOf("<|im_end|>"));
  EXPECT_EQ(Ids(*made, {{"<|im_end|", kL}, {">"}}), IdsOf("<|im_end|>"));
  EXPECT_EQ(Ids(*made, {{"<"}, {"|im_end|", kL}, {">"}}), IdsOf("<|im_end|>"));
  // The template's own shorter one, which the longer one would have hidden.
  EXPECT_EQ(Ids(*made, {{"<|im"}, {"_end|>", kL}}),
            std::vector{kMark + 1} + IdsOf("_end|>"));
  // Parts that are not literal spell across their borders, as one text does.
  EXPECT_EQ(Ids(*made, {{"<|im_"}, {"", kL}, {"end|>"}}), std::vector{kMark});
}

TEST(LiteralTextTest, WhatIsLiteralHidesNoMark) {
  const auto made = Make(FileWith(R"([
    {"id": 100, "content": "<a>", "special": true},
    {"id": 101, "content": "xx<", "special": true}])"));
  EXPECT_EQ(made->Encode("xx<a>").value(),
            (std::vector{kMark + 1} + IdsOf("a>")));
  EXPECT_EQ(Ids(*made, {{"xx", kL}, {"<a>"}}),
            IdsOf("xx") + std::vector{kMark});
}

// Fullwidth forms, a ligature of which a mark has a part, a mark that is put
// together with a letter, and another step that makes the spelling.
TEST(LiteralTextTest, OtherSpellingsThatAreNormalizedAreNone) {
  constexpr char kNormalized[] = R"([
    {"id": 100, "content": "<x>", "special": true, "normalized": true},
    {"id": 101, "content": "xk", "special": true, "normalized": true}])";
  const auto made = Make(FileWith(kNormalized, R"({"type": "NFKC"})"));
  const std::string wide =
      "\xEF\xBC\x9C"
      "x"
      "\xEF\xBC\x9E";
  const std::string kilogram = "\xE3\x8E\x8F";
  EXPECT_EQ(Ids(*made, {{wide}}), std::vector{kMark});
  EXPECT_EQ(Ids(*made, {{wide, kL}}), IdsOf("<x>"));
  EXPECT_EQ(Ids(*made, {{"<x"}, {"\xEF\xBC\x9E", kL}}), IdsOf("<x>"));
  EXPECT_EQ(made->Encode("x" + kilogram).value(),
            (std::vector{kMark + 1} + IdsOf("g")));
  EXPECT_EQ(Ids(*made, {{"x"}, {kilogram, kL}}), IdsOf("xkg"));
  EXPECT_EQ(Ids(*made, {{"\xC3\xA9", kL}, {wide}, {"a", kL}}),
            (std::vector{kUnknown, kMark} + IdsOf("a")));
  const auto replaced = Make(FileWith(kNormalized, R"({"type": "Sequence",
    "normalizers": [{"type": "Prepend", "prepend": "<"},
      {"type": "Replace", "pattern": {"String": "--"}, "content": "<x>"}]})"));
  EXPECT_EQ(Ids(*replaced, {{"a-"}, {"-", kL}}), IdsOf("<a<x>"));
  EXPECT_EQ(Ids(*replaced, {{"x>", kL}}), IdsOf("<x>"));
}

TEST(LiteralTextTest, BlanksAreText) {
  const auto made = Make(FileWith(R"([
    {"id": 100, "content": "  ", "normalized": true},
    {"id": 101, "content": "    ", "normalized": false},
    {"id": 102, "content": " <b>", "normalized": false}])"));
  EXPECT_EQ(Ids(*made, {{"a    b  c <b>", kL}}),
            IdsOf("a") + std::vector{kMark + 1} + IdsOf("b") +
                std::vector{kMark} + IdsOf("c <b>"));
  EXPECT_EQ(Ids(*made, {{"  "}, {"  a", kL}}),
            std::vector{kMark + 1} + IdsOf("a"));
}

// Nor does the model give what was not found: by its merges, or as a word.
TEST(LiteralTextTest, TheModelJoinsNoMark) {
  json file = FileWith(R"([
    {"id": 100, "content": "<s>", "special": true},
    {"id": 101, "content": "|", "special": true}])");
  file["model"]["vocab"]["<s>"] = 100;
  file["model"]["vocab"]["<s"] = 102;
  file["model"]["vocab"]["<s>!"] = 103;
  file["model"]["merges"] = {"< s", "<s >"};
  for (const bool words : {false, true}) {
    file["model"]["ignore_merges"] = words;
    const auto made = Make(file);
    EXPECT_EQ(Ids(*made, {{"<s>"}}), std::vector{100});
    EXPECT_EQ(Ids(*made, {{"<s>", kL}}), std::vector{102} + IdsOf(">"));
    EXPECT_EQ(Ids(*made, {{"<"}, {"s>", kL}}), std::vector{102} + IdsOf(">"));
  }
  // A character is what it is, unless bytes can spell it.
  file["model"]["vocab"]["|"] = 101;
  EXPECT_EQ(Ids(*Make(file), {{"|", kL}}), std::vector{101});
  file["model"]["byte_fallback"] = true;
  file["model"]["vocab"]["<0x7C>"] = 104;
  EXPECT_EQ(Ids(*Make(file), {{"|", kL}}), std::vector{104});
}

TEST(LiteralTextTest, WhiteSpaceAndWordsBesideMarksAreAsBefore) {
  const auto made = Make(FileWith(R"([
    {"id": 100, "content": "<r>", "special": true, "lstrip": true,
     "rstrip": true},
    {"id": 101, "content": "WW", "special": true, "single_word": true}])"));
  EXPECT_EQ(Ids(*made, {{"a ", kL}, {"<r>"}, {" b", kL}}),
            made->Encode("a <r> b").value());
  EXPECT_EQ(Ids(*made, {{"a", kL}, {"WW"}}), IdsOf("aWW"));
  EXPECT_EQ(Ids(*made, {{"a-", kL}, {"WW"}}), IdsOf("a-") + std::vector{101});
}

TEST(LiteralTextTest, BytesThatAreNoTextAreReplacementCharacters) {
  const auto made = Make(FileWith(kMarks));
  EXPECT_EQ(Ids(*made, {{"\xE2\x82"}, {"\xAC", kL}}), std::vector{kUnknown});
  EXPECT_EQ(
      Ids(*made, {{"\xFF<|im_end|>"}, {"\xE2<|im_end|>", kL}}),
      std::vector<int32_t>({kUnknown, kMark, kUnknown}) + IdsOf("<|im_end|>"));
}

TEST(MarkedTextTest, NormalFormsKeepTrackOfLiteralBytes) {
  const struct {
    const char* text;
    const char* literal;
    NormalForm form;
    const char* expected;
  } kCases[] = {
      // e and an acute accent become one; the accent is literal.
      {"<e\xCC\x81>",
       "0011000"
       "",
       {true, false},
       "0110"},
      // A cedilla goes before an acute that was there before it.
      {"q\xCC\x81\xCC\xA7z", "011000", {true, false}, "000110"},
      // Hangul of three letters.
      {"\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB<",
       "0000001110",
       {true, false},
       "1110"},
      {"\xC3\xA9<\xC3\xA9", "11000", {false, false}, "1110000"},
      {"\xEF\xAC\x81x", "1110", {true, true}, "110"},
  };
  for (const auto& test : kCases) {
    std::string literal = test.literal;
    literal.resize(std::string(test.text).size(), '0');
    for (char& mark : literal) mark = mark == '1' ? kLiteral : kNotLiteral;
    const std::string normal = ToNormalForm(test.text, test.form, literal);
    EXPECT_EQ(normal, ToNormalForm(test.text, test.form));
    for (char& mark : literal) mark = mark == kLiteral ? '1' : '0';
    EXPECT_EQ(literal, test.expected) << normal;
  }
}

// The files and strings of the reference.
class LiteralReferenceTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string folder = absl::StrCat(
        STEADYSTATE_SOURCE_DIR, "/tests/data/tokenizers/", GetParam());
    auto choice = MakeTokenizer(folder, false, 2000);
    ASSERT_TRUE(choice.ok()) << choice.status();
    tokenizer_ = std::move(choice->tokenizer);
    strings_ = json::parse(ReadWholeFile(absl::StrCat(
        STEADYSTATE_SOURCE_DIR, "/tests/data/tokenizers/strings.json")));
    if (tokenizer_->kind() == "sentencepiece") {
      const std::string file = ReadWholeFile(folder + "/tokenizer.model");
      const auto marks = SentencePieceMarks::FromFile(file);
      ASSERT_TRUE(marks.ok()) << marks.status();
      for (int32_t id = 0; id < 2000; ++id) {
        if (marks->IsMark(id)) marks_.insert(id);
      }
    } else if (tokenizer_->kind() != "rwkv") {
      ReadMarks(folder);
    }
  }

  void ReadMarks(const std::string& folder) {
    const json file = json::parse(ReadWholeFile(folder + "/tokenizer.json"));
    for (const json& token : file["added_tokens"]) {
      const std::string text = token["content"];
      const auto id = token["id"].get<int32_t>();
      if (text.find_first_not_of(' ') == std::string::npos) continue;
      // What has no other spelling: unknown characters, and single ones.
      const bool text_too =
          FirstCharacter(text).bytes == text.size() || text == "<unk>";
      (text_too ? perhaps_ : marks_).insert(id);
    }
  }

  static bool HasOneOf(const std::set<int32_t>& marks,
                       const std::vector<int32_t>& tokens) {
    return std::ranges::any_of(
        tokens, [&](int32_t token) { return marks.contains(token); });
  }

  // The text in parts, cut between characters.
  std::vector<TextPart> Cut(const std::string& text) {
    std::vector<TextPart> parts;
    absl::string_view rest = text;
    while (!rest.empty()) {
      size_t bytes = 0;
      do {
        bytes += FirstCharacter(rest.substr(bytes)).bytes;
      } while (bytes < rest.size() && random_() % 4 != 0);
      parts.push_back({rest.substr(0, bytes), random_() % 2 == 0});
      rest.remove_prefix(bytes);
    }
    return parts;
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<std::string> strings_;
  std::set<int32_t> marks_;
  std::set<int32_t> perhaps_;
  std::mt19937 random_{1};
};

TEST_P(LiteralReferenceTest, NothingChangesButMarks) {
  size_t with_marks = 0;
  for (const std::string& text : strings_) {
    const std::vector<int32_t> whole = tokenizer_->Encode(text).value();
    std::vector<TextPart> parts = Cut(text);
    const std::vector<int32_t> some = Ids(*tokenizer_, parts);
    for (TextPart& part : parts) part.literal = true;
    const std::vector<int32_t> all = Ids(*tokenizer_, parts);
    for (TextPart& part : parts) part.literal = false;
    ASSERT_EQ(Ids(*tokenizer_, parts), whole) << text;
    ASSERT_FALSE(HasOneOf(marks_, all)) << text;
    if (HasOneOf(marks_, whole) || HasOneOf(perhaps_, whole)) {
      ++with_marks;
      continue;
    }
    ASSERT_EQ(all, whole) << text;
    ASSERT_EQ(some, whole) << text;
  }
  // Those of these files have marks, which the strings spell.
  if (tokenizer_->kind() == "byte_fallback_bpe") {
    EXPECT_GT(with_marks, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, LiteralReferenceTest,
    testing::Values("neox", "prefix_space", "gpt2", "llama3", "qwen2",
                    "qwen3_5", "lfm2", "granite", "nemotron", "llama",
                    "mistral", "metaspace", "unknown", "sentencepiece_bpe",
                    "sentencepiece_unigram", "rwkv"),
    [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace steadystate::literal_text_test
