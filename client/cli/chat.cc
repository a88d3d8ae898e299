// `steadystate chat`: a conversation over one session.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cli/command.h"
#include "client/cli/conversation.h"
#include "client/cli/generation.h"
#include "client/cli/input.h"
#include "client/cli/line_reader.h"
#include "client/cli/output.h"
#include "client/cli/session.h"
#include "client/cli/turn_rules.h"
#include "client/mutex.h"
#include "steadystate/error.h"

namespace steadystate::client {
namespace {

// A line goes in one message, of which servers take 4 MiB.
constexpr size_t kMaxLineBytes = size_t{1} << 20;

// How long a turn waits for the one before, which was cut, to leave the
// session, and how long between two looks.
constexpr absl::Duration kBusyTime = absl::Seconds(30);
constexpr absl::Duration kBusyPause = absl::Milliseconds(20);

constexpr absl::string_view kCommands =
    "/undo       takes the last turn back\n"
    "/fork NAME  keeps a copy of the session, as it is now, as session NAME\n"
    "/save NAME  keeps the session, as it is now, as checkpoint NAME\n"
    "/help       shows this\n"
    "/quit       ends the chat, as Ctrl-D does\n"
    "//TEXT      says /TEXT\n"
    "Ctrl-C cuts an answer.\n";

struct ChatOptions {
  std::optional<std::string> session_id;
  TurnOptions turns;
  std::optional<uint64_t> max_tokens = 500;
  SamplingOptions sampling;
};

// Who gets a signal: the answer under way, or else the wait for a line.
class ChatSignals {
 public:
  // `all`: ends with SIGTERM and SIGHUP. Both outlive this object.
  ChatSignals(const Connection& connection, LineReader& lines)
      : connection_(connection), lines_(lines) {
    before_ =
        connection.interrupt->Exchange([this](int signal) { Handle(signal); });
  }
  ~ChatSignals() { connection_.interrupt->Exchange(std::move(before_)); }
  ChatSignals(const ChatSignals&) = delete;
  ChatSignals& operator=(const ChatSignals&) = delete;

  // The answer that SIGINT cuts from now on; nullptr: there is none.
  void SetAnswer(Canceller* answer) {
    const MutexLock lock(mutex_);
    answer_ = answer;
  }

 private:
  void Handle(int signal) {
    const MutexLock lock(mutex_);
    if (answer_ != nullptr && answer_->cancelled()) _exit(kInterrupted);
    if (answer_ != nullptr) answer_->Cancel();
    if (signal != SIGINT) connection_.call.canceller->Cancel();
    if (signal != SIGINT || answer_ == nullptr) lines_.Wake();
  }

  const Connection& connection_;
  LineReader& lines_;
  Interrupt::Handler before_;
  Mutex mutex_;
  Canceller* answer_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

// A chat that goes on. Confined to one thread.
class Chat {
 public:
  // All outlive this object.
  Chat(const Connection& connection, const ChatOptions& options,
       const TurnRules& rules, const v1::Session& session)
      : connection_(connection),
        options_(options),
        rules_(rules),
        session_(session),
        conversation_(rules.conversation) {}

  // Takes lines until there are no more, or /quit.
  absl::Status Run();

 private:
  // What a line brings; an error ends the chat, but where a person can go on.
  absl::Status Take(const std::string& line);
  // What is to be done where no line came.
  absl::Status Interrupted(LineReader::Event event);
  absl::Status Obey(absl::string_view line);
  absl::Status Undo();
  absl::Status Fork(absl::string_view name);
  absl::Status Save(absl::string_view name);

  // Absorbs what the user says and prints the answer.
  absl::Status Answer(absl::string_view said);
  // Calls again while the session is in use, as for a moment after an answer
  // was cut.
  static absl::Status WhileBusy(absl::FunctionRef<absl::Status()> call,
                                const Canceller& canceller);
  // One try of it: SESSION_BUSY if the session is still in use.
  absl::Status Try(absl::string_view said, Canceller& canceller);
  absl::StatusOr<uint64_t> Position() const;

