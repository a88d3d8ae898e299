// Goal: patterns written for Oniguruma match the same in PCRE2, and what cannot
// is refused. Method: the constructs in which the two differ.
#include "server/text/regex.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate::regex_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The matches of `pattern` in `text`.
std::vector<std::string> Matches(absl::string_view pattern,
                                 absl::string_view text) {
  const auto regex = Regex::Compile(pattern);
  EXPECT_TRUE(regex.ok()) << regex.status();
  std::vector<std::string> matches;
  if (!regex.ok()) return matches;
  const std::vector<Stretch> stretches = regex->Cut(text).value();
  for (const Stretch& stretch : stretches) {
    if (stretch.matched) matches.emplace_back(stretch.text);
  }
  return matches;
}

TEST(RegexTest, WhatIsBetweenMatchesIsKept) {
  const auto regex = Regex::Compile("[0-9]+");
  ASSERT_TRUE(regex.ok());
  const std::string text = "a12b3";
  std::string cut;
  const std::vector<Stretch> stretches = regex->Cut(text).value();
  for (const Stretch& stretch : stretches) {
    absl::StrAppend(&cut, stretch.matched ? "<" : "(", stretch.text);
  }
  EXPECT_EQ(cut, "(a<12(b<3");
  EXPECT_TRUE(regex->Cut("")->empty());
}

// U+180E was white space in Unicode until 2013, and is to PCRE2.
TEST(RegexTest, WhiteSpaceIsUnicodes) {
  EXPECT_THAT(Matches("\\s+", "a\xC2\xA0\xE3\x80\x80 b\xE1\xA0\x8E"),
              ElementsAre("\xC2\xA0\xE3\x80\x80 "));
  EXPECT_THAT(Matches("[^\\s]+", "a b\xE1\xA0\x8E"),
              ElementsAre("a", "b\xE1\xA0\x8E"));
  EXPECT_THAT(Matches("\\S", " \xE1\xA0\x8E"), ElementsAre("\xE1\xA0\x8E"));
}

TEST(RegexTest, ScriptsAreNotWidened) {
  // U+30FC is of no one script, though Hiragana and Katakana have it in common.
  EXPECT_THAT(Matches("\\p{Hiragana}+", "\xE3\x81\x82\xE3\x83\xBC"),
              ElementsAre("\xE3\x81\x82"));
  EXPECT_THAT(Matches("\\p{^L}+", "ab12"), ElementsAre("12"));
}

TEST(RegexTest, CategoriesHaveLongNames) {
  EXPECT_THAT(Matches("\\p{Letter}+", "ab1"), ElementsAre("ab"));
  EXPECT_THAT(Matches("\\p{Uppercase_Letter}", "aB"), ElementsAre("B"));
  EXPECT_THAT(Matches("\\p{lowercase letter}", "aB"), ElementsAre("a"));
  EXPECT_THAT(Matches("\\p{Cased_Letter}+", "aB1"), ElementsAre("aB"));
  // Oniguruma's has no symbols, though POSIX' and PCRE2's have.
  EXPECT_THAT(Matches("\\p{Punct}", "$!+"), ElementsAre("!"));
  EXPECT_THAT(Matches("[^\\p{^Number}x]+", "12x3"), ElementsAre("12", "3"));
  EXPECT_THAT(Matches("\\P{Any}|\\p{Any}+", "a\n"), ElementsAre("a\n"));
}

TEST(RegexTest, OfAPropertyThatIsNotSupportedThePatternOfTheFileIsQuoted) {
  for (const char* pattern :
       {"\\p{Alpha}\\s", "[\\p{Alnum}]", "\\p{Nosuch}", "\\p{White_Space}"}) {
    const absl::Status status = Regex::Compile(pattern).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << pattern;
    EXPECT_THAT(std::string(status.message()), HasSubstr(pattern));
  }
  EXPECT_THAT(std::string(Regex::Compile("\\s(").status().message()),
              HasSubstr("the pattern \"\\s(\" is wrong"));
}

TEST(RegexTest, AnchorsAreThoseOfLines) {
  EXPECT_THAT(Matches("^.", "ab\ncd"), ElementsAre("a", "c"));
}

