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
  return {.beginning = {{.text = options.system}},
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
       "How turns are written: auto as the model's own chat template does, "
       "which is refused if it is not understood; chatml or llama3 in that "
       "form, whatever the template says; none by prefixes, as where the "
       "model has no template or a prefix is given.",
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
  for (const std::string& mark : letters) {
    if (!absl::StrContains(text, mark)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "'", mark, "' cannot be said: this model's tokenizer has no token for ",
        "it, so that the model would take it for the end or the beginning of ",
        "a message"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Prompt> TurnRules::PromptOf(const Conversation& before,
                                           absl::string_view line,
                                           uint64_t position) const {
  if (written && position == 0) return written->First(line);
  if (written) return written->Next(before.Said(), line, before.at_stop());
  Prompt prompt = position == 0 ? beginning : Prompt();
  for (PromptPart& part : before.PromptOf(line, position)) {
    prompt.push_back(std::move(part));
  }
  return prompt;
}

absl::StatusOr<std::vector<int32_t>> TokensOf(const Connection& connection,
                                              const Prompt& prompt) {
  v1::TokenizeRequest request;
  v1::TokenizeRequest whole;
  for (const PromptPart& part : prompt) {
    v1::TextPart& added = *request.add_parts();
    added.set_text(part.text);
    added.set_literal(part.literal);
    whole.mutable_text()->append(part.text);
  }
  const auto answer = connection.client.Tokenize(request, connection.unary);
  if (!answer.ok()) return answer.status();
  std::vector<int32_t> tokens(answer->tokens().begin(), answer->tokens().end());
  if (!tokens.empty() || whole.text().empty()) return tokens;
  // An older server does not see the parts. Blanks may have no tokens, too.
  const auto all = connection.client.Tokenize(whole, connection.unary);
  if (!all.ok()) return all.status();
  if (all->tokens().empty()) return tokens;
  return absl::FailedPreconditionError(
      "the server is older than this program: it cannot be told which part of "
      "a prompt is what somebody says, and would find special tokens there");
}

namespace {

// Which marks the model has no token for.
absl::StatusOr<std::vector<std::string>> LettersOf(
    const Connection& connection, const std::vector<std::string>& marks) {
  std::vector<std::string> letters;
  for (const std::string& mark : marks) {
    const auto marked = TokensOf(connection, {{.text = mark}});
    if (!marked.ok()) return marked.status();
    const auto said = TokensOf(connection, {{.text = mark, .literal = true}});
    if (!said.ok()) return said.status();
    if (*marked == *said) letters.push_back(mark);
  }
  return letters;
}

// Rules whose answers end with `end`, where marks may be said if the model has
// tokens for them.
absl::Status AskOfMarks(const Connection& connection,
                        const std::vector<std::string>& marks,
                        const std::string& end, const std::string& system,
                        TurnRules& rules) {
  auto letters = LettersOf(connection, marks);
  if (!letters.ok()) return letters.status();
  rules.letters = *std::move(letters);
  const absl::Status checked = rules.CheckSaid(system);
  if (!checked.ok()) return checked;
  const auto tokens = TokensOf(connection, {{.text = end}});
  if (!tokens.ok()) return tokens.status();
  if (tokens->size() == 1) rules.end_token = tokens->front();
  return absl::OkStatus();
}

absl::StatusOr<TurnRules> ByForm(const Connection& connection,
                                 const ChatForm& form,
                                 const std::string& system) {
  TurnRules rules{.beginning = {{.text = form.begin}},
                  .conversation = Conversation(form)};
  const absl::Status asked =
      AskOfMarks(connection, form.Marks(), form.end, system, rules);
  if (!asked.ok()) return asked;
  if (!system.empty()) {
    for (PromptPart& part : form.Message("system", system)) {
      rules.beginning.push_back(std::move(part));
    }
  }
  return rules;
}

absl::StatusOr<TurnRules> ByTemplate(const Connection& connection,
                                     const v1::Model& model,
                                     const std::string& system) {
  auto written = ChatTemplate::Of(model, system);
  if (!written.ok()) return written.status();
  const std::string end = written->answer_end();
  const std::vector<std::string> marks = written->marks();
  TurnRules rules{.written = *std::move(written),
                  .conversation = Conversation(end)};
  const absl::Status asked = AskOfMarks(connection, marks, end, system, rules);
  if (!asked.ok()) return asked;
  return rules;
}

}  // namespace

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
  if (options.form == "auto" && !model->chat_template().empty()) {
    return ByTemplate(connection, *model, options.system);
  }
  // --system then is what the prompt begins with, special tokens and all.
  if (!form->has_value()) return ByPrefixes(options);
  return ByForm(connection, **form, options.system);
}

}  // namespace steadystate::client