  bool ended() const {
    return quit_ || connection_.call.canceller->cancelled();
  }

  const Connection& connection_;
  const ChatOptions& options_;
  const TurnRules& rules_;
  const v1::Session& session_;
  Conversation conversation_;
  LineReader lines_{STDIN_FILENO, kMaxLineBytes};
  ChatSignals signals_{connection_, lines_};
  const bool interactive_ = isatty(STDIN_FILENO) != 0;
  bool quit_ = false;
};

absl::Status Chat::Run() {
  if (interactive_) {
    std::fprintf(stderr, "%s; /help tells what else can be said\n",
                 session_.name().c_str());
  }
  while (!ended()) {
    if (interactive_) std::fputs("> ", stderr);
    std::string line;
    const LineReader::Event event = lines_.Next(line);
    if (event == LineReader::Event::kEnd) break;
    const absl::Status taken =
        event == LineReader::Event::kLine ? Take(line) : Interrupted(event);
    // What a signal has ended is no error.
    if (taken.ok() || ended()) continue;
    if (!interactive_ || IsReaderGone(taken) || IsUnreachable(taken)) {
      return taken;
    }
    std::fprintf(stderr, "error: %s\n", Described(taken).c_str());
  }
  if (interactive_ && !quit_) std::fputs("\n", stderr);
  return connection_.call.canceller->cancelled()
             ? absl::CancelledError("interrupted")
             : absl::OkStatus();
}

absl::Status Chat::Interrupted(LineReader::Event event) {
  if (event == LineReader::Event::kTooLong) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a line has at most ", kMaxLineBytes, " bytes; this one is left out"));
  }
  if (interactive_ && !ended()) {
    std::fputs("\n/quit or Ctrl-D ends the chat\n", stderr);
  } else {
    // Nobody is there to say more.
    connection_.call.canceller->Cancel();
  }
  return absl::OkStatus();
}

absl::Status Chat::Take(const std::string& line) {
  const absl::string_view said = absl::StripAsciiWhitespace(line);
  if (said.empty()) return absl::OkStatus();
  absl::Status checked = CheckUtf8(said);
  if (checked.ok()) checked = rules_.CheckSaid(said);
  if (!checked.ok()) return checked;
  if (said[0] != '/') return Answer(said);
  if (absl::StartsWith(said, "//")) return Answer(said.substr(1));
  return Obey(said);
}

std::vector<absl::string_view> CommandNames() {
  return {"/undo", "/fork", "/save", "/help", "/quit"};
}

absl::Status Chat::Obey(absl::string_view line) {
  const size_t blank = line.find(' ');
  const absl::string_view command = line.substr(0, blank);
  const absl::string_view name =
      blank == absl::string_view::npos
          ? ""
          : absl::StripAsciiWhitespace(line.substr(blank));
  const bool takes_name = command == "/fork" || command == "/save";
  if (takes_name && name.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(command, " needs a name: ", command, " NAME"));
  }
  if (!takes_name && !name.empty() &&
      Closest(command, CommandNames()) == command) {
    return absl::InvalidArgumentError(absl::StrCat(
        command, " takes nothing more, and '", name, "' came with it",
        command == "/undo" ? "; each /undo takes one turn back" : ""));
  }
  const Canceller& end = *connection_.call.canceller;
  if (command == "/fork") return WhileBusy([&] { return Fork(name); }, end);
  if (command == "/save") return WhileBusy([&] { return Save(name); }, end);
  if (command == "/undo") return WhileBusy([&] { return Undo(); }, end);
  if (command == "/help") {
    std::fputs(std::string(kCommands).c_str(), stderr);
    return absl::OkStatus();
  }
  if (command == "/quit") {
    quit_ = true;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "there is no ", command, DidYouMean(command, CommandNames()),
      "; /help lists what there is. A line that begins with / is said as /",
      command));
}

