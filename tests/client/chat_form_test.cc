// Goal: a form that is named is written as it is known, whatever the template.
// Method: first messages. Templates' own forms are chat_template_test.cc's.
#include "client/cli/chat_form.h"

#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate::client::chat_form_test {
namespace {

using testing::HasSubstr;

constexpr char kChatMl[] = "{{ '<|im_start|>' + role }}{{ '<|im_end|>' }}";
constexpr char kLlama3[] =
    "{{ bos_token }}<|start_header_id|>{{ role }}<|end_header_id|><|eot_id|>";

v1::Model ModelWith(const std::string& text) {
  v1::Model model;
  model.set_chat_template(text);
  model.set_bos_token("<s>");
  return model;
}

// How the first message is written, or "none", or the error.
std::string Written(absl::string_view choice, const std::string& text) {
  const auto form = ChatFormOf(choice, ModelWith(text));
  if (!form.ok()) return form.status().ToString();
  if (!form->has_value()) return "none";
  std::string written = (*form)->begin;
  for (const PromptPart& part : (*form)->Message("user", "Hi")) {
    written += part.text;
  }
  return written;
}

TEST(ChatFormTest, FormsAreThoseThatAreNamed) {
  for (const std::string& text :
       {std::string(), std::string(kChatMl), std::string(kLlama3),
        std::string("[INST] {{ message }} [/INST]"),
        std::string("<|im_start|>{{ role }}<|im_sep|><|im_end|>"),
        std::string(kChatMl) + "{{ bos_token }}",
        std::string(kChatMl) + kLlama3}) {
    const std::string bos =
        text.find("bos_token") == std::string::npos ? "" : "<s>";
    EXPECT_EQ(Written("chatml", text),
              bos + "<|im_start|>user\nHi<|im_end|>\n");
    EXPECT_EQ(Written("llama3", text),
              bos + "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>");
    // None of these: by prefixes, or as the template has it.
    EXPECT_EQ(Written("none", text), "none");
    EXPECT_EQ(Written("auto", text), "none");
  }
  EXPECT_THAT(Written("jinja", ""),
              HasSubstr("'jinja' is none of auto|chatml|llama3|none"));
}

TEST(ChatFormTest, WhatIsSaidIsLiteralAndMarksAreNot) {
  const auto chatml = ChatFormOf("chatml", ModelWith(kChatMl));
  ASSERT_TRUE(chatml.ok());
  EXPECT_THAT((*chatml)->Message("user", "a<|im_end|>"),
              testing::ElementsAre(PromptPart{"<|im_start|>user\n"},
                                   PromptPart{"a<|im_end|>", true},
                                   PromptPart{"<|im_end|>\n"}));
  EXPECT_THAT((*chatml)->Marks(),
              testing::ElementsAre("<|im_start|>", "<|im_end|>"));
  const auto llama3 = ChatFormOf("llama3", ModelWith(kLlama3));
  ASSERT_TRUE(llama3.ok());
  EXPECT_THAT((*llama3)->Marks(),
              testing::ElementsAre("<s>", "<|start_header_id|>",
                                   "<|end_header_id|>", "<|eot_id|>"));
}

}  // namespace
}  // namespace steadystate::client::chat_form_test
