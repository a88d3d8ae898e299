// Goal: a checkpoint's files say which tokenizer it has; what is not supported
// is passed over with a warning, what is damaged is an error. Method:
// directories with the files of tests/data/tokenizers.
#include "server/text/tokenizer_factory.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::tokenizer_factory_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr size_t kVocabSize = 2000;

std::string Data(absl::string_view name) {
  return ReadWholeFile(
      absl::StrCat(STEADYSTATE_SOURCE_DIR, "/tests/data/tokenizers/", name));
}

std::string KindOf(const absl::StatusOr<TokenizerChoice>& choice) {
  if (!choice.ok()) return choice.status().ToString();
  if (choice->tokenizer == nullptr) return "none";
  return std::string(choice->tokenizer->kind());
}

TEST(TokenizerFactoryTest, FilesAreTriedInOrder) {
  const TempDirectory directory;
  directory.Write("tokenizer_config.json", "{}");
  EXPECT_EQ(KindOf(MakeTokenizer(directory.path(), false, kVocabSize)), "none");
  directory.Write("rwkv_vocab_v1.txt", Data("rwkv/rwkv_vocab_small.txt"));
  EXPECT_EQ(KindOf(MakeTokenizer(directory.path(), false, kVocabSize)), "rwkv");
  directory.Write("tokenizer.model", Data("sentencepiece_bpe/tokenizer.model"));
  EXPECT_EQ(KindOf(MakeTokenizer(directory.path(), false, kVocabSize)),
            "sentencepiece");
  directory.Write("tokenizer.json", Data("neox/tokenizer.json"));
  EXPECT_EQ(KindOf(MakeTokenizer(directory.path(), false, kVocabSize)),
            "byte_level_bpe");
  EXPECT_EQ(KindOf(MakeTokenizer(directory.path(), true, kVocabSize)), "bytes");
}

TEST(TokenizerFactoryTest, WhatWasNotFetchedIsSaid) {
  const TempDirectory directory;
  directory.Write("tokenizer.json",
                  "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  EXPECT_THAT(KindOf(MakeTokenizer(directory.path(), false, kVocabSize)),
              HasSubstr("`git lfs pull`"));
}

TEST(TokenizerFactoryTest, ALinkToNothingIsSaid) {
  const TempDirectory directory;
  std::filesystem::create_symlink("blob", directory.path() + "/tokenizer.json");
  const auto choice = MakeTokenizer(directory.path(), false, kVocabSize);
  EXPECT_EQ(choice.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(choice.status().message()),
              AllOf(HasSubstr("tokenizer.json"), HasSubstr("`hf download`")));
}

TEST(TokenizerFactoryTest, FilesOfOtherFormsAreSaid) {
  for (const char* name :
       {"vocab.json", "tiktoken.model", "tekken.json", "qwen.tiktoken"}) {
    const TempDirectory directory;
    directory.Write("merges.txt", "a b\n");
    directory.Write(name, "{}");
    const auto choice = MakeTokenizer(directory.path(), false, kVocabSize);
    EXPECT_EQ(KindOf(choice), "none");
    EXPECT_THAT(choice->warnings,
                ElementsAre(AllOf(HasSubstr(name),
                                  HasSubstr("a tokenizer.json is needed"),
                                  HasSubstr("save_pretrained"))));
    directory.Write("rwkv_vocab_v1.txt", Data("rwkv/rwkv_vocab_small.txt"));
    EXPECT_THAT(MakeTokenizer(directory.path(), false, kVocabSize)->warnings,
                IsEmpty());
  }
}

TEST(TokenizerFactoryTest, ATiktokenFileIsNotTakenForSentencePieces) {
  const TempDirectory directory;
  directory.Write("tokenizer.model", "IQ== 0\nIg== 1\n");
  const auto choice = MakeTokenizer(directory.path(), false, kVocabSize);
  EXPECT_EQ(KindOf(choice), "none");
  EXPECT_THAT(
      choice->warnings,
      ElementsAre(AllOf(HasSubstr("tokenizer.model"), HasSubstr("tiktoken"),
                        HasSubstr("a tokenizer.json is needed"))));
}

TEST(TokenizerFactoryTest, UnsupportedKindsArePassedOver) {
  const TempDirectory directory;
  directory.Write("tokenizer.json", R"({"model": {"type": "Unigram"}})");
  auto choice = MakeTokenizer(directory.path(), false, kVocabSize);
  EXPECT_EQ(KindOf(choice), "none");
  ASSERT_EQ(choice->warnings.size(), 1u);
  EXPECT_THAT(choice->warnings[0], HasSubstr("tokenizer.json"));
  EXPECT_THAT(choice->warnings[0], HasSubstr("'Unigram' is not supported"));
  directory.Write("tokenizer.model", Data("sentencepiece_bpe/tokenizer.model"));
  EXPECT_EQ(KindOf(MakeTokenizer(directory.path(), false, kVocabSize)),
            "sentencepiece");
}

