// Goal: text is cut to words as the reference library cuts it. Method: patterns
// that match nothing at some places, with all behaviours; words by the library
// tokenizers 0.23.3.
#include "server/text/pre_tokenizer.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace steadystate::pre_tokenizer_test {
namespace {

using nlohmann::json;
using testing::ElementsAreArray;

std::vector<std::string> SplitWords(const json& behavior, bool invert,
                                    const json& pattern,
                                    const std::string& text) {
  const auto made = PreTokenizer::FromJson({{"type", "Split"},
                                            {"behavior", behavior},
                                            {"invert", invert},
                                            {"pattern", {{"Regex", pattern}}}});
  EXPECT_TRUE(made.ok()) << made.status();
  return made->Words(text, true).value();
}

TEST(PreTokenizerTest, SplitsCutWhereTheirPatternMatchesNothing) {
  const struct {
    const char* behavior;
    bool invert;
    std::vector<std::string> runs;   // "x*" in "ax\u00e9bxx"
    std::vector<std::string> start;  // "^|b" in "abc"
    std::vector<std::string> end;    // "\d+|$" in "12a3"
  } kCases[] = {
      {"Removed", false, {"a", "\u00e9", "b"}, {"a", "c"}, {"a"}},
      {"Removed", true, {"x", "xx"}, {"b"}, {"12", "3"}},
      {"Isolated",
       false,
       {"a", "x", "\u00e9", "b", "xx"},
       {"a", "b", "c"},
       {"12", "a", "3"}},
      {"Isolated",
       true,
       {"a", "x", "\u00e9", "b", "xx"},
       {"a", "b", "c"},
       {"12", "a", "3"}},
      {"MergedWithPrevious",
       false,
       {"ax", "\u00e9", "bxx"},
       {"ab", "c"},
       {"12", "a3"}},
      {"MergedWithPrevious",
       true,
       {"a", "x\u00e9", "b", "xx"},
       {"a", "bc"},
       {"12a", "3"}},
      {"MergedWithNext",
       false,
       {"a", "x\u00e9", "b", "xx"},
       {"a", "bc"},
       {"12a", "3"}},
      {"MergedWithNext",
       true,
       {"ax", "\u00e9", "bxx"},
       {"ab", "c"},
       {"12", "a3"}},
      {"Contiguous",
       false,
       {"a", "x", "\u00e9", "b", "xx"},
       {"a", "b", "c"},
       {"12", "a", "3"}},
      {"Contiguous",
       true,
       {"a", "x", "\u00e9", "b", "xx"},
       {"a", "b", "c"},
       {"12", "a", "3"}},
  };
  for (const auto& test : kCases) {
    SCOPED_TRACE(test.behavior);
    EXPECT_THAT(SplitWords(test.behavior, test.invert, "x*", "ax\u00e9bxx"),
                ElementsAreArray(test.runs));
    EXPECT_THAT(SplitWords(test.behavior, test.invert, "^|b", "abc"),
                ElementsAreArray(test.start));
    EXPECT_THAT(SplitWords(test.behavior, test.invert, "\\d+|$", "12a3"),
                ElementsAreArray(test.end));
  }
}

// In threes from the right, as some models have them.
TEST(PreTokenizerTest, DigitsAreGroupedByALookAhead) {
  const char* const pattern = "(?=(\\d{3})+(?!\\d))";
  const std::vector<std::string> words = {"1", "234", "567 x"};
  for (const char* behavior : {"Removed", "Isolated", "MergedWithPrevious",
                               "MergedWithNext", "Contiguous"}) {
    EXPECT_THAT(SplitWords(behavior, false, pattern, "1234567 x"),
                ElementsAreArray(words));
  }
}

}  // namespace
}  // namespace steadystate::pre_tokenizer_test
