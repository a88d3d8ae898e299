// Goal: RWKV's vocabulary is read as Python would, and a damaged one is
// refused. Method: small files; reference_test.cc has the library's own.
#include "server/text/rwkv_tokenizer.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate::rwkv_tokenizer_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// All bytes as tokens 1 to 256, then `more`.
std::string Vocabulary(absl::string_view more) {
  std::string text;
  for (int byte = 0; byte < 256; ++byte) {
    absl::StrAppendFormat(&text, "%d b'\\x%02x' 1\n", byte + 1, byte);
  }
  return absl::StrCat(text, more);
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Make(absl::string_view more) {
  return MakeRwkvTokenizer(Vocabulary(more), "v.txt", 300);
}

TEST(PythonLiteralTest, WhatReprWrites) {
  const struct {
    const char* literal;
    std::string bytes;
  } kCases[] = {
      {"'a'", "a"},
      {"\"it's\"", "it's"},
      {"'\\'\\\"\\\\'", "'\"\\"},
      {"'\\n\\r\\t'", "\n\r\t"},
      {"'\\x85'", "\xC2\x85"},
      {"b'\\x85'", "\x85"},
      {"'\\u3042\\U0001f600'", "\xE3\x81\x82\xF0\x9F\x98\x80"},
      {"'\xE3\x81\x82'", "\xE3\x81\x82"},
      {"' '", " "},
      {"''", ""},
      {"'\\x00'", std::string(1, '\0')},
  };
  for (const auto& test : kCases) {
    const auto bytes = ParsePythonLiteral(test.literal);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_EQ(*bytes, test.bytes) << test.literal;
  }
}

TEST(PythonLiteralTest, NothingElse) {
  for (const char* literal : {"",
                              "'",
                              "b",
                              "b'",
                              "a",
                              "'a\"",
                              "'a'b'",
                              "'\\'",
                              "'\\q'",
                              "'\\x4'",
                              "'\\xg0'",
                              "'\\x+1'",
                              "'\\ud800'",
                              "'\\U00110000'",
                              "'\\101'",
                              "b'\\u0041'",
                              "b'\xC3\xA9'",
                              "f'a'",
                              "'a' + 'b'",
                              "'a'*9"}) {
    EXPECT_EQ(ParsePythonLiteral(literal).status().code(),
              absl::StatusCode::kInvalidArgument)
        << literal;
  }
}

TEST(RwkvTokenizerTest, LongestFirst) {
  const auto tokenizer = Make("257 'ab' 2\n258 'abcd' 4\n259 '  ' 2\r\n\n");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT((*tokenizer)->Encode("abcabcd   ").value(),
              ElementsAre(257, 'c' + 1, 258, 259, ' ' + 1));
  const std::vector<int32_t> tokens = {258, 0, 299, 257};
  EXPECT_EQ((*tokenizer)->Decode(tokens), "abcdab");
}

TEST(RwkvTokenizerTest, AnyBytesComeBack) {
  const auto tokenizer = Make("257 b'\\xff\\xfe' 2\n");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const std::string bytes("\xFF\xFE\xFF\0\xC3", 5);
  const std::vector<int32_t> tokens = (*tokenizer)->Encode(bytes).value();
  EXPECT_EQ(tokens.size(), 4u);
  EXPECT_EQ((*tokenizer)->Decode(tokens), bytes);
}

TEST(RwkvTokenizerTest, DamagedLinesAreNamed) {
  const struct {
    const char* line;
    const char* reason;
  } kCases[] = {
      {"257", "not an id"},
      {"257 'ab'", "not an id"},
      {"x 'ab' 2", "not an id"},
      {"257 'ab' two", "not an id"},
      {"257 ab 2", "no literal"},
      {"257 'ab' 3", "2 bytes that is said to have 3"},
      {"257 '' 0", "0 bytes"},
      {"300 'ab' 2", "the id 300"},
      {"-1 'ab' 2", "not an id"},
      {"256 'ab' 2", "the id 256"},
  };
  for (const auto& test : kCases) {
    const auto made = Make(test.line);
    EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(made.status().message()), HasSubstr(test.reason));
    EXPECT_THAT(std::string(made.status().message()),
                HasSubstr("v.txt, line 257"));
  }
}

TEST(RwkvTokenizerTest, EveryByteMustBeAToken) {
  const auto made = MakeRwkvTokenizer("1 'a' 1\n", "v.txt", 10);
  EXPECT_THAT(std::string(made.status().message()),
              HasSubstr("the byte 0 is no token"));
}

}  // namespace
}  // namespace steadystate::rwkv_tokenizer_test