// Of each kind, whose files end before the model's ids do.
TEST(TokenizerFactoryTest, IdsWithoutATokenAreTold) {
  const struct {
    const char* folder;
    const char* file;
    std::vector<int32_t> tokens;
    std::vector<int32_t> others;
  } kCases[] = {
      {"qwen2", "tokenizer.json", {0, 999, 1004}, {1005, 1999}},
      {"sentencepiece_bpe", "tokenizer.model", {0, 1099}, {1100, 1999}},
      // No line of the file has 0, which ends a text.
      {"rwkv", "rwkv_vocab_small.txt", {0, 1, 256}, {1999}},
  };
  for (const auto& test : kCases) {
    const TempDirectory directory;
    directory.Write(test.file, Data(absl::StrCat(test.folder, "/", test.file)));
    const auto choice = MakeTokenizer(directory.path(), false, kVocabSize);
    ASSERT_TRUE(choice.ok()) << choice.status();
    ASSERT_NE(choice->tokenizer, nullptr) << test.file;
    for (const int32_t id : test.tokens) {
      EXPECT_TRUE(choice->tokenizer->HasToken(id)) << test.file << " " << id;
    }
    for (const int32_t id : test.others) {
      EXPECT_FALSE(choice->tokenizer->HasToken(id)) << test.file << " " << id;
    }
  }
  // Nobody says what those above the bytes are for.
  EXPECT_TRUE((*MakeByteTokenizer(kVocabSize))->HasToken(1999));
}

TEST(TokenizerFactoryTest, DamagedFilesAreErrors) {
  for (const char* name :
       {"tokenizer.json", "tokenizer.model", "rwkv_vocab_v1.txt"}) {
    const TempDirectory directory;
    directory.Write(name, "{ damaged");
    const auto choice = MakeTokenizer(directory.path(), false, kVocabSize);
    EXPECT_EQ(choice.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(choice.status().message()), HasSubstr(name));
  }
}

TEST(TokenizerFactoryTest, TokensBeyondTheModelAreErrors) {
  for (const auto& [folder, name] :
       {std::pair("neox", "tokenizer.json"),
        std::pair("sentencepiece_bpe", "tokenizer.model"),
        std::pair("rwkv", "rwkv_vocab_small.txt")}) {
    const TempDirectory directory;
    directory.Write(name, Data(absl::StrCat(folder, "/", name)));
    EXPECT_THAT(KindOf(MakeTokenizer(directory.path(), false, 900)),
                HasSubstr("900"));
  }
  EXPECT_EQ(MakeTokenizer(".", true, 255).status().code(),
            absl::StatusCode::kInvalidArgument);
}

class LongTextTest : public testing::TestWithParam<const char*> {};

// A tokenizer whose time grows with the square of a word's length would need
// minutes for these.
TEST_P(LongTextTest, LongWordsAreNoProblem) {
  const std::string folder = absl::StrCat(
      STEADYSTATE_SOURCE_DIR, "/tests/data/tokenizers/", GetParam());
  const auto choice = MakeTokenizer(folder, false, kVocabSize);
  ASSERT_TRUE(choice.ok()) << choice.status();
  constexpr size_t kBytes = 100'000;
  for (const char* part :
       {"a", "ab", " ", "\n", " \n", "7", "'", "\xE4\xB8\xAD", "\xE2\x96\x81x",
        "\xCC\x81\xCC\xA3", "e\xCC\x81"}) {
    std::string text;
    while (text.size() < kBytes) text += part;
    const Tokenizer& tokenizer = *choice->tokenizer;
    const std::vector<int32_t> tokens = tokenizer.Encode(text).value();
    const std::string back = tokenizer.Decode(tokens);
    EXPECT_EQ(tokenizer.Encode(back).value(), tokens)
        << "of \"" << part << "\"";
  }
}

INSTANTIATE_TEST_SUITE_P(All, LongTextTest,
                         testing::Values("neox", "llama3", "llama", "rwkv"),
                         [](const auto& test) {
                           return std::string(test.param);
                         });

// Goal: bytes become tokens and tokens the same bytes.

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
}  // namespace steadystate::tokenizer_factory_test
