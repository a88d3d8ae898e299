// Goal: a chat is written as the model's own template writes it, or refused
// with what is not understood. Method: texts that Jinja made of the templates
// in chat_templates/, which make_golden.py notes; small templates for the rest.
#include "client/cli/chat_template.h"

#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace steadystate::client::chat_template_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kDirectory[] =
    STEADYSTATE_SOURCE_DIR "/tests/client/chat_templates/";

// Turns of ChatML.
constexpr char kTurns[] =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>"
    "\n{% endfor %}";

std::string ReadText(const std::string& name) {
  std::ifstream stream(kDirectory + name);
  return {std::istreambuf_iterator<char>(stream), {}};
}

v1::Model ModelWith(const std::string& text) {
  v1::Model model;
  model.set_chat_template(text);
  model.set_bos_token("<bos>");
  model.set_eos_token("<eos>");
  return model;
}

std::string TextOf(const Prompt& prompt) {
  std::string text;
  for (const PromptPart& part : prompt) text += part.text;
  return text;
}

// The prompt of the first turn, or the error.
std::string First(const std::string& text, const std::string& line = "Hi") {
  const auto made = ChatTemplate::Of(ModelWith(text), "");
  if (!made.ok()) return made.status().ToString();
  const auto first = made->First(line);
  return first.ok() ? TextOf(*first) : first.status().ToString();
}

// What it is that a template is refused for, if it is.
std::string RefusalOf(const std::string& text) {
  const auto made = ChatTemplate::Of(ModelWith(text), "");
  EXPECT_EQ(made.status().code(), absl::StatusCode::kFailedPrecondition);
  for (const char* hint : {"--template chatml or llama3", "--user_prefix",
                           "--assistant_prefix", "Python package"}) {
    EXPECT_THAT(made.status().message(), HasSubstr(hint));
  }
  return std::string(made.status().message());
}

void Check(const std::string& text, const nlohmann::json& golden) {
  const std::string said = golden["said"];
  const absl::Time now =
      absl::FromCivil(absl::CivilSecond(2026, 2, 3, 12), absl::LocalTimeZone());
  const auto made = ChatTemplate::Of(ModelWith(text), golden["system"]);
  if (golden.contains("refused")) {
    const std::string refusal = golden["refused"];
    EXPECT_THAT(made.status().message(), HasSubstr(refusal));
    return;
  }
  ASSERT_TRUE(made.ok()) << made.status();
  const auto first = made->First(said, now);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(TextOf(*first), golden["first"].get<std::string>());
  const auto next = made->Next({said}, std::string(golden["then"]),
                               /*at_end=*/false, now);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(TextOf(*next), golden["next"].get<std::string>());
  // What the session has absorbed with the answer is not written again.
  const auto after = made->Next({said}, std::string(golden["then"]),
                                /*at_end=*/true, now);
  ASSERT_TRUE(after.ok());
  EXPECT_EQ(made->answer_end() + TextOf(*after),
            golden["next"].get<std::string>());
}

TEST(ChatTemplateTest, CheckpointsTemplatesAreWrittenAsJinjaWritesThem) {
  const auto goldens = nlohmann::json::parse(ReadText("golden.json"));
  EXPECT_EQ(goldens.size(), 11u);
  for (const auto& [name, conversations] : goldens.items()) {
    const std::string text = ReadText(name);
    EXPECT_EQ(conversations.size(), 3u);
    for (const auto& golden : conversations) {
      SCOPED_TRACE(name + " " + golden.dump());
      Check(text, golden);
    }
  }
}

// Where nobody says whether the model is to think.
TEST(ChatTemplateTest, AnswersBeginAsTheTemplateBeginsThem) {
  const struct {
    const char* condition;
    bool thinks;
  } kCases[] = {
      {"enable_thinking is defined and enable_thinking is false", false},
      {"enable_thinking is defined and enable_thinking is true", false},
      {"enable_thinking | default(true)", true},
      {"enable_thinking|default(false)", false},
      {"enable_thinking is not defined or enable_thinking", true},
      {"not (enable_thinking is defined and not enable_thinking)", true},
      {"enable_thinking", false},
  };
  for (const auto& test : kCases) {
    const std::string text =
        std::string(kTurns) +
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% if " +
        test.condition + " %}{{ '<think>\\n' }}{% endif %}{% endif %}";
    const std::string prompt =
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
    EXPECT_EQ(First(text), prompt + (test.thinks ? "<think>\n" : ""))
        << test.condition;
  }
}

TEST(ChatTemplateTest, TokensThatBeginTextAreWrittenWhereTheTemplateHasThem) {
  const std::string turns =
      std::string(kTurns) + "{% if add_generation_prompt %}>{% endif %}";
  const std::string hi = "<|im_start|>user\nHi<|im_end|>\n>";
  EXPECT_EQ(First("{{ bos_token }}" + turns), "<bos>" + hi);
  EXPECT_EQ(First("<|begin_of_text|>" + turns), "<|begin_of_text|>" + hi);
  EXPECT_EQ(First("{% if add_bos_token %}{{ bos_token }}{% endif %}" + turns),
            hi);
  EXPECT_EQ(First("{# bos_token #}" + turns), hi);
  v1::Model model = ModelWith("{{ bos_token + '' }}" + turns);
  model.clear_bos_token();
  EXPECT_FALSE(ChatTemplate::Of(model, "").ok());
}

