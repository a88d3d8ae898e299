#include "client/cli/chat_form.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace steadystate::client {
namespace {

// Qwen, LFM2 and many others.
ChatForm ChatMl() { return {"", "<|im_start|>", "\n", "<|im_end|>", "\n"}; }

ChatForm Llama3() {
  return {"", "<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>", ""};
}

}  // namespace

std::string ChatForm::BeforeAnswer() const { return Before("assistant"); }

Prompt ChatForm::Message(absl::string_view role, absl::string_view text) const {
  return {{.text = Before(role)},
          {.text = std::string(text), .literal = true},
          {.text = absl::StrCat(end, after_end)}};
}

std::string ChatForm::Before(absl::string_view role) const {
  return absl::StrCat(role_begin, role, role_end);
}

std::vector<std::string> ChatForm::Marks() const {
  std::vector<std::string> marks;
  for (const std::string& text : {begin, role_begin, role_end, end}) {
    const absl::string_view mark = absl::StripAsciiWhitespace(text);
    if (!mark.empty()) marks.emplace_back(mark);
  }
  return marks;
}

absl::StatusOr<std::optional<ChatForm>> ChatFormOf(absl::string_view choice,
                                                   const v1::Model& model) {
  std::optional<ChatForm> form;
  if (choice == "none" || choice == "auto") return form;
  if (choice != "chatml" && choice != "llama3") {
    return absl::InvalidArgumentError(
        absl::StrCat("'", choice, "' is none of ", kChatForms));
  }
  form = choice == "chatml" ? ChatMl() : Llama3();
  if (absl::StrContains(model.chat_template(), "bos_token")) {
    form->begin = model.bos_token();
  }
  return form;
}

}  // namespace steadystate::client
