// Goal: only UTF-8 and token ids get through, and inputs are cut without loss.
// Method: edge cases by hand, and cuts of every length put together again.
#include "client/cli/input.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::client::input_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

TEST(CheckUtf8Test, AcceptsTheFirstAndLastCharacterOfEachLength) {
  for (const char* text : {"", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80",
                           "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbf",
                           "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(CheckUtf8(text).ok()) << text;
  }
  EXPECT_TRUE(CheckUtf8(absl::string_view("a\0b", 3)).ok());
}

TEST(CheckUtf8Test, RefusesWhatIsNoCharacterAndTellsWhere) {
  for (const char* text :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80",
        "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff",
        "\xc3", "\xc3(", "\xe2\x82", "\xf0\x9f\x98"}) {
    EXPECT_FALSE(CheckUtf8(text).ok()) << text;
  }
  EXPECT_THAT(Message(CheckUtf8("ab\xc3\xa9\xff")), HasSubstr("offset 4"));
}

TEST(ParseTokenIdsTest, ReadsAnArrayOfWholeNumbers) {
  EXPECT_THAT(*ParseTokenIds(" [0, 72,\n2147483647]\n"),
              ElementsAre(0, 72, 2147483647));
  EXPECT_THAT(*ParseTokenIds("[]"), IsEmpty());
}

TEST(ParseTokenIdsTest, NamesTheElementThatIsNoTokenId) {
  for (const char* json :
       {"[1, -1]", "[1, 2147483648]", "[1, 1.5]", "[1, \"2\"]", "[1, null]",
        "[1, [2]]", "[1, 99999999999999999999999]"}) {
    EXPECT_THAT(Message(ParseTokenIds(json).status()),
                HasSubstr("element 1 of the token ids"))
        << json;
  }
}

TEST(ParseTokenIdsTest, RefusesWhatIsNoArray) {
  for (const char* json : {"", "[1, 2", "{\"ids\": [1]}", "7", "1 2 3"}) {
    EXPECT_THAT(Message(ParseTokenIds(json).status()),
                HasSubstr("must be a JSON array"))
        << json;
  }
}

TEST(CutTest, TextIsCutBetweenCharacters) {
  // Characters of 1, 2, 3 and 4 bytes.
  std::string text;
  for (int i = 0; i < 20; ++i) text += "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
  for (size_t length = 4; length <= text.size() + 1; ++length) {
    std::string joined;
    for (const Input& piece : Cut(text, length)) {
      const auto& part = std::get<std::string>(piece);
      EXPECT_TRUE(CheckUtf8(part).ok());
      EXPECT_LE(part.size(), length);
      EXPECT_GT(part.size(), 0u);
      joined += part;
    }
    EXPECT_EQ(joined, text);
  }
}

TEST(CutTest, TokenIdsAreCutAtTheLength) {
  const std::vector<int32_t> ids = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const std::vector<Input> pieces = Cut(ids, 4);
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_THAT(std::get<std::vector<int32_t>>(pieces[0]),
              ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(std::get<std::vector<int32_t>>(pieces[2]), ElementsAre(9));
}

TEST(CutTest, NothingHasNoPieces) {
  EXPECT_THAT(Cut(std::string(), 4), IsEmpty());
  EXPECT_THAT(Cut(std::vector<int32_t>(), 4), IsEmpty());
}

TEST(ReadFileTest, ReadsAllBytes) {
  const TempDirectory directory;
  std::string content(100000, 'x');
  content[5] = '\0';
  EXPECT_EQ(*ReadFile(directory.Write("bytes", content)), content);
}

TEST(ReadFileTest, NamesWhatCannotBeRead) {
  EXPECT_THAT(Message(ReadFile("/no/such/file").status()),
              HasSubstr("/no/such/file"));
  EXPECT_FALSE(ReadFile("/").ok());
}

TEST(InputOptionsTest, TheOnlyArgumentIsTheText) {
  InputOptions options("prompt");
  ASSERT_TRUE(options.TakeArguments({"The "}).ok());
  EXPECT_EQ(std::get<std::string>(**options.Read()), "The ");
  EXPECT_EQ(
      Message(options.TakeArguments({"The", "house"})),
      "unexpected 'house': the prompt is one argument, in quotes, such as "
      "'The house'");
}

TEST(InputOptionsTest, TheArgumentAndAnOptionAreOneTooMany) {
  InputOptions options("prompt");
  OptionTable table;
  options.AppendTo(table);
  ASSERT_TRUE(ParseOptions(table, {"--prompt", "a"}).ok());
  ASSERT_TRUE(options.TakeArguments({"b"}).ok());
  EXPECT_THAT(Message(options.Read().status()), HasSubstr("only one of TEXT"));
}

}  // namespace
}  // namespace steadystate::client::input_test