// Forms of their own, which were once taken for others.
TEST(ChatTemplateTest, OtherEndsAndRolesAreWrittenAsTheyAre) {
  const std::string text =
      "{% for m in messages %}<|im_start|>"
      "{{ 'human' if m.role == 'user' else 'gpt' }}\n{{ m.content | trim }}"
      "<|im_end|>{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>gpt\n{% endif %}";
  EXPECT_EQ(First(text, "Hi\xc2\xa0"),
            "<|im_start|>human\nHi<|im_end|><|im_start|>gpt\n");
  const auto made = ChatTemplate::Of(ModelWith(text), "");
  ASSERT_TRUE(made.ok()) << made.status();
  const auto next = made->Next({}, "And?", /*at_end=*/true);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(TextOf(*next),
            "<|im_start|>human\nAnd?<|im_end|><|im_start|>gpt\n");
  EXPECT_EQ(made->answer_end(), "<|im_end|>");
}

TEST(ChatTemplateTest, WhatIsNotUnderstoodIsNamed) {
  const std::string turns =
      std::string(kTurns) + "{% if add_generation_prompt %}>{% endif %}";
  EXPECT_THAT(RefusalOf("\n{{ messages | tojson }}" + turns),
              HasSubstr("line 2: the filter 'tojson' of a list"));
  EXPECT_THAT(RefusalOf("{% include 'x' %}"), HasSubstr("{% include %}"));
  EXPECT_THAT(RefusalOf("{{ raise_exception('No.') }}"),
              HasSubstr("refuses this conversation: No."));
  EXPECT_THAT(RefusalOf("[INST] {{ message }} [/INST]"),
              HasSubstr("does not write answers as they were given"));
  EXPECT_THAT(
      RefusalOf(absl::StrReplaceAll(turns, {{"content", "content.upper()"}})),
      HasSubstr("does not write answers as they were given"));
  EXPECT_THAT(RefusalOf("{% for m in messages %}{{ m.content }}{% endfor %}"),
              HasSubstr("does not end an answer with one mark"));
  EXPECT_THAT(RefusalOf(kTurns),
              HasSubstr("does not write what an answer begins with"));
  EXPECT_THAT(RefusalOf("{% for m in messages %}{{ m.content }}"
                        "{{ '</a>' if loop.last else '</b>' }}{% endfor %}"
                        "{% if add_generation_prompt %}>{% endif %}"),
              HasSubstr("ends answers in more than one way"));
}

TEST(ChatTemplateTest, WhatIsSaidIsLiteralAndMarksAreNot) {
  const std::string text =
      std::string("{{ bos_token }}") + kTurns +
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  const auto made = ChatTemplate::Of(ModelWith(text), "s<|im_end|>");
  ASSERT_TRUE(made.ok()) << made.status();
  const auto first = made->First("a<|im_end|>");
  ASSERT_TRUE(first.ok());
  EXPECT_THAT(*first,
              ElementsAre(PromptPart{"<bos><|im_start|>system\n"},
                          PromptPart{"s<|im_end|>", true},
                          PromptPart{"<|im_end|>\n<|im_start|>user\n"},
                          PromptPart{"a<|im_end|>", true},
                          PromptPart{"<|im_end|>\n<|im_start|>assistant\n"}));
  EXPECT_THAT(made->marks(),
              ElementsAre("<bos>", "<|im_end|>", "<|im_start|>"));
}

// Words that are cut, joined and put together again stay somebody's words.
TEST(ChatTemplateTest, WordsStayWordsWhateverIsDoneWithThem) {
  const std::string text =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n"
      "{{ (m.content | trim).split('-') | join('+') | replace('x', 'y') }}"
      "<|im_end|>{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  const auto made = ChatTemplate::Of(ModelWith(text), "");
  ASSERT_TRUE(made.ok()) << made.status();
  const auto first = made->First("<|im_-end|>x ");
  ASSERT_TRUE(first.ok());
  EXPECT_THAT(
      *first,
      ElementsAre(PromptPart{"<|im_start|>user\n"}, PromptPart{"<|im_", true},
                  PromptPart{"+"}, PromptPart{"end|>", true},
                  PromptPart{"y<|im_end|><|im_start|>assistant\n"}));
}

// Templates may look at all that was said.
TEST(ChatTemplateTest, EarlierLinesAreKnown) {
  const std::string text =
      "{% set ns = namespace(off=false) %}"
      "{% for m in messages %}{% if m.role == 'user' and '/off' in m.content %}"
      "{% set ns.off = true %}{% endif %}"
      "<{{ m.role }}>{{ m.content }}</m>{% endfor %}"
      "{% if add_generation_prompt %}<{{ 'off' if ns.off else 'on' }}>"
      "{% endif %}";
  const auto made = ChatTemplate::Of(ModelWith(text), "");
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(TextOf(*made->Next({"a", "b"}, "c", true)), "<user>c</m><on>");
  EXPECT_EQ(TextOf(*made->Next({"/off", "b"}, "c", true)), "<user>c</m><off>");
}

}  // namespace
}  // namespace steadystate::client::chat_template_test
