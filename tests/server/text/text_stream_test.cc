// Goal: the text that a stream shows does not depend on how its bytes were cut
// into tokens. Method: known texts; and random ones, cut at random, against an
// implementation that sees the whole text at once.
#include "server/text/text_stream.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate::text_stream_test {
namespace {

constexpr char kReplacement[] = "\xEF\xBF\xBD";

// Feeds pieces and returns all that was shown, the flushed end included.
std::string Show(TextStream& stream, const std::vector<std::string>& pieces) {
  std::string shown;
  for (const std::string& piece : pieces) shown += stream.Append(piece);
  return shown + stream.Flush();
}

std::string Decoded(const std::string& bytes) {
  TextStream stream({}, "");
  return Show(stream, {bytes});
}

TEST(TextStreamTest, WholeCharactersOnly) {
  TextStream stream({}, "");
  EXPECT_EQ(stream.Append("a\xE2"), "a");
  EXPECT_EQ(stream.unfinished(), "\xE2");
  EXPECT_EQ(stream.Append("\x82"), "");
  EXPECT_EQ(stream.Append("\xAC"
                          "b"),
            "\xE2\x82\xAC"
            "b");
  EXPECT_EQ(stream.unfinished(), "");
}

TEST(TextStreamTest, AnUnfinishedCharacterIsLeftForTheNextStream) {
  TextStream first({}, "");
  EXPECT_EQ(first.Append("x\xF0\x9F\x98"), "x");
  EXPECT_EQ(first.Flush(), "");
  EXPECT_EQ(first.unfinished(), "\xF0\x9F\x98");
  TextStream second({}, first.unfinished());
  EXPECT_EQ(second.Append("\x80!"), "\xF0\x9F\x98\x80!");
}

// What the Encoding Standard's decoder gives: one U+FFFD for each maximal start
// of a character that is then broken off.
TEST(TextStreamTest, BrokenBytesBecomeReplacementCharacters) {
  const std::string r = kReplacement;
  EXPECT_EQ(Decoded("\x80"
                    "a"),
            r + "a");
  EXPECT_EQ(Decoded("\xC0\xAF"), r + r);
  EXPECT_EQ(Decoded("\xE0\x80\xAF"), r + r + r);
  EXPECT_EQ(Decoded("\xED\xA0\x80"), r + r + r);
  EXPECT_EQ(Decoded("\xF4\x90\x80\x80"), r + r + r + r);
  EXPECT_EQ(Decoded("\xF5"
                    "a"),
            r + "a");
  EXPECT_EQ(Decoded("\xE2\x82"
                    "a"),
            r + "a");
  EXPECT_EQ(Decoded("\xE2\x82\xE2\x82\xAC"), r + "\xE2\x82\xAC");
  EXPECT_EQ(Decoded("\xF0\x9F\x98"
                    "a"),
            r + "a");
  EXPECT_EQ(Decoded("\xFF\xFE"), r + r);
  EXPECT_EQ(Decoded("\xF4\x8F\xBF\xBF"), "\xF4\x8F\xBF\xBF");
  EXPECT_EQ(Decoded("\xED\x9F\xBF"), "\xED\x9F\xBF");
}

TEST(TextStreamTest, AStopStringEndsTheTextBeforeIt) {
  TextStream stream({"END"}, "");
  EXPECT_EQ(stream.Append("some E"), "some ");
  EXPECT_EQ(stream.Append("N"), "");
  EXPECT_FALSE(stream.stopped());
  EXPECT_EQ(stream.Append("D and more"), "");
  EXPECT_TRUE(stream.stopped());
  EXPECT_EQ(stream.Append("nothing"), "");
  EXPECT_EQ(stream.Flush(), "");
}

TEST(TextStreamTest, WhatTurnsOutToBeNoStopStringIsShown) {
  TextStream stream({"END"}, "");
  EXPECT_EQ(stream.Append("EN"), "");
  EXPECT_EQ(stream.Append("EN"), "EN");
  EXPECT_EQ(stream.Flush(), "EN");
  EXPECT_FALSE(stream.stopped());
}

TEST(TextStreamTest, TheEarliestEndingStopStringWins) {
  TextStream stream({"abcdef", "cd"}, "");
  EXPECT_EQ(stream.Append("xabcdef"), "xab");
  EXPECT_TRUE(stream.stopped());
}

TEST(TextStreamTest, OfStopStringsThatEndTogetherTheLongestWins) {
  TextStream stream({"d", "bcd", "cd"}, "");
  EXPECT_EQ(stream.Append("abcde"), "a");
}

TEST(TextStreamTest, AStopStringMayHoldSeveralBytesPerCharacter) {
  TextStream stream({"\xE2\x82\xAC"}, "");
  EXPECT_EQ(stream.Append("5 \xE2\x82"), "5 ");
  EXPECT_EQ(stream.Append("\xAC"), "");
  EXPECT_TRUE(stream.stopped());
}

// The text before the first stop string of `text`, looked for in one go.
std::string BeforeStop(const std::string& text,
                       const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (absl::EndsWith(text.substr(0, end), stop)) {
        longest = std::max(longest, stop.size());
      }
    }
    if (longest > 0) return text.substr(0, end - longest);
  }
  return text;
}

TEST(TextStreamTest, CutsDoNotMatter) {
  constexpr unsigned kSeed = 20261;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  std::mt19937 random(kSeed);
  // Few letters, so that stop strings occur; parts of characters, whole ones.
  const std::vector<std::string> alphabet = {
      "a",        "b",        "a",    "b",
      "\xC3\xA9", "\xE2\x82", "\xAC", "\xF0\x9F\x98\x80",
      "\xED",     "\xA0"};
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (size_t i = random() % 24; i > 0; --i) {
      bytes += alphabet[random() % alphabet.size()];
    }
    std::vector<std::string> stops;
    for (size_t i = random() % 3; i > 0; --i) {
      std::string stop;
      for (size_t j = 1 + random() % 3; j > 0; --j)
        stop += alphabet[random() % 5];
      stops.push_back(stop);
    }
    std::vector<std::string> pieces;
    for (size_t at = 0; at < bytes.size();) {
      const size_t size = 1 + random() % 4;
      pieces.push_back(bytes.substr(at, size));
      at += size;
    }
    TextStream stream(stops, "");
    const std::string shown = Show(stream, pieces);
    const std::string whole = Decoded(bytes);
    EXPECT_EQ(shown, BeforeStop(whole, stops));
    EXPECT_EQ(stream.stopped(), shown.size() < whole.size());
    EXPECT_LE(stream.unfinished().size(), 3u);
  }
}

TEST(TextStreamTest, ACarryIsTheBeginningOfACharacterOrNothing) {
  EXPECT_EQ(TextStream({}, "a").unfinished(), "");
  EXPECT_EQ(TextStream({}, "\xe2\x82").unfinished(), "\xe2\x82");
  EXPECT_EQ(TextStream({}, std::string(100, '\x82')).unfinished(), "");
  EXPECT_EQ(TextStream({}, "\xe2 \xf0\x9f").unfinished(), "\xf0\x9f");
  TextStream stream({}, "a");
  EXPECT_EQ(stream.Append("\x82\x82"), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(stream.unfinished(), "");
}

}  // namespace
}  // namespace steadystate::text_stream_test
