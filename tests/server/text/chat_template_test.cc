// Goal: how conversations are written as prompts is found where checkpoints say
// it, and what cannot be used is left out with a word. Method: directories with
// files as libraries write them.
#include "server/text/chat_template.h"

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::chat_template_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ChatTemplate Read(const TempDirectory& directory) {
  const absl::StatusOr<ChatTemplate> chat = ReadChatTemplate(directory.path());
  EXPECT_TRUE(chat.ok()) << chat.status();
  return chat.value_or(ChatTemplate());
}

TEST(ChatTemplateTest, ACheckpointNeedsNone) {
  const TempDirectory directory;
  const ChatTemplate chat = Read(directory);
  EXPECT_EQ(chat.text, "");
  EXPECT_THAT(chat.warnings, IsEmpty());
}

TEST(ChatTemplateTest, IsReadFromTheTokenizersConfig) {
  const TempDirectory directory;
  directory.Write("tokenizer_config.json", R"({
      "chat_template": "{{ messages }}",
      "bos_token": {"content": "<s>", "lstrip": false},
      "eos_token": "</s>", "unk_token": null})");
  const ChatTemplate chat = Read(directory);
  EXPECT_EQ(chat.text, "{{ messages }}");
  EXPECT_EQ(chat.bos_token, "<s>");
  EXPECT_EQ(chat.eos_token, "</s>");
  EXPECT_THAT(chat.warnings, IsEmpty());
}

TEST(ChatTemplateTest, OfSeveralTheDefaultIsTaken) {
  const TempDirectory directory;
  directory.Write("tokenizer_config.json", R"({"bos_token": null,
      "chat_template": [{"name": "rag", "template": "a"}, 5,
                        {"name": "default", "template": "b"}]})");
  EXPECT_EQ(Read(directory).text, "b");
  directory.Write("tokenizer_config.json",
                  R"({"chat_template": [{"name": "rag", "template": "a"}]})");
  EXPECT_EQ(Read(directory).text, "");
}

TEST(ChatTemplateTest, AFileOfItsOwnGoesFirst) {
  const TempDirectory directory;
  directory.Write("tokenizer_config.json",
                  R"({"chat_template": "config", "eos_token": "</s>"})");
  directory.Write("chat_template.jinja", "file");
  const ChatTemplate chat = Read(directory);
  EXPECT_EQ(chat.text, "file");
  EXPECT_EQ(chat.eos_token, "</s>");
}

TEST(ChatTemplateTest, WhatCannotBeUsedIsLeftOutWithAWord) {
  const TempDirectory directory;
  directory.Write("tokenizer_config.json", "{ damaged");
  ChatTemplate chat = Read(directory);
  EXPECT_THAT(chat.warnings, ElementsAre(HasSubstr("tokenizer_config.json")));
  directory.Write("tokenizer_config.json",
                  "{\"chat_template\": \"" +
                      std::string(kMaxChatTemplateBytes + 1, 'x') + "\"}");
  chat = Read(directory);
  EXPECT_EQ(chat.text, "");
  EXPECT_THAT(chat.warnings, ElementsAre(HasSubstr("at most")));
  directory.Write("tokenizer_config.json", "{}");
  directory.Write("chat_template.jinja",
                  std::string(kMaxChatTemplateBytes + 1, 'x'));
  EXPECT_THAT(Read(directory).warnings,
              ElementsAre(HasSubstr("chat_template.jinja")));
  // A message to clients is text.
  directory.Write("chat_template.jinja", "\xff\xfe");
  chat = Read(directory);
  EXPECT_EQ(chat.text, "");
  EXPECT_THAT(chat.warnings, ElementsAre(HasSubstr("UTF-8")));
}

TEST(ChatTemplateTest, TokensThatTheConfigDoesNotNameAreReadFromTheMap) {
  const TempDirectory directory;
  directory.Write("special_tokens_map.json",
                  R"({"bos_token": {"content": "<s>", "lstrip": false},
                      "eos_token": "</s>"})");
  EXPECT_EQ(Read(directory).bos_token, "<s>");
  EXPECT_EQ(Read(directory).eos_token, "</s>");
  directory.Write("tokenizer_config.json",
                  R"({"bos_token": null, "eos_token": "<end>"})");
  EXPECT_EQ(Read(directory).bos_token, "<s>");
  EXPECT_EQ(Read(directory).eos_token, "<end>");
  // As by the library: a config that lists its tokens says all of them.
  directory.Write("tokenizer_config.json", R"({"added_tokens_decoder": {}})");
  EXPECT_EQ(Read(directory).bos_token, "");
  directory.Write("tokenizer_config.json", "{}");
  directory.Write("special_tokens_map.json", "[]");
  EXPECT_EQ(Read(directory).bos_token, "");
  EXPECT_THAT(Read(directory).warnings,
              ElementsAre(HasSubstr("special_tokens_map.json is no object")));
}

// The model has the file: without it conversations would be others.
TEST(ChatTemplateTest, WhatWasNotFetchedIsRefused) {
  for (const char* name : {"chat_template.jinja", "tokenizer_config.json",
                           "special_tokens_map.json"}) {
    const TempDirectory directory;
    const std::string path = directory.path() + "/" + name;
    std::filesystem::create_symlink("../blobs/4d", path);
    absl::Status status = ReadChatTemplate(directory.path()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << name;
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr(path), HasSubstr("`hf download`")));
    std::filesystem::remove(path);
    directory.Write(name, "version https://git-lfs.github.com/spec/v1\n");
    status = ReadChatTemplate(directory.path()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(status.message(), HasSubstr("`git lfs pull`"));
  }
}

}  // namespace
}  // namespace steadystate::chat_template_test
