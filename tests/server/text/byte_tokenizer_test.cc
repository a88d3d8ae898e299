// Goal: bytes become tokens and tokens the same bytes.
#include "server/text/byte_tokenizer.h"

#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate {
namespace {

using testing::ElementsAre;

TEST(ByteTokenizerTest, EveryByteComesBack) {
  const auto tokenizer = MakeByteTokenizer(256);
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_EQ((*tokenizer)->kind(), "bytes");
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  std::string back;
  const std::vector<int32_t> encoded = (*tokenizer)->Encode(all).value();
  for (const int32_t token : encoded) {
    (*tokenizer)->AppendBytes(token, back);
  }
  EXPECT_EQ(back, all);
}

TEST(ByteTokenizerTest, TokensAreByteValues) {
  const auto tokenizer = MakeByteTokenizer(300);
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_THAT((*tokenizer)->Encode("a\xC3\xA9").value(),
              ElementsAre(97, 0xC3, 0xA9));
  EXPECT_THAT((*tokenizer)->Encode("").value(), ElementsAre());
}

TEST(ByteTokenizerTest, TokensBeyondTheBytesStandForNothing) {
  const auto tokenizer = MakeByteTokenizer(300);
  ASSERT_TRUE(tokenizer.ok());
  std::string text = "x";
  (*tokenizer)->AppendBytes(256, text);
  (*tokenizer)->AppendBytes(299, text);
  EXPECT_EQ(text, "x");
}

TEST(ByteTokenizerTest, ASmallerVocabularyIsRefused) {
  EXPECT_EQ(MakeByteTokenizer(255).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace steadystate
