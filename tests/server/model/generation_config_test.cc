// Goal: a generation ends where generation_config.json says, too. Method: files
// with each form of its keys beside a model that has tokens already.
#include "server/model/generation_config.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::generation_config_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class GenerationConfigTest : public testing::Test {
 protected:
  GenerationConfigTest() { model_.vocab_size = 100; }

  absl::Status Add(const std::string& text) {
    std::ofstream(directory_.path() + "/generation_config.json") << text;
    return AddGeneratedTokens(directory_.path(), model_);
  }

  TempDirectory directory_;
  ModelConfig model_;
};

TEST_F(GenerationConfigTest, WithoutAFileNothingChanges) {
  model_.eos_tokens = {7};
  EXPECT_TRUE(AddGeneratedTokens(directory_.path(), model_).ok());
  EXPECT_THAT(model_.eos_tokens, ElementsAre(7));
  EXPECT_THAT(model_.bos_tokens, IsEmpty());
}

TEST_F(GenerationConfigTest, EveryTokenThatEndsIsAddedOnce) {
  model_.eos_tokens = {44};
  EXPECT_TRUE(Add(R"({"eos_token_id": [46, 44], "temperature": 0.6})").ok());
  EXPECT_THAT(model_.eos_tokens, ElementsAre(44, 46));
  EXPECT_TRUE(Add(R"({"eos_token_id": 3})").ok());
  EXPECT_THAT(model_.eos_tokens, ElementsAre(44, 46, 3));
}

TEST_F(GenerationConfigTest, TheFirstTokenIsTakenWhereTheModelHasNone) {
  EXPECT_TRUE(Add(R"({"bos_token_id": 5})").ok());
  EXPECT_THAT(model_.bos_tokens, ElementsAre(5));
  EXPECT_TRUE(Add(R"({"bos_token_id": 6})").ok());
  EXPECT_THAT(model_.bos_tokens, ElementsAre(5));
}

// Where config.json says nothing the family's default stands in for it, and for
// nobody else.
TEST_F(GenerationConfigTest, ADefaultCountsWhereNeitherFileSaysAnything) {
  model_.bos_tokens = {1};
  model_.eos_tokens = {2};
  model_.bos_by_default = true;
  model_.eos_by_default = true;
  EXPECT_TRUE(Add(R"({"temperature": 0.6, "eos_token_id": null})").ok());
  EXPECT_THAT(model_.bos_tokens, ElementsAre(1));
  EXPECT_THAT(model_.eos_tokens, ElementsAre(2));
  EXPECT_TRUE(Add(R"({"bos_token_id": 3, "eos_token_id": [7, 8]})").ok());
  EXPECT_THAT(model_.bos_tokens, ElementsAre(3));
  EXPECT_THAT(model_.eos_tokens, ElementsAre(7, 8));
}

TEST_F(GenerationConfigTest, WhatIsNoTokenIsLeftOut) {
  EXPECT_TRUE(
      Add(R"({"eos_token_id": [100, 99], "bos_token_id": 4000000})").ok());
  EXPECT_THAT(model_.eos_tokens, ElementsAre(99));
  EXPECT_THAT(model_.bos_tokens, IsEmpty());
  EXPECT_THAT(model_.warnings,
              ElementsAre("eos_token_id 100 is left out: there are 100 tokens "
                          "(vocab_size)",
                          HasSubstr("bos_token_id 4000000")));
}

TEST_F(GenerationConfigTest, MinusOneIsNone) {
  model_.eos_tokens = {7};
  EXPECT_TRUE(Add(R"({"eos_token_id": [-1, 8], "bos_token_id": -1})").ok());
  EXPECT_THAT(model_.eos_tokens, ElementsAre(7, 8));
  EXPECT_THAT(model_.bos_tokens, IsEmpty());
  EXPECT_THAT(model_.warnings, ElementsAre("eos_token_id -1 is taken as null",
                                           "bos_token_id -1 is taken as null"));
}

TEST_F(GenerationConfigTest, WhatIsMalformedIsNamed) {
  model_.eos_tokens = {7};
  for (const char* text :
       {"[]", "{", R"({"eos_token_id": -100})", R"({"eos_token_id": "x"})",
        R"({"bos_token_id": -2})"}) {
    const absl::Status status = Add(text);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(status.message(), HasSubstr("generation_config.json"));
  }
  EXPECT_THAT(model_.eos_tokens, ElementsAre(7));
}

TEST_F(GenerationConfigTest, WhatWasNotFetchedIsRefused) {
  const absl::Status pointer =
      Add("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
  EXPECT_EQ(pointer.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(pointer.message(), HasSubstr("`git lfs pull`"));
  const std::string path = directory_.path() + "/generation_config.json";
  std::filesystem::remove(path);
  std::filesystem::create_symlink("blob", path);
  const absl::Status link = AddGeneratedTokens(directory_.path(), model_);
  EXPECT_EQ(link.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(link.message(), HasSubstr(path));
}

}  // namespace
}  // namespace steadystate::generation_config_test
