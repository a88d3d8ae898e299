// Goal: strings do as Python's, and know who has written them. Method: cases.
#include "client/jinja/text.h"

#include "gtest/gtest.h"

namespace steadystate::jinja::text_test {
namespace {

TEST(TextTest, StripsWhatUnicodeHasForBlanks) {
  const Text text(" \t\xc2\xa0\xe3\x80\x80 a b\x1c\xe2\x80\xa8\n");
  EXPECT_EQ(Strip(text, Side::kBoth).bytes, "a b");
  EXPECT_EQ(Strip(text, Side::kRight).bytes, " \t\xc2\xa0\xe3\x80\x80 a b");
  EXPECT_EQ(Strip(text, Side::kLeft).bytes, "a b\x1c\xe2\x80\xa8\n");
  EXPECT_EQ(Strip(Text(" \n"), Side::kBoth).bytes, "");
  EXPECT_EQ(Strip(Text("xyaxb"), Side::kLeft, "yx").bytes, "axb");
  // A part of a character is none.
  EXPECT_EQ(Strip(Text("\xc3\xbc"), Side::kRight, "\xc3\xa4").bytes,
            "\xc3\xbc");
}

TEST(TextTest, PartsKnowTheirAuthors) {
  Text text("a");
  text.Append(Text("-b-", 1));
  text.Append(Text("c"));
  EXPECT_EQ(text.authors, std::string({0, 1, 1, 1, 0}));
  const auto parts = Split(text, "-");
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[1].bytes, "b");
  EXPECT_EQ(parts[1].authors, std::string(1, 1));
  const Text replaced = Replace(text, "-", Text("++"));
  EXPECT_EQ(replaced.bytes, "a++b++c");
  EXPECT_EQ(replaced.authors, std::string({0, 0, 0, 1, 0, 0, 0}));
  EXPECT_EQ(Strip(Text(" x ", 2), Side::kBoth).authors, std::string(1, 2));
}

TEST(TextTest, CharactersAreWhole) {
  const auto characters = Characters(Text("a\xc3\xbc\xe3\x80\x80", 1));
  ASSERT_EQ(characters.size(), 3u);
  EXPECT_EQ(characters[1].bytes, "\xc3\xbc");
  EXPECT_EQ(characters[2].authors.size(), 3u);
}

}  // namespace
}  // namespace steadystate::jinja::text_test
