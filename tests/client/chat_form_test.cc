// Goal: a template is known by its marks, or refused. Method: the marks alone;
// what is written by them is compared with Jinja in chat_template_e2e_test.py.
#include "client/cli/chat_form.h"

#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate::client {
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

TEST(ChatFormTest, FormsAreKnownByTheirMarks) {
  EXPECT_EQ(Written("auto", kChatMl), "<|im_start|>user\nHi<|im_end|>\n");
  EXPECT_EQ(Written("auto", kLlama3),
            "<s><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>");
  EXPECT_EQ(Written("auto", std::string(kChatMl) + "{{ bos_token }}"),
            "<s><|im_start|>user\nHi<|im_end|>\n");
  EXPECT_EQ(Written("auto", ""), "none");
  EXPECT_EQ(Written("none", kChatMl), "none");
}

TEST(ChatFormTest, OthersAreRefusedUnlessAFormIsNamed) {
  for (const std::string& text :
       {std::string("[INST] {{ message }} [/INST]"),
        std::string("<|im_start|>{{ role }}<|im_sep|><|im_end|>"),
        std::string("<|im_start|>"), std::string(kChatMl) + kLlama3}) {
    EXPECT_THAT(Written("auto", text), HasSubstr("FAILED_PRECONDITION"))
        << text;
    EXPECT_EQ(Written("chatml", text).substr(0, 3) == "<s>",
              text.find("bos_token") != std::string::npos);
    EXPECT_THAT(Written("llama3", text), HasSubstr("<|eot_id|>"));
  }
  // Without a template, too.
  EXPECT_EQ(Written("chatml", ""), "<|im_start|>user\nHi<|im_end|>\n");
  EXPECT_THAT(Written("jinja", ""),
              HasSubstr("'jinja' is none of auto|chatml|llama3|none"));
}

// Which of the ways is taken without a word about thinking.
TEST(ChatFormTest, AnswersBeginAsTheTemplateBeginsThem) {
  const struct {
    const char* prompt;
    const char* opening;
  } kCases[] = {
      {"", ""},
      {"{% if add_generation_prompt %}assistant\\n{% endif %}", ""},
      {"{% if add_generation_prompt %}assistant\\n<think>\\n{% endif %}",
       "<think>\n"},
      // Qwen3, Qwen3.5 of small and of larger sizes.
      {"{% if add_generation_prompt %}{% if enable_thinking is false %}"
       "{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}{% endif %}",
       ""},
      {"{% if add_generation_prompt %}{% if enable_thinking is true %}"
       "{{ '<think>\\n' }}{%- else %}{{ '<think>\\n\\n</think>\\n\\n' }}"
       "{% endif %}{% endif %}",
       "<think>\n\n</think>\n\n"},
      {"{% if add_generation_prompt %}{% if enable_thinking is false %}"
       "{{ '<think>\n\n</think>\n\n' }}{%- else %}{{ '<think>\n' }}"
       "{% endif %}{% endif %}",
       "<think>\n"},
      // Of an answer before.
      {"'<think>\\n' {% if add_generation_prompt %}{% endif %}", ""},
  };
  for (const auto& test : kCases) {
    const auto form =
        ChatFormOf("auto", ModelWith(std::string(kChatMl) + test.prompt));
    ASSERT_TRUE(form.ok()) << form.status();
    EXPECT_EQ((*form)->BeforeAnswer(),
              std::string("<|im_start|>assistant\n") + test.opening)
        << test.prompt;
  }
}

TEST(ChatFormTest, WhatIsSaidIsLiteralAndMarksAreNot) {
  const auto chatml = ChatFormOf("auto", ModelWith(kChatMl));
  ASSERT_TRUE(chatml.ok());
  EXPECT_THAT((*chatml)->Message("user", "a<|im_end|>"),
              testing::ElementsAre(PromptPart{"<|im_start|>user\n"},
                                   PromptPart{"a<|im_end|>", true},
                                   PromptPart{"<|im_end|>\n"}));
  EXPECT_THAT((*chatml)->Marks(),
              testing::ElementsAre("<|im_start|>", "<|im_end|>"));
  const auto llama3 = ChatFormOf("auto", ModelWith(kLlama3));
  ASSERT_TRUE(llama3.ok());
  EXPECT_THAT((*llama3)->Marks(),
              testing::ElementsAre("<s>", "<|start_header_id|>",
                                   "<|end_header_id|>", "<|eot_id|>"));
}

}  // namespace
}  // namespace steadystate::client