// But for those behind another match.
TEST(RegexTest, MatchesOfNothingAreEmpty) {
  EXPECT_THAT(Matches("x*", "ax\xC3\xA9xx"), ElementsAre("", "x", "xx"));
  EXPECT_THAT(Matches("x*", "ab"), ElementsAre("", "", ""));
  EXPECT_THAT(Matches("(?=(\\d{3})+(?!\\d))", "1234567"), ElementsAre("", ""));
  EXPECT_THAT(Matches("\\d+|$", "12a3"), ElementsAre("12", "3"));
  EXPECT_THAT(Matches("$", "a\nb"), ElementsAre("", ""));
  EXPECT_THAT(Matches("x*", ""), ElementsAre());
  EXPECT_EQ(Regex::Compile("x*")->least_match(), 0u);
  EXPECT_EQ(Regex::Compile("(?=x)")->least_match(), 0u);
  EXPECT_EQ(Regex::Compile("xy|z")->least_match(), 1u);
}

// To Perl the plus would forbid to go back: "aaa", then nothing before the a.
TEST(RegexTest, PlusAfterAnIntervalRepeatsIt) {
  EXPECT_THAT(Matches("\\p{N}{1,3}+", "12345 6"), ElementsAre("12345", "6"));
  EXPECT_THAT(Matches("a{1,3}+a", "aaa"), ElementsAre("aaa"));
  EXPECT_THAT(Matches("b(?:a(?>c)){2}+", "bacacacac"),
              ElementsAre("bacacacac"));
  EXPECT_THAT(Matches("b[ac{]{2}+", "baccab"), ElementsAre("bacca"));
  EXPECT_THAT(Matches("b\\x{61}{2}+", "baaaaa"), ElementsAre("baaaa"));
  EXPECT_THAT(Matches("b\xC3\xA9{2,}+", "b\xC3\xA9\xC3\xA9\xC3\xA9"),
              ElementsAre("b\xC3\xA9\xC3\xA9\xC3\xA9"));
  EXPECT_THAT(Matches("b{+", "b{{"), ElementsAre("b{{"));
}

TEST(RegexTest, WhatDiffersIsUnimplemented) {
  for (const char* pattern :
       {"\\w", "a\\b", "\\h", "\\R", "\\X", "\\K", "\\Aa", "(a)\\1", "(?m:a)",
        "(?<n>a)", "[a&&b]", "[[:alpha:]]", "a{1,2}++", "a{,2}", "(*FAIL)",
        "\\pL", "(?<=a*)b"}) {
    EXPECT_EQ(Regex::Compile(pattern).status().code(),
              absl::StatusCode::kUnimplemented)
        << pattern;
  }
  for (const char* pattern : {"(", "a)", "[a", "\\", "*"}) {
    EXPECT_EQ(Regex::Compile(pattern).status().code(),
              absl::StatusCode::kInvalidArgument)
        << pattern;
  }
}

TEST(RegexTest, LiteralsAreNoPatterns) {
  const auto regex = Regex::OfLiteral("a.\\s");
  ASSERT_TRUE(regex.ok());
  EXPECT_EQ(regex->Cut("a.\\s")->size(), 1u);
  EXPECT_FALSE(regex->Cut("abcs")->at(0).matched);
}

// This pattern takes time exponential in the length of the text.
TEST(RegexTest, SearchesThatTakeTooLongAreErrors) {
  const auto regex = Regex::Compile("b|(?:a+)+c");
  ASSERT_TRUE(regex.ok());
  const auto stretches = regex->Cut("b" + std::string(40, 'a'));
  EXPECT_EQ(stretches.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(stretches.status().message()),
              HasSubstr("20000000 steps"));
  EXPECT_EQ(regex->Cut("baaac")->size(), 2u);
}

TEST(RegexTest, SearchesTakeFromTheThreadsBudget) {
  const auto regex = Regex::Compile("b|(?:a+)+c");
  ASSERT_TRUE(regex.ok());
  const std::string text = "b" + std::string(12, 'a');
  EXPECT_TRUE(regex->Cut(text).ok());
  {
    const SearchBudget budget(200'000);
    EXPECT_TRUE(regex->Cut(text).ok());
    absl::Status spent;
    for (int i = 0; i < 20 && spent.ok(); ++i)
      spent = regex->Cut(text).status();
    EXPECT_EQ(spent.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(spent.message()), HasSubstr("200000 steps"));
    EXPECT_TRUE(Regex::OfLiteral("a")->Cut(text).ok());
  }
  EXPECT_TRUE(regex->Cut(text).ok());
}

}  // namespace
}  // namespace steadystate::regex_test
