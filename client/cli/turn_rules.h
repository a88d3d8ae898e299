#ifndef STEADYSTATE_CLIENT_CLI_TURN_RULES_H_
#define STEADYSTATE_CLIENT_CLI_TURN_RULES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/chat_form.h"
#include "client/cli/chat_template.h"
#include "client/cli/command.h"
#include "client/cli/conversation.h"
#include "client/options/options.h"

namespace steadystate::client {

// The options that say how the turns of a chat are written.
struct TurnOptions {
  std::string system;
  std::string form = "auto";  // --template
  std::optional<std::string> user_prefix;
  std::optional<std::string> assistant_prefix;

  // Appends the options, with this object as their target.
  void AppendTo(OptionTable& table);

  // INVALID_ARGUMENT for a text that is not UTF-8, a word that is no form, and
  // a form beside prefixes. Call it once they are read.
  absl::Status Check();
};

// What becomes of them with a model.
struct TurnRules {
  // The model's own; nothing: turns are written by a form or prefixes.
  std::optional<ChatTemplate> written{};
  // The token that ends a message in a form; nothing: its text does.
  std::optional<int32_t> end_token{};
  Prompt beginning{};  // of a session, before the first turn, without `written`
  Conversation conversation;  // before that turn
  // Marks of the form that to this model are mere letters, whoever says them.
  std::vector<std::string> letters{};

  // What the session is to absorb so that the user has said `line`.
  // FAILED_PRECONDITION: the template refuses that.
  absl::StatusOr<Prompt> PromptOf(const Conversation& before,
                                  absl::string_view line,
                                  uint64_t position) const;

  // An error if what somebody says has one of these.
  absl::Status CheckSaid(absl::string_view text) const;
};

// Asks the server about its model. FAILED_PRECONDITION, with what to do: the
// model has no tokenizer, or a template that is not understood.
// INVALID_ARGUMENT: --system, in a form, has what CheckSaid refuses. Errors of
// the calls.
absl::StatusOr<TurnRules> RulesOf(const Connection& connection,
                                  const TurnOptions& options);

// The tokens of a prompt, whose literal parts have no special ones. Errors of
// the call; FAILED_PRECONDITION: the server is too old to tell parts apart.
absl::StatusOr<std::vector<int32_t>> TokensOf(const Connection& connection,
                                              const Prompt& prompt);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_CLI_TURN_RULES_H_
