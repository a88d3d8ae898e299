// `steadystate generate`: absorbs a prompt and prints what follows.

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/cli/command.h"
#include "client/cli/generation.h"
#include "client/cli/input.h"
#include "client/cli/output.h"
#include "client/cli/session.h"

namespace steadystate::client {
namespace {

// Bytes or tokens of the prompt that one request absorbs. The same whether
// progress is shown or not: where a prompt is cut decides the last bits of what
// follows.
constexpr size_t kPromptPiece = 4096;

class GenerateCommand : public Command {
 public:
  CommandText text() const override {
    return {
        "generate", "[TEXT]", "Continues a prompt, printing text as it comes",
        "Absorbs a prompt, TEXT, and prints what the model continues it with, "
        "as "
        "it is produced. Without --session a fresh session is created, which "
        "ends with the command, also where that is killed. With a model that "
        "has no tokenizer, token ids "
        "are printed in place of text. Ctrl-C ends it, and still prints the "
        "summary or JSON that was asked for.",
        "  steadystate generate 'Once upon a time'\n"
        "  steadystate generate --prompt_file - --temperature 0 <story.txt\n"
        "  steadystate generate 'A' --seed 7 --json\n"
        "  ID=$(steadystate session create)\n"
        "  steadystate generate -s $ID -p 'A long story. '\n"
        "  steadystate generate -s $ID -n 50\n"};
  }

  OptionTable options() override {
    OptionTable table;
    input_.AppendTo(table);
    const OptionTable own = {
        {"session", "ID",
         "Continues this session, after the prompt if there is one, and leaves "
         "it in place.",
         &session_id_, 's'},
        {"keep", "", "Leaves the fresh session in place and prints its name.",
         &keep_},
        {"expected_position", "N",
         "Refuses to continue unless the session is at this position.",
         &expected_position_},
        {"max_tokens", "N|none",
         "Most tokens to draw; 0 absorbs the prompt only; none: until "
         "something else ends it.",
         [this](absl::string_view text) {
           const auto count = ParseMaxTokens(text);
           if (count.ok()) max_tokens_ = *count;
           return count.status();
         },
         'n', "", "200"},
        {"stop", "STRING",
         "Ends before this string. May be repeated. Needs a tokenizer.",
         &stop_},
        {"stop_token", "ID", "Ends after this token. May be repeated.",
         [this](absl::string_view text) -> absl::Status {
           const auto token = ParseTokenId(text);
           if (token.ok()) stop_tokens_.push_back(*token);
           return token.status();
         }},
        {"ignore_eos", "", "Does not end at the model's end token.",
         &ignore_eos_},
        {"reuse_prefix", "",
         "Begins a fresh session where an earlier prompt like this one has "
         "been, and keeps this one for later ones.",
         &reuse_prefix_},
        {"logprobs", "N",
         "With --json: the log-probability of each token, and the N most "
         "likely ones in its place.",
         &logprobs_, 0, "0 to 256"},
        {"json", "",
         "Prints one JSON object at the end instead of text as it comes.",
         &json_},
        {"summary", "",
         "Prints session, position, bytes of state, time to first token and "
         "speed to standard error at the end.",
         &summary_},
    };
    table.insert(table.end(), own.begin(), own.end());
    sampling_.AppendTo(table);
    return table;
  }

  absl::Duration default_timeout() const override {
    return absl::InfiniteDuration();
  }

  absl::Status Prepare(const std::vector<std::string>& arguments) override;
  absl::Status Run(const Connection& connection) override;

 private:
  v1::GenerateRequest LastRequest() const;
  // Sends one request and adds what it brings to the report; `print`: also to
  // standard output.
  absl::Status Send(const Connection& connection,
                    const v1::GenerateRequest& request, bool print,
                    GenerationReport& report) const;
  // Sends all pieces of the prompt but the last, then the last one with all
  // that concerns the tokens to draw.
  absl::Status Generate(const Connection& connection,
                        const std::string& session,
                        GenerationReport& report) const;
  absl::Status Print(const v1::GenerateResponse& message) const;
  // Prints what is due after the text. `generated`: how the generation ended.
  absl::Status Tell(const absl::Status& generated, const SessionUse& use,
                    GenerationReport& report) const;

  InputOptions input_{"prompt", 'p'};
  SamplingOptions sampling_;
  std::optional<std::string> session_id_;
  bool keep_ = false;
  std::optional<uint64_t> expected_position_;
  std::optional<uint64_t> max_tokens_ = 200;
  std::vector<std::string> stop_;
  std::vector<int32_t> stop_tokens_;
  bool ignore_eos_ = false;
  bool reuse_prefix_ = false;
  std::optional<uint32_t> logprobs_;
  bool json_ = false;
  bool summary_ = false;

