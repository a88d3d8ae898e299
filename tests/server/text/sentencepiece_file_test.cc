// Goal: a tokenizer.model that would harm SentencePiece is refused, and of
// those that are not none harms it. Method: the files of
// tests/data/tokenizers with fields added, which Protobuf reads as if they had
// been there, or with bytes changed at random.
#include "server/text/sentencepiece_file.h"

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/text/tokenizer_factory.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::sentencepiece_file_test {
namespace {

using testing::HasSubstr;

constexpr size_t kVocabSize = 2000;

void AppendVarint(uint64_t value, std::string& to) {
  for (; value >= 0x80; value >>= 7) {
    to.push_back(static_cast<char>(value | 0x80));
  }
  to.push_back(static_cast<char>(value));
}

// Fields of Protobuf's wire format.
std::string Bytes(uint32_t number, const std::string& bytes) {
  std::string field;
  AppendVarint(number << 3 | 2, field);
  AppendVarint(bytes.size(), field);
  return field + bytes;
}

std::string Varint(uint32_t number, uint64_t value) {
  std::string field;
  AppendVarint(number << 3, field);
  AppendVarint(value, field);
  return field;
}

std::string Piece(const std::string& piece, uint64_t type = 1) {
  return Bytes(1, Bytes(1, piece) + Varint(3, type));
}

// Of the normalizer; number 5 is the denormalizer's.
std::string CharsMap(const std::string& map, uint32_t number = 3) {
  return Bytes(number, Bytes(2, map));
}

// A letter that neither file has, so many times.
std::string Letters(size_t count) {
  std::string letters;
  while (count-- > 0) letters += "\xE0\xB4\x85";
  return letters;
}

// The letter, two of it, three of it and so on, user defined.
std::string Nested(size_t count) {
  std::string pieces;
  for (size_t i = 1; i <= count; ++i) pieces += Piece(Letters(i), 4);
  return pieces;
}

std::string File(const char* folder) {
  return ReadWholeFile(absl::StrCat(STEADYSTATE_SOURCE_DIR,
                                    "/tests/data/tokenizers/", folder,
                                    "/tokenizer.model"));
}

class SentencePieceFileTest : public testing::TestWithParam<const char*> {
 protected:
  // The file with fields added.
  absl::StatusOr<std::unique_ptr<Tokenizer>> MakeWith(
      const std::string& fields) const {
    return MakeSentencePieceTokenizer(file_ + fields, "t.model", kVocabSize);
  }

  const std::string file_ = File(GetParam());
};

TEST_P(SentencePieceFileTest, WhatWouldHarmTheLibraryIsRefused) {
  const std::string all_set = std::string("\0\4\0\0", 4) +
                              std::string(1024, '\xFF') +
                              std::string("abc\0", 4);
  const std::string nul("a\0b", 3);
  const struct {
    std::string fields;
    const char* reason;
  } kCases[] = {
      {CharsMap(all_set), "leads to unit"},
      {CharsMap(all_set, 5), "leads to unit"},
      {CharsMap("abc"), "has no trie"},
      {Piece(""), "has 0 bytes"},
      {Piece(nul), "none of them NUL"},
      {Piece(std::string(1025, '#')), "has 1025 bytes"},
      {Piece(std::string(1'000'000, '#')), "has 1000000 bytes"},
      {Nested(65), "more than 64 user defined pieces"},
      {Bytes(2, Bytes(44, std::string(1025, '?'))), "unk_surface"},
      {Bytes(4, std::string(1 << 20, '\0')), "of options and self-tests"},
      {std::string("\x0B\x0C"), "no field of Protobuf's"},
      {std::string("\x0A\x05x"), "no field of Protobuf's"},
      {std::string(11, '\xFF'), "no field of Protobuf's"},
      {std::string("\0\0", 2), "no field of Protobuf's"},
  };
  for (const auto& test : kCases) {
    const absl::Status status = MakeWith(test.fields).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << test.reason;
    EXPECT_THAT(std::string(status.message()), HasSubstr(test.reason));
    EXPECT_THAT(std::string(status.message()), HasSubstr("t.model: "));
  }
}

// What is at the bounds loads, and every text has its tokens.
TEST_P(SentencePieceFileTest, WhatIsAtTheBoundsWorks) {
  const auto made = MakeWith(Nested(64) + Piece(std::string(1024, '=')) +
                             Bytes(2, Bytes(44, std::string(1024, '?'))));
  ASSERT_TRUE(made.ok()) << made.status();
  for (const size_t letters : {1u, 63u, 64u, 65u, 200u, 1000u}) {
    const std::vector<int32_t> tokens =
        (*made)->Encode(Letters(letters)).value();
    // One of them is the space before the text.
    EXPECT_EQ(tokens.size(), (letters + 63) / 64 + 1);
    EXPECT_EQ((*made)->Decode(tokens), Letters(letters));
  }
  for (const size_t bytes : {1023u, 1024u, 1025u, 5000u}) {
    EXPECT_FALSE((*made)->Encode(std::string(bytes, '=')).value().empty());
  }
}

TEST_P(SentencePieceFileTest, PiecesBeyondTheModelAreRefused) {
  EXPECT_EQ(CheckSentencePieceFile(file_, kVocabSize), absl::OkStatus());
  const absl::Status status = CheckSentencePieceFile(file_, 100);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("pieces; the model has 100 tokens"));
}

// Pieces that there are twice, are unknown or are no byte.
TEST_P(SentencePieceFileTest, WhatTheLibraryRefusesIsAnError) {
  for (const std::string& fields :
       {Piece("#") + Piece("#"), Piece("#", 2), Piece("#", 6)}) {
    EXPECT_EQ(MakeWith(fields).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST_P(SentencePieceFileTest, DamagedFilesDoNoHarm) {
  constexpr uint32_t kSeed = 1;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  std::mt19937 random(kSeed);
  const std::string text =
      "Ein Text, a text;\n 1/2 \xC2\xBD \xEF\xB7\xBA \xE6\x97\xA5\xE6\x9C\xAC "
      "\xF0\x9F\x98\x80 \xFF\xC3 <0x41>  e\xCC\x81";
  size_t made_any = 0;
  for (int i = 0; i < 100; ++i) {
    std::string damaged = file_;
    for (uint32_t changes = 1 + random() % 4; changes > 0; --changes) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    const auto made =
        MakeSentencePieceTokenizer(damaged, "t.model", kVocabSize);
    if (!made.ok()) continue;
    ++made_any;
    std::vector<int32_t> tokens = (*made)->Encode(text).value();
    for (const int32_t token : tokens) {
      ASSERT_LT(token, static_cast<int32_t>(kVocabSize));
    }
    (*made)->Decode(tokens);
  }
  EXPECT_GT(made_any, 0u);
}

INSTANTIATE_TEST_SUITE_P(All, SentencePieceFileTest,
                         testing::Values("sentencepiece_bpe",
                                         "sentencepiece_unigram"),
                         [](const auto& test) {
                           return std::string(test.param);
                         });

// Goal: rules for characters that would lead SentencePiece out of their file
// are refused, those that files have are not. Method: tries of a few rules,
// written unit by unit, each with one thing wrong.

constexpr uint32_t kBlock = 256;
constexpr uint32_t kHasLeaf = 1u << 8;
constexpr uint32_t kLeaf = 1u << 31;

// Rules for the first `length` strings of "a", "aa", "aaa", each replaced by
// the same. The state behind k bytes is block k + 1; its own first unit is the
// leaf. A leaf follows no byte, so it also stands where nothing is.
struct Map {
  explicit Map(uint32_t length) : units((length + 2) * kBlock, kLeaf) {
    units[0] = OffsetTo(0, kBlock);
    for (uint32_t i = 1; i <= length; ++i) {
      const uint32_t at = UnitOf(i);
      units[at] = 'a' | kHasLeaf | OffsetTo(at, (i + 1) * kBlock);
      units[(i + 1) * kBlock] = kLeaf;
    }
  }

  // The unit of the i-th byte.
  static uint32_t UnitOf(uint32_t i) { return i * kBlock ^ 'a'; }
  static uint32_t OffsetTo(uint32_t from, uint32_t to) {
    return (from ^ to) << 10;
  }

  absl::Status Check() const {
    std::string bytes;
    Append(static_cast<uint32_t>(units.size() * 4), bytes);
    for (const uint32_t unit : units) Append(unit, bytes);
    return CheckCharsMap(bytes + replacements);
  }

  static void Append(uint32_t value, std::string& to) {
    to.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }

  std::vector<uint32_t> units;
  std::string replacements = std::string("x\0", 2);
};

void ExpectRefused(const absl::Status& status, const char* reason) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << reason;
  EXPECT_THAT(std::string(status.message()), HasSubstr(reason));
}

TEST(CharsMapTest, SoundRulesAreTaken) {
  EXPECT_EQ(CheckCharsMap(""), absl::OkStatus());
  EXPECT_EQ(Map(0).Check(), absl::OkStatus());
  EXPECT_EQ(Map(1).Check(), absl::OkStatus());
  EXPECT_EQ(Map(32).Check(), absl::OkStatus());
}

TEST(CharsMapTest, SizesMustFit) {
  ExpectRefused(CheckCharsMap("abcd"), "has no trie");
  Map map(1);
  map.units.resize(map.units.size() - 1);
  ExpectRefused(map.Check(), "a multiple of 1024");
  map.units.clear();
  ExpectRefused(map.Check(), "has a trie of 0 bytes");
  map.units.resize((4u << 18) + kBlock);
  ExpectRefused(map.Check(), "at most 4194304");
  map = Map(1);
  map.replacements.clear();
  ExpectRefused(map.Check(), "less than what is left");
  map.replacements.assign(1, 'x');
  ExpectRefused(map.Check(), "does not end in NUL");
}

TEST(CharsMapTest, NoUnitLeadsOutOfTheTrie) {
  Map map(1);
  map.units[0] = Map::OffsetTo(0, 3 * kBlock);
  ExpectRefused(map.Check(), "leads to unit 768 of 768");
  map = Map(1);
  const uint32_t at = Map::UnitOf(1);
  map.units[at] = 'a' | Map::OffsetTo(at, 1u << 20);
  ExpectRefused(map.Check(), "leads to unit 1048576 of 768");
  // The bit that multiplies an offset by 256.
  map.units[at] = 'a' | 1u << 9 | 4u << 10;
  ExpectRefused(map.Check(), "of 768");
  // Where no text leads anything may be.
  map = Map(1);
  map.units[Map::UnitOf(1) + 1] = 0x7FFFFF00;
  EXPECT_EQ(map.Check(), absl::OkStatus());
}

// A text of NUL bytes would follow this one for ever.
TEST(CharsMapTest, NoUnitsLeadInACircle) {
  Map map(2);
  const uint32_t at = Map::UnitOf(2);
  map.units[at] = 'a' | Map::OffsetTo(at, kBlock);
  ExpectRefused(map.Check(), "leads in a circle");
  map = Map(1);
  map.units[kBlock] = 0;
  ExpectRefused(map.Check(), "leads in a circle");
}

TEST(CharsMapTest, PathsHaveFewRules) {
  ExpectRefused(Map(33).Check(), "more than 32 rules");
}

TEST(CharsMapTest, ReplacementsAreInTheFileAndShort) {
  Map map(2);
  map.units[2 * kBlock] = kLeaf | 2;
  ExpectRefused(map.Check(), "has a replacement at byte 2 of 2");
  map.units[2 * kBlock] = kLeaf | 1;
  EXPECT_EQ(map.Check(), absl::OkStatus());
  map.replacements.assign(18, 'x');
  map.replacements.back() = '\0';
  EXPECT_EQ(map.Check(), absl::OkStatus());
  map.replacements.assign(19, 'x');
  map.replacements.back() = '\0';
  ExpectRefused(map.Check(), "replaces 1 bytes by 17, at most 16");
}

}  // namespace
}  // namespace steadystate::sentencepiece_file_test
