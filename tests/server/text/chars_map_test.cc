// Goal: rules for characters that would lead SentencePiece out of their file
// are refused, those that files have are not. Method: tries of a few rules,
// written unit by unit, each with one thing wrong.
#include "server/text/chars_map.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate {
namespace {

using testing::HasSubstr;

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
}  // namespace steadystate
