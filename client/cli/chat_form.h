#ifndef STEADYSTATE_CLIENT_CLI_CHAT_FORM_H_
#define STEADYSTATE_CLIENT_CLI_CHAT_FORM_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "steadystate/v1/model.pb.h"

namespace steadystate::client {

// A part of a prompt. Literal: what somebody says, which the server is to read
// as text, whatever marks it spells.
struct PromptPart {
  std::string text;
  bool literal = false;

  bool operator==(const PromptPart&) const = default;
};
using Prompt = std::vector<PromptPart>;

// The marks that a chat template writes around the messages of a conversation.
struct ChatForm {
  std::string begin;       // before the first message, mostly nothing
  std::string role_begin;  // before "user", "assistant" or "system"
  std::string role_end;    // between that and the message
  std::string end;         // after the message; models end an answer with it
  std::string after_end;   // sets messages apart

  // "<|im_start|>user\nHi<|im_end|>\n", of role and message.
  Prompt Message(absl::string_view role, absl::string_view text) const;

  // What a model goes on from to answer.
  std::string BeforeAnswer() const;

  // What stands before a message of `role`.
  std::string Before(absl::string_view role) const;

  // The marks without the blanks beside them.
  std::vector<std::string> Marks() const;
};

// The words that --template may be.
inline constexpr absl::string_view kChatForms = "auto|chatml|llama3|none";

// The form that `choice` names: "chatml" or "llama3", after the model's bos
// token if its template names that; nothing for "none", and for "auto", which
// is the template's own form (ChatTemplate). INVALID_ARGUMENT: `choice` is no
// such word.
absl::StatusOr<std::optional<ChatForm>> ChatFormOf(absl::string_view choice,
                                                   const v1::Model& model);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_CLI_CHAT_FORM_H_
