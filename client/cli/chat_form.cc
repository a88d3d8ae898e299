#include "client/cli/chat_form.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace steadystate::client {
namespace {

// Qwen, LFM2 and many others.
ChatForm ChatMl() { return {"", "<|im_start|>", "\n", "<|im_end|>", "\n"}; }

ChatForm Llama3() {
  return {"", "<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>", ""};
}

// True if a template writes messages as `form` does. Phi has ChatML's marks
// around a role that another mark ends.
bool IsOf(absl::string_view text, const ChatForm& form) {
  return absl::StrContains(text, form.role_begin) &&
         absl::StrContains(text, form.end) &&
         !absl::StrContains(text, "<|im_sep|>");
}

// What a template begins an answer with where nobody says whether the model is
// to think. Models with a switch for it differ in that: Qwen3's larger ones
// think, and smaller ones are told that they have.
std::string OpeningOf(absl::string_view text) {
  const size_t prompt = text.rfind("add_generation_prompt");
  if (prompt == absl::string_view::npos) return "";
  // Line ends within quotes are written in either way.
  const std::string lines =
      absl::StrReplaceAll(text.substr(prompt), {{"\\n", "\n"}});
  absl::string_view tail = lines;
  const size_t given = tail.find("enable_thinking");
  if (given != absl::string_view::npos) {
    const size_t otherwise = tail.find("else", given);
    if (otherwise == absl::string_view::npos) return "";
    tail = tail.substr(otherwise);
    tail = tail.substr(0, tail.find("endif"));
  }
  for (const absl::string_view opening :
       {"<think>\n\n</think>\n\n", "<think>\n"}) {
    if (absl::StrContains(tail, opening)) return std::string(opening);
  }
  return "";
}

}  // namespace

std::string ChatForm::BeforeAnswer() const {
  return absl::StrCat(Before("assistant"), opening);
}

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
  const std::string& text = model.chat_template();
  std::optional<ChatForm> form;
  if (choice == "none" || (choice == "auto" && text.empty())) return form;
  if (choice != "auto" && choice != "chatml" && choice != "llama3") {
    return absl::InvalidArgumentError(
        absl::StrCat("'", choice, "' is none of ", kChatForms));
  }
  const bool chatml =
      choice == "chatml" || (choice == "auto" && IsOf(text, ChatMl()));
  const bool llama3 =
      choice == "llama3" || (choice == "auto" && IsOf(text, Llama3()));
  if (chatml == llama3) {
    return absl::FailedPreconditionError(
        "the model's chat template is not of a form that is known here: say "
        "which it is, --template chatml or llama3; or write turns by "
        "--user_prefix and --assistant_prefix; or use the Python package, "
        "whose Chat renders any template");
  }
  form = chatml ? ChatMl() : Llama3();
  if (absl::StrContains(text, "bos_token")) form->begin = model.bos_token();
  form->opening = OpeningOf(text);
  return form;
}

}  // namespace steadystate::client