  std::vector<Input> pieces_;
  bool print_ids_ = false;  // the model has no tokenizer
};

absl::Status GenerateCommand::Prepare(
    const std::vector<std::string>& arguments) {
  const absl::Status taken = input_.TakeArguments(arguments);
  if (!taken.ok()) return taken;
  if (logprobs_ && !json_) {
    return absl::InvalidArgumentError("--logprobs needs --json");
  }
  if (keep_ && session_id_) {
    return absl::InvalidArgumentError(
        "--keep is for fresh sessions; the one of --session stays anyway");
  }
  const auto input = input_.Read();
  if (!input.ok()) return input.status();
  if (*input) pieces_ = Cut(**input, kPromptPiece);
  if (*input && pieces_.empty() && !session_id_) {
    return absl::InvalidArgumentError(absl::StrCat(
        input_.Source(), " is empty, and a fresh session needs a prompt"));
  }
  if (pieces_.empty() && !session_id_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a fresh session needs a prompt: one of ", input_.Names()));
  }
  return absl::OkStatus();
}

v1::GenerateRequest GenerateCommand::LastRequest() const {
  v1::GenerateRequest request;
  *request.mutable_sampling() = sampling_.ToProto();
  if (max_tokens_) request.set_max_tokens(*max_tokens_);
  for (const std::string& stop : stop_) request.add_stop(stop);
  for (const int32_t token : stop_tokens_) request.add_stop_tokens(token);
  request.set_ignore_eos(ignore_eos_);
  if (logprobs_) request.set_logprobs(*logprobs_);
  return request;
}

absl::Status GenerateCommand::Print(const v1::GenerateResponse& message) const {
  if (!print_ids_) return client::Print(message.text_delta());
  std::string ids;
  for (const auto& token : message.tokens()) {
    absl::StrAppend(&ids, token.token(), " ");
  }
  return client::Print(ids);
}

// Beside the text, which goes on.
void WarnOfEnd(absl::Time requests_until) {
  std::fprintf(stderr,
               "\nnote: the server is about to shut down; it takes requests "
               "until %s\n",
               absl::FormatTime(requests_until).c_str());
}

absl::Status GenerateCommand::Send(const Connection& connection,
                                   const v1::GenerateRequest& request,
                                   bool print, GenerationReport& report) const {
  return connection.client.Generate(
      request,
      [&](const v1::GenerateResponse& message) {
        report.Add(message, std::chrono::steady_clock::now());
        if (message.has_going_away()) WarnOfEnd(*report.going_away());
        return print ? Print(message) : absl::OkStatus();
      },
      connection.call);
}

absl::Status GenerateCommand::Generate(const Connection& connection,
                                       const std::string& session,
                                       GenerationReport& report) const {
  size_t total = 0;
  for (const Input& piece : pieces_) total += Length(piece);
  const bool is_text =
      !pieces_.empty() && std::holds_alternative<std::string>(pieces_[0]);
  ProgressBar bar("prompt", is_text ? "bytes" : "tokens", total,
                  ProgressBar::StandardError());
  std::optional<uint64_t> position = expected_position_;
  for (size_t i = 0, done = 0; i + 1 < pieces_.size(); ++i) {
    v1::GenerateRequest request;
    request.set_session(session);
    request.set_max_tokens(0);
    request.set_reuse_prefix(reuse_prefix_ && i == 0);
    SetInput(pieces_[i], request);
    if (position) request.set_expected_position(*position);
    const absl::Status sent = Send(connection, request, false, report);
    if (!sent.ok()) return sent;
    position = report.position();
    done += Length(pieces_[i]);
    bar.Update(done);
  }
  bar.Erase();
  v1::GenerateRequest request = LastRequest();
  request.set_session(session);
  if (!pieces_.empty()) SetInput(pieces_.back(), request);
  request.set_reuse_prefix(reuse_prefix_ && pieces_.size() == 1);
  if (position) request.set_expected_position(*position);
  return Send(connection, request, !json_, report);
}

absl::Status GenerateCommand::Run(const Connection& connection) {
  v1::GetModelRequest model_request;
  model_request.set_name("models/-");
  const auto model =
      connection.client.GetModel(model_request, connection.unary);
  if (!model.ok()) return model.status();
  print_ids_ = model->tokenizer().empty();
  // What others are to find is made to last.
  auto use = session_id_ || keep_ || reuse_prefix_
                 ? SessionUse::Open(connection, session_id_)
                 : SessionUse::OpenEphemeral(connection);
  if (!use.ok()) return use.status();
  if (session_id_ && reuse_prefix_ && use->session().position() > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--reuse_prefix is for sessions that have absorbed nothing, and ",
        use->session().name(), " is at position ", use->session().position(),
        ": leave it out, or generate without --session"));
  }
  if (keep_) {
    use->Keep();
    std::fprintf(stderr, "%s\n", use->session().name().c_str());
  }
  GenerationReport report(std::chrono::steady_clock::now());
  absl::Status generated = Generate(connection, use->session().name(), report);
  // The session that an interruption ends first may end the generation with an
  // error of its own.
  if (!generated.ok() && connection.call.canceller->cancelled()) {
    generated = absl::CancelledError(generated.message());
  }
  const absl::Status reported = Tell(generated, *use, report);
  return generated.ok() ? reported : generated;
}

absl::Status GenerateCommand::Tell(const absl::Status& generated,
                                   const SessionUse& use,
                                   GenerationReport& report) const {
  if (!generated.ok()) {
    // What came before an interruption or a timeout was asked for as well.
    if (!absl::IsCancelled(generated) && !absl::IsDeadlineExceeded(generated)) {
      return generated;
    }
    report.EndedBy(generated.code());
  }
  if (summary_) {
    // Begins a line: the text above need not end with one.
    std::fprintf(stderr, "\n%s",
                 report.Summary(use.session(), use.owned()).c_str());
  }
  if (json_) return PrintJson(report.ToJson(use.session()));
  if (isatty(STDOUT_FILENO) != 0) return client::Print("\n");
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<Command> MakeGenerateCommand() {
  return std::make_unique<GenerateCommand>();
}

}  // namespace steadystate::client