absl::Status Chat::WhileBusy(absl::FunctionRef<absl::Status()> call,
                             const Canceller& canceller) {
  const absl::Time give_up = absl::Now() + kBusyTime;
  absl::Status status = call();
  while (ReasonOf(status) == v1::SESSION_BUSY && absl::Now() < give_up &&
         !canceller.cancelled()) {
    absl::SleepFor(kBusyPause);
    status = call();
  }
  return status;
}

absl::Status Chat::Undo() {
  const std::optional<uint64_t> position = conversation_.LastBegin();
  if (!position) {
    return absl::FailedPreconditionError(
        "there is no turn of this chat to take back");
  }
  v1::RewindSessionRequest request;
  request.set_name(session_.name());
  request.set_position(*position);
  const auto rewound =
      connection_.client.RewindSession(request, connection_.unary);
  if (!rewound.ok()) return rewound.status();
  conversation_.Undo();
  std::fprintf(stderr, "back at %s tokens\n",
               absl::StrCat(rewound->position()).c_str());
  return absl::OkStatus();
}

absl::Status Chat::Fork(absl::string_view name) {
  v1::ForkSessionRequest request;
  request.set_name(session_.name());
  request.add_session_ids(std::string(name));
  const auto forks = connection_.client.ForkSession(request, connection_.unary);
  if (!forks.ok()) return forks.status();
  std::fprintf(stderr, "%s; this chat goes on in %s\n",
               forks->sessions(0).c_str(), session_.name().c_str());
  return absl::OkStatus();
}

