#include "client/cli/turn_rules.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/input.h"
#include "steadystate/client.h"
#include "steadystate/v1/model.pb.h"

namespace steadystate::client {
namespace {

// As they are written on a command line.
constexpr absl::string_view kUserPrefix = "\\n\\nUser: ";
constexpr absl::string_view kAssistantPrefix = "\\n\\nAssistant:";

std::string Quoted(absl::string_view text) {
  return absl::StrCat("'", text, "'");
}

TurnRules ByPrefixes(const TurnOptions& options) {
  const std::string user =
      options.user_prefix.value_or(std::string(kUserPrefix));
  const std::string assistant =
      options.assistant_prefix.value_or(std::string(kAssistantPrefix));
  return {.form = {},
          .end_token = {},
          .beginning = options.system,
          .conversation = Conversation(Unescaped(user), Unescaped(assistant))};
}

}  // namespace

void TurnOptions::AppendTo(OptionTable& table) {
  const OptionTable options = {
      {"system", "TEXT",
       "What a session begins with, before the first turn; in a template's "
       "form, the system's message.",
       &system},
      {"template", kChatForms,
       "How turns are written: auto as the model's own chat template does, if "
       "its marks are those of ChatML or of Llama 3; none by prefixes, as "
       "where the model has no template or a prefix is given.",
       &form, 0, "", form},
      {"user_prefix", "TEXT",
       "What stands before each line of yours; \\n is a line end. The answer "
       "ends where the model writes it.",
       &user_prefix, 0, "", Quoted(kUserPrefix)},
      {"assistant_prefix", "TEXT", "What stands before each answer.",
       &assistant_prefix, 0, "", Quoted(kAssistantPrefix)},
  };
  table.insert(table.end(), options.begin(), options.end());
}

absl::Status TurnOptions::Check() {
  for (const std::string& text :
       {system, user_prefix.value_or(""), assistant_prefix.value_or("")}) {
    const absl::Status checked = CheckUtf8(text);
    if (!checked.ok()) return checked;
  }
  const auto known = ChatFormOf(form, v1::Model());
  if (absl::IsInvalidArgument(known.status())) {
    return absl::InvalidArgumentError(
        absl::StrCat("--template: ", known.status().message()));
  }
  if (!user_prefix && !assistant_prefix) return absl::OkStatus();
  if (form != "auto" && form != "none") {
    return absl::InvalidArgumentError(
        absl::StrCat("--template ", form, " and prefixes are two ways to ",
                     "write a turn: give one of them"));
  }
  form = "none";
  return absl::OkStatus();
}

absl::Status TurnRules::CheckSaid(absl::string_view text) const {
  if (form.has_value()) {
    const absl::Status checked = form->CheckSaid(text);
    if (!checked.ok()) return checked;
  }
  for (const std::string& token : special_tokens) {
    if (token.empty() || !absl::StrContains(text, token)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("'", token, "' cannot be said: it is a token of the ",
                     "model's own, and stands for no text"));
  }
  return absl::OkStatus();
}

absl::StatusOr<TurnRules> RulesOf(const Connection& connection,
                                  const TurnOptions& options) {
  v1::GetModelRequest request;
  request.set_name("models/-");
  const auto model = connection.client.GetModel(request, connection.unary);
  if (!model.ok()) return model.status();
  if (model->tokenizer().empty()) {
    return absl::FailedPreconditionError(
        "the server's model has no tokenizer, and a chat is text: `steadystate "
        "generate --token_ids_file` takes token ids");
  }
  const auto form = ChatFormOf(options.form, *model);
  if (!form.ok()) return form.status();
  TurnRules rules = form->has_value()
                        ? TurnRules{.form = *form,
                                    .end_token = {},
                                    .beginning = (*form)->begin,
                                    .conversation = Conversation(**form)}
                        : ByPrefixes(options);
  for (const v1::Model::SpecialToken& token : model->special_tokens()) {
    rules.special_tokens.push_back(token.text());
  }
  // --system then is what the prompt begins with, special tokens and all.
  if (!rules.form.has_value()) return rules;
  if (!options.system.empty()) {
    const absl::Status checked = rules.CheckSaid(options.system);
    if (!checked.ok()) return checked;
    rules.beginning += rules.form->Message("system", options.system);
  }
  v1::TokenizeRequest end;
  end.set_text(rules.form->end);
  const auto tokens = connection.client.Tokenize(end, connection.unary);
  if (!tokens.ok()) return tokens.status();
  if (tokens->tokens_size() == 1) rules.end_token = tokens->tokens(0);
  return rules;
}

}  // namespace steadystate::client
