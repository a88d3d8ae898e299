// Goal: symbols that a SentencePiece model's user defined, and control symbols,
// are not found where a byte of them is literal, and nothing else changes.
// Method: the files of tests/data/tokenizers with pieces added, as Protobuf
// reads them.
#include "server/text/sentencepiece_marks.h"

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/text/sentencepiece_file.h"
#include "server/text/tokenizer_factory.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::sentencepiece_marks_test {
namespace {

constexpr size_t kVocabSize = 2000;
constexpr bool kL = true;

// A field of Protobuf's wire format, of less than 128 bytes.
std::string Bytes(char number, const std::string& bytes) {
  return std::string(1, static_cast<char>(number << 3 | 2)) +
         static_cast<char>(bytes.size()) + bytes;
}

std::string UserDefined(const std::string& piece) {
  return Bytes(1, Bytes(1, piece) + "\x18\x04");
}

class SentencePieceMarksTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string file = ReadWholeFile(
        absl::StrCat(STEADYSTATE_SOURCE_DIR, "/tests/data/tokenizers/",
                     GetParam(), "/tokenizer.model"));
    const auto plain = MakeSentencePieceTokenizer(file, "t.model", kVocabSize);
    ASSERT_TRUE(plain.ok()) << plain.status();
    while (tokens_ < kVocabSize &&
           (*plain)->HasToken(static_cast<int32_t>(tokens_))) {
      ++tokens_;
    }
    for (const char* piece : {"<x>", "zz<", "[kg]", "\xE2\x96\x81<p>",
                              "\xE2\x96\x81\xE2\x96\x81"}) {
      file += UserDefined(piece);
    }
    auto made = MakeSentencePieceTokenizer(file, "t.model", kVocabSize);
    ASSERT_TRUE(made.ok()) << made.status();
    tokenizer_ = *std::move(made);
  }

  // Of the n-th piece that was added.
  int32_t Mark(size_t n) const { return static_cast<int32_t>(tokens_ + n); }

  std::vector<int32_t> Ids(const std::vector<TextPart>& parts) const {
    const auto ids = tokenizer_->EncodeParts(parts);
    EXPECT_TRUE(ids.ok()) << ids.status();
    return ids.value_or(std::vector<int32_t>());
  }
  // Marks of the result, by number.
  std::vector<int32_t> MarksOf(const std::vector<TextPart>& parts) const {
    std::vector<int32_t> marks;
    for (const int32_t id : Ids(parts)) {
      if (id >= Mark(0) && id < Mark(4)) marks.push_back(id - Mark(0));
    }
    return marks;
  }
  std::string Text(const std::vector<TextPart>& parts) const {
    return tokenizer_->Decode(Ids(parts));
  }

  size_t tokens_ = 0;
  std::unique_ptr<Tokenizer> tokenizer_;
};

using Numbers = std::vector<int32_t>;

TEST_P(SentencePieceMarksTest, MarksAreReadWhereTheTemplateHasThem) {
  EXPECT_EQ(MarksOf({{"say <x> here"}}), Numbers({0}));
  EXPECT_EQ(MarksOf({{"say <x> here", kL}}), Numbers());
  EXPECT_EQ(MarksOf({{"<x>a"}, {"b<x>c", kL}, {"d<x>"}}), Numbers({0, 0}));
  EXPECT_EQ(Text({{"<x>a"}, {"b<x>c", kL}, {"d<x>"}}), "<x>ab<x>cd<x>");
  EXPECT_EQ(MarksOf({{"<"}, {"x>", kL}}), Numbers());
  EXPECT_EQ(MarksOf({{"a<x", kL}, {">"}}), Numbers());
  EXPECT_EQ(MarksOf({{"<x>"}, {">", kL}}), Numbers({0}));
  EXPECT_EQ(MarksOf({{"a <p>", kL}}), Numbers());
}

TEST_P(SentencePieceMarksTest, WhatIsLiteralHidesNoMark) {
  EXPECT_EQ(MarksOf({{"zz<x>"}}), Numbers({1}));
  EXPECT_EQ(MarksOf({{"zz", kL}, {"<x>"}}), Numbers({0}));
  EXPECT_EQ(Text({{"zz", kL}, {"<x>"}}), "zz<x>");
}

// One of the files normalizes, by NFKC.
TEST_P(SentencePieceMarksTest, OtherSpellingsThatAreNormalizedAreNone) {
  if (GetParam() != std::string("sentencepiece_unigram")) {
    GTEST_SKIP() << "does not normalize";
  }
  const std::string wide =
      "\xEF\xBC\x9C"
      "x"
      "\xEF\xBC\x9E";
  const std::string kilogram = "\xE3\x8E\x8F";
  EXPECT_EQ(MarksOf({{"a" + wide}}), Numbers({0}));
  EXPECT_EQ(MarksOf({{"a" + wide, kL}}), Numbers());
  EXPECT_EQ(Text({{"a" + wide, kL}}), "a<x>");
  EXPECT_EQ(MarksOf({{"a[" + kilogram + "]"}}), Numbers({2}));
  EXPECT_EQ(MarksOf({{"a["}, {kilogram, kL}, {"]"}}), Numbers());
}

// Aliases are no text: nothing that is sent is one.
TEST_P(SentencePieceMarksTest, BytesThatAreNoTextAreNoMark) {
  for (int last = 0x80; last < 0xFF; ++last) {
    const std::string bytes = {'\xFF', static_cast<char>(last), '\x88', '\x80'};
    EXPECT_EQ(MarksOf({{bytes + "<x>", kL}}), Numbers());
  }
}

TEST_P(SentencePieceMarksTest, NothingElseChanges) {
  std::mt19937 random(1);
  const std::vector<std::string> words = {
      "a ", " b", "  ", "the", " word", "\xC3\xA9", "\xEF\xAC\x81", "<", "\n"};
  for (int i = 0; i < 300; ++i) {
    std::string whole;
    std::vector<std::string> texts;
    for (size_t n = random() % 12 + 1; n > 0; --n) {
      texts.push_back(words[random() % words.size()]);
      whole += texts.back();
    }
    std::vector<TextPart> parts;
    for (const std::string& text : texts)
      parts.push_back({text, random() % 2 == 0});
    ASSERT_EQ(Ids(parts), tokenizer_->Encode(whole).value()) << whole;
    // And beside a mark that is kept while another is none: less the mark, what
    // the text without is.
    parts.insert(parts.begin(), {"<x>", false});
    const std::vector<int32_t> marked =
        tokenizer_->Encode("<x>" + whole).value();
    ASSERT_EQ(Ids(parts), marked) << whole;
    parts.push_back({"<x>", true});
    const std::vector<int32_t> both = Ids(parts);
    ASSERT_GE(both.size(), marked.size());
    ASSERT_EQ(MarksOf(parts), Numbers({0})) << whole;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, SentencePieceMarksTest,
                         testing::Values("sentencepiece_bpe",
                                         "sentencepiece_unigram"),
                         [](const auto& test) {
                           return std::string(test.param);
                         });

}  // namespace
}  // namespace steadystate::sentencepiece_marks_test
