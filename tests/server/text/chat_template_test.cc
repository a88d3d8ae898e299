// Goal: how conversations are written as prompts is found where checkpoints say
// it, and what cannot be used is left out with a word. Method: directories with
// files as libraries write them.
#include "server/text/chat_template.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_directory.h"

namespace steadystate {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(ChatTemplateTest, ACheckpointNeedsNone) {
  const TempDirectory directory;
  const ChatTemplate chat = ReadChatTemplate(directory.path());
  EXPECT_EQ(chat.text, "");
  EXPECT_THAT(chat.warnings, IsEmpty());
}

TEST(ChatTemplateTest, IsReadFromTheTokenizersConfig) {
  const TempDirectory directory;
  directory.Write("tokenizer_config.json", R"({
      "chat_template": "{{ messages }}",
      "bos_token": {"content": "<s>", "lstrip": false},
      "eos_token": "</s>", "unk_token": null})");
  const ChatTemplate chat = ReadChatTemplate(directory.path());
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
  EXPECT_EQ(ReadChatTemplate(directory.path()).text, "b");
  directory.Write("tokenizer_config.json",
                  R"({"chat_template": [{"name": "rag", "template": "a"}]})");
  EXPECT_EQ(ReadChatTemplate(directory.path()).text, "");
}

TEST(ChatTemplateTest, AFileOfItsOwnGoesFirst) {
  const TempDirectory directory;
  directory.Write("tokenizer_config.json",
                  R"({"chat_template": "config", "eos_token": "</s>"})");
  directory.Write("chat_template.jinja", "file");
  const ChatTemplate chat = ReadChatTemplate(directory.path());
  EXPECT_EQ(chat.text, "file");
  EXPECT_EQ(chat.eos_token, "</s>");
}

TEST(ChatTemplateTest, WhatCannotBeUsedIsLeftOutWithAWord) {
  const TempDirectory directory;
  directory.Write("tokenizer_config.json", "{ damaged");
  ChatTemplate chat = ReadChatTemplate(directory.path());
  EXPECT_THAT(chat.warnings, ElementsAre(HasSubstr("tokenizer_config.json")));
  directory.Write("tokenizer_config.json",
                  "{\"chat_template\": \"" +
                      std::string(kMaxChatTemplateBytes + 1, 'x') + "\"}");
  chat = ReadChatTemplate(directory.path());
  EXPECT_EQ(chat.text, "");
  EXPECT_THAT(chat.warnings, ElementsAre(HasSubstr("at most")));
  directory.Write("tokenizer_config.json", "{}");
  directory.Write("chat_template.jinja",
                  std::string(kMaxChatTemplateBytes + 1, 'x'));
  EXPECT_THAT(ReadChatTemplate(directory.path()).warnings,
              ElementsAre(HasSubstr("chat_template.jinja")));
  // A message to clients is text.
  directory.Write("chat_template.jinja", "\xff\xfe");
  chat = ReadChatTemplate(directory.path());
  EXPECT_EQ(chat.text, "");
  EXPECT_THAT(chat.warnings, ElementsAre(HasSubstr("UTF-8")));
}

}  // namespace
}  // namespace steadystate