absl::Status Chat::Save(absl::string_view name) {
  v1::CreateCheckpointRequest request;
  request.set_session(session_.name());
  request.set_checkpoint_id(std::string(name));
  const auto checkpoint =
      connection_.client.CreateCheckpoint(request, connection_.unary);
  if (!checkpoint.ok()) return checkpoint.status();
  std::fprintf(stderr, "%s\n", checkpoint->name().c_str());
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> Chat::Position() const {
  v1::GetSessionRequest request;
  request.set_name(session_.name());
  const auto session =
      connection_.client.GetSession(request, connection_.unary);
  if (!session.ok()) return session.status();
  return session->position();
}

absl::Status Chat::Answer(absl::string_view said) {
  Canceller canceller;
  signals_.SetAnswer(&canceller);
  const absl::Status answered =
      WhileBusy([&] { return Try(said, canceller); }, canceller);
  signals_.SetAnswer(nullptr);
  const bool cut = absl::IsCancelled(answered) && canceller.cancelled();
  return answered.ok() || cut ? Print("\n") : answered;
}

absl::Status Chat::Try(absl::string_view said, Canceller& canceller) {
  const absl::StatusOr<uint64_t> position = Position();
  if (!position.ok()) return position.status();
  v1::GenerateRequest request;
  request.set_session(session_.name());
  const auto prompt = rules_.PromptOf(conversation_, said, *position);
  if (!prompt.ok()) return prompt.status();
  const auto tokens = TokensOf(connection_, *prompt);
  if (!tokens.ok()) return tokens.status();
  request.mutable_tokens()->mutable_ids()->Assign(tokens->begin(),
                                                  tokens->end());
  *request.mutable_sampling() = options_.sampling.ToProto();
  if (options_.max_tokens) request.set_max_tokens(*options_.max_tokens);
  const std::string stop = conversation_.stop();
  if (rules_.end_token) {
    request.add_stop_tokens(*rules_.end_token);
  } else if (!stop.empty()) {
    request.add_stop(stop);
  }
  BlankTrimmer trimmer;
  GenerationReport report(std::chrono::steady_clock::now());
  const absl::Status generated = connection_.client.Generate(
      request,
      [&](const v1::GenerateResponse& message) {
        report.Add(message, std::chrono::steady_clock::now());
        return Print(trimmer.Add(message.text_delta()));
      },
      {.timeout = connection_.call.timeout, .canceller = &canceller});
  if (ReasonOf(generated) == v1::SESSION_BUSY) return generated;
  conversation_.Begin(*position, said);
  conversation_.End(report.finish_reason() == v1::STOP_STRING ||
                    (report.finish_reason() == v1::STOP_TOKEN &&
                     rules_.end_token &&
                     report.last_token() == rules_.end_token));
  if (generated.ok()) return generated;
  const absl::StatusOr<uint64_t> after = Position();
  // A turn of which nothing was absorbed is none.
  if (after.ok() && *after == *position) conversation_.Undo();
  return generated;
}

class ChatCommand : public Command {
 public:
  CommandText text() const override {
    return {
        "chat", "", "Talks to the model, turn by turn, over one session",
        "Reads what you say, a line each, and prints what the model answers. "
        "Each turn is sent as the model's chat template writes it, or "
        "between --user_prefix and --assistant_prefix if there is none, and "
        "the answer ends where the model ends its message or begins to speak "
        "for the user. What you say is read as text, whatever marks it spells. "
        "The session keeps what was said: nothing is sent "
        "twice. Lines that begin with / are commands: /undo takes the last "
        "turn back, /fork NAME keeps a copy of the session, /save NAME a "
        "checkpoint; /help lists them. Ctrl-C cuts an answer, Ctrl-D or /quit "
        "ends the chat. Lines may come from a pipe; the first error then ends "
        "the chat.",
        "  steadystate chat\n"
        "  steadystate chat --session ada --system 'You are terse.'\n"
        "  steadystate chat --user_prefix '\\n### Instruction:\\n' \\\n"
        "    --assistant_prefix '\\n### Response:\\n'\n"
        "  printf 'Hello.\\nWho are you?\\n' | steadystate chat -t 0\n"};
  }

  OptionTable options() override {
    OptionTable table = {
        {"session", "ID",
         "Goes on with this session, made if it is not there, and leaves it in "
         "place. Default: a fresh one, deleted at the end.",
         &options_.session_id, 's'},
    };
    options_.turns.AppendTo(table);
    table.push_back({"max_tokens", "N|none", "Most tokens of an answer.",
                     [this](absl::string_view text) {
                       const auto count = ParseMaxTokens(text);
                       if (count.ok()) options_.max_tokens = *count;
                       return count.status();
                     },
                     'n', "", "500"});
    options_.sampling.AppendTo(table);
    return table;
  }

  absl::Duration default_timeout() const override {
    return absl::InfiniteDuration();
  }

  absl::Status Prepare(const std::vector<std::string>& arguments) override {
    if (arguments.empty()) return options_.turns.Check();
    return absl::InvalidArgumentError(
        absl::StrCat("unexpected '", arguments[0],
                     "'; what you say is read from standard input"));
  }

  absl::Status Run(const Connection& connection) override;

 private:
  absl::StatusOr<SessionUse> Open(const Connection& connection) const;

  ChatOptions options_;
};

absl::StatusOr<SessionUse> ChatCommand::Open(
    const Connection& connection) const {
  auto use = SessionUse::Open(connection, options_.session_id);
  if (!options_.session_id || !absl::IsNotFound(use.status())) return use;
  absl::string_view id = *options_.session_id;
  absl::ConsumePrefix(&id, "sessions/");
  v1::CreateSessionRequest request;
  request.set_session_id(std::string(id));
  const auto made = connection.client.CreateSession(request, connection.unary);
  if (!made.ok()) return made.status();
  return SessionUse::Open(connection, options_.session_id);
}

absl::Status ChatCommand::Run(const Connection& connection) {
  const auto rules = RulesOf(connection, options_.turns);
  if (!rules.ok()) return rules.status();
  const auto use = Open(connection);
  if (!use.ok()) return use.status();
  if (!options_.turns.system.empty() && use->session().position() > 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--system is what a session begins with, and ", use->session().name(),
        " is at ", use->session().position(), " tokens already"));
  }
  return Chat(connection, options_, *rules, use->session()).Run();
}

}  // namespace

std::unique_ptr<Command> MakeChatCommand() {
  return std::make_unique<ChatCommand>();
}

}  // namespace steadystate::client
