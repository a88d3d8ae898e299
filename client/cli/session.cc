// `steadystate session create | get | export | import | hibernate`, and the
// session that other commands work in.
#include "client/cli/session.h"

#include <random>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "client/cli/input.h"
#include "client/cli/output.h"

namespace steadystate::client {
namespace {

absl::Status CheckCount(const std::vector<std::string>& arguments, size_t least,
                        size_t most) {
  if (arguments.size() < least) {
    return absl::InvalidArgumentError("the session's id is missing");
  }
  if (arguments.size() > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("unexpected '", arguments[most], "'"));
  }
  return absl::OkStatus();
}

class SessionCreateCommand : public Command {
 public:
  CommandText text() const override {
    return {"session create", "", "Creates a session and prints its name",
            "Reserves the memory of one session, at position 0 or as a "
            "checkpoint is, and prints its name.",
            "  steadystate session create\n"
            "  steadystate session create --id my-session --ttl 10m\n"
            "  steadystate session create --label user=ada --json\n"};
  }

  OptionTable options() override {
    return {
        {"id", "ID",
         "1 to 63 of a-z, 0-9 and -, beginning with a letter or digit. "
         "Default: the server makes one.",
         [this](absl::string_view id) -> absl::Status {
           if (id.empty()) {
             return absl::InvalidArgumentError(
                 "'' is no id: leave it out, and the server makes one");
           }
           request_.set_session_id(std::string(id));
           return absl::OkStatus();
         }},
        {"ttl", "DURATION",
         "How long the session may be idle, such as 90s or 12h; 1s to 720h. "
         "Default: the server's.",
         &ttl_},
        {"label", "KEY=VALUE", "A note that the server keeps. May be repeated.",
         [this](absl::string_view text) {
           return ReadLabel(text,
                            *request_.mutable_session()->mutable_labels());
         }},
        {"from", "CHECKPOINT",
         "The session begins as the checkpoint is. Default: at position 0.",
         [this](absl::string_view id) {
           request_.set_from_checkpoint(CheckpointName(id));
           return absl::OkStatus();
         }},
        {"context_cap", "N",
         "Most tokens of the session, of a model with softmax layers: memory "
         "for them is reserved. Default: the server's.",
         &context_cap_},
        {"durability", "MODE",
         "What of the session outlives the server: none, shutdown, log or "
         "sync. Default: the server's.",
         [this](absl::string_view text) -> absl::Status {
           const auto durability = ParseDurability(text);
           if (!durability.ok()) return durability.status();
           request_.mutable_session()->set_durability(*durability);
           return absl::OkStatus();
         }},
        {"json", "", "Prints the whole session as JSON.", &json_}};
  }

  absl::Status Prepare(const std::vector<std::string>& arguments) override {
    if (ttl_ != absl::InfiniteDuration()) {
      SetTtl(ttl_, *request_.mutable_session());
    }
    if (context_cap_.has_value()) {
      request_.mutable_session()->set_context_cap(*context_cap_);
    }
    return CheckIds(arguments, 0, 0);
  }

  absl::Status Run(const Connection& connection) override {
    const auto session =
        connection.client.CreateSession(request_, connection.call);
    if (!session.ok()) return session.status();
    if (json_) return PrintJson(ToJson(*session));
    return Print(absl::StrCat(session->name(), "\n"));
  }

 private:
  v1::CreateSessionRequest request_;
  absl::Duration ttl_ = absl::InfiniteDuration();  // the server's
  std::optional<uint64_t> context_cap_;            // the same
  bool json_ = false;
};

class SessionGetCommand : public Command {
 public:
  CommandText text() const override {
    return {"session get", "ID", "Shows one session",
            "Prints a session's position (tokens absorbed so far), state_bytes "
            "(what it is charged of memory), ttl (how long it may be idle, in "
            "seconds), "
            "earliest_position (how far back `session rewind` and `session "
            "fork --at` reach, beside 0), durability (what of it outlives "
            "what) and more. client/README.md explains each.",
            "  steadystate session get my-session\n"
            "  steadystate session get my-session --norms\n"
            "  steadystate session get my-session --json\n"};
  }

  OptionTable options() override {
    return {{"norms", "",
             "Also prints how large the numbers of each layer's state are.",
             &norms_},
            {"json", "", "Prints the session as JSON.", &json_}};
  }

  absl::Status Prepare(const std::vector<std::string>& arguments) override {
    const absl::Status checked = CheckIds(arguments, 1, 1);
    if (checked.ok()) request_.set_name(SessionName(arguments[0]));
    request_.set_state_norms(norms_);
    return checked;
  }

  absl::Status Run(const Connection& connection) override {
    const auto session =
        connection.client.GetSession(request_, connection.call);
    if (!session.ok()) return session.status();
    if (json_) return PrintJson(ToJson(*session));
    Json shown = ToJson(*session);
    shown.erase("state_norms");  // which a table shows
    return Print(
        absl::StrCat(FormatLines(shown), norms_ ? FormatNorms(*session) : ""));
  }

 private:
  static std::string FormatNorms(const v1::Session& session) {
    std::string text =
        absl::StrFormat("\n%5s  %-12s  %12s  %12s  %10s\n", "layer", "slot",
                        "l2_norm", "max_abs", "non_finite");
    for (const v1::SlotNorm& norm : session.state_norms()) {
      absl::StrAppendFormat(&text, "%5d  %-12s  %12.6g  %12.6g  %10d\n",
                            norm.layer(), norm.name(), norm.l2_norm(),
                            norm.max_abs(), norm.non_finite());
    }
    return text;
  }

  v1::GetSessionRequest request_;
  bool norms_ = false;
  bool json_ = false;
};

class SessionExportCommand : public Command {
 public:
  CommandText text() const override {
    return {"session export", "ID FILE", "Writes a session to a file",
            "Writes a snapshot of a session, as it is now, from which `session "
            "import` makes a session on any server with the same model. FILE "
            "is there only when it is whole, and one of before is replaced; "
            "'-' is standard output.",
            "  steadystate session export my-session my-session.snapshot\n"};
  }

  OptionTable options() override { return {}; }

  absl::Status Prepare(const std::vector<std::string>& arguments) override {
    const absl::Status checked = CheckIdAndFile(arguments);
    if (!checked.ok()) return checked;
    request_.set_name(SessionName(arguments[0]));
    path_ = arguments[1];
    return absl::OkStatus();
  }

  absl::Status Run(const Connection& connection) override {
    std::string snapshot;
    const absl::Status exported = connection.client.ExportSession(
        request_,
        [&snapshot](const v1::ExportSessionResponse& part) {
          snapshot.reserve(static_cast<size_t>(part.snapshot_bytes()));
          snapshot += part.chunk();
          return absl::OkStatus();
        },
        connection.call);
    if (!exported.ok()) return exported;
    return path_ == "-" ? Print(snapshot) : WriteFile(path_, snapshot);
  }

 private:
  static absl::Status CheckIdAndFile(
      const std::vector<std::string>& arguments) {
    if (arguments.empty()) {
      return absl::InvalidArgumentError(
          "the session's id and the file's name are missing");
    }
    if (arguments.size() == 1) {
      return absl::InvalidArgumentError("the file's name is missing");
    }
    const absl::Status counted = CheckCount(arguments, 2, 2);
    return counted.ok() ? CheckIds({arguments[0]}, 1, 1) : counted;
  }

  v1::ExportSessionRequest request_;
  std::string path_;
};

class SessionImportCommand : public Command {
 public:
  CommandText text() const override {
    return {"session import", "FILE", "Makes a session of a file",
            "Creates a session from what `session export` has written, and "
            "prints its name. It goes on where the other one was. '-' is "
            "standard input.",
            "  steadystate session import my-session.snapshot\n"
            "  steadystate session import my-session.snapshot --id other\n"};
  }

  OptionTable options() override {
    return {{"id", "NEW", "The session's id. Default: that in the file.",
             request_.mutable_session_id()}};
  }

  absl::Status Prepare(const std::vector<std::string>& arguments) override {
    if (arguments.empty()) {
      return absl::InvalidArgumentError("the file's name is missing");
    }
    path_ = arguments[0];
    return CheckCount(arguments, 1, 1);
  }

  absl::Status Run(const Connection& connection) override {
    const absl::StatusOr<std::string> snapshot = ReadFile(path_);
    if (!snapshot.ok()) return snapshot.status();
    const auto session =
        connection.client.ImportSession(request_, *snapshot, connection.call);
    if (!session.ok()) return session.status();
    return Print(absl::StrCat(session->name(), "\n"));
  }

 private:
  v1::ImportSessionRequest request_;
  std::string path_;
};

class SessionHibernateCommand final : public Command {
 public:
  CommandText text() const override {
    return {"session hibernate", "ID...",
            "Moves sessions to the server's store",
            "Gives the memory of each session named to others, once its state "
            "is in the server's store; its next use brings it back. Stops at "
            "the first that cannot be moved, as while it is in use.",
            "  steadystate session hibernate my-session\n"};
  }

  OptionTable options() override { return {}; }

  absl::Status Prepare(const std::vector<std::string>& arguments) override {
    ids_ = arguments;
    return CheckIds(arguments, 1, arguments.size());
  }

  absl::Status Run(const Connection& connection) override {
    for (const std::string& id : ids_) {
      v1::HibernateSessionRequest request;
      request.set_name(SessionName(id));
      const absl::Status done =
          connection.client.HibernateSession(request, connection.call);
      if (!done.ok()) return done;
    }
    return absl::OkStatus();
  }

 private:
  std::vector<std::string> ids_;
};

}  // namespace

absl::Status CheckIds(const std::vector<std::string>& arguments, size_t least,
                      size_t most) {
  absl::Status checked = CheckCount(arguments, least, most);
  for (const std::string& argument : arguments) {
    if (checked.ok()) checked = CheckUtf8(argument);
  }
  return checked;
}

absl::Status ReadLabel(
    absl::string_view text,
    google::protobuf::Map<std::string, std::string>& labels) {
  const std::vector<std::string> parts =
      absl::StrSplit(text, absl::MaxSplits('=', 1));
  if (parts.size() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not KEY=VALUE"));
  }
  labels[parts[0]] = parts[1];
  return absl::OkStatus();
}

void SetTtl(absl::Duration ttl, v1::Session& session) {
  absl::Duration rest = ttl;
  auto& to = *session.mutable_ttl();
  to.set_seconds(absl::IDivDuration(rest, absl::Seconds(1), &rest));
  to.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
}

absl::StatusOr<v1::Session::Durability> ParseDurability(
    absl::string_view text) {
  v1::Session::Durability durability = v1::Session::DURABILITY_UNSPECIFIED;
  if (!v1::Session::Durability_Parse(absl::AsciiStrToUpper(text),
                                     &durability) ||
      durability == v1::Session::DURABILITY_UNSPECIFIED) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not none, shutdown, log or sync"));
  }
  return durability;
}

namespace {

std::string NameIn(absl::string_view collection, absl::string_view id) {
  if (absl::StartsWith(id, collection)) return std::string(id);
  return absl::StrCat(collection, id);
}

}  // namespace

std::string SessionName(absl::string_view id) {
  return NameIn("sessions/", id);
}

std::string CheckpointName(absl::string_view id) {
  return NameIn("checkpoints/", id);
}

absl::StatusOr<SessionUse> SessionUse::Open(
    const Connection& connection, const std::optional<std::string>& id) {
  absl::StatusOr<v1::Session> session;
  if (id) {
    v1::GetSessionRequest request;
    request.set_name(SessionName(*id));
    session = connection.client.GetSession(request, connection.unary);
  } else {
    session = connection.client.CreateSession({}, connection.unary);
  }
  if (!session.ok()) return session.status();
  return SessionUse(&connection, *std::move(session), !id);
}

namespace {

// As servers make them.
std::string RandomId() {
  constexpr absl::string_view kDigits = "abcdefghijklmnopqrstuvwxyz234567";
  constexpr size_t kLength = 26;
  std::random_device random;
  std::string id;
  while (id.size() < kLength) id.push_back(kDigits[random() % kDigits.size()]);
  return id;
}

}  // namespace

absl::StatusOr<SessionUse> SessionUse::OpenEphemeral(
    const Connection& connection) {
  StepStreamOptions options;
  options.call.canceller = connection.unary.canceller;
  std::unique_ptr<StepStream> stream =
      StepStream::Open(connection.client, options);
  const std::string name = SessionName(RandomId());
  absl::Status made =
      stream->Send(stream->AddSession(name, 0), {.ephemeral = true});
  if (made.ok()) {
    const std::optional<StepAnswer> answer = stream->Next();
    made = answer ? answer->step.status() : stream->Finish();
    if (!answer && made.ok()) made = absl::UnavailableError("no answer");
  }
  if (absl::IsResourceExhausted(made)) return Open(connection, std::nullopt);
  if (!made.ok()) return made;
  auto use = Open(connection, name);
  if (!use.ok()) return use;
  use->owned_ = true;
  use->stream_ = std::move(stream);
  return use;
}

SessionUse::~SessionUse() {
  if (connection_ == nullptr || !owned_) return;
  v1::DeleteSessionRequest request;
  request.set_name(session_.name());
  // Without the command's canceller, which may have been used already. If this
  // fails the session expires by itself.
  connection_->client.DeleteSession(request, {.timeout = absl::Seconds(2)})
      .IgnoreError();
}

std::unique_ptr<Command> MakeSessionCreateCommand() {
  return std::make_unique<SessionCreateCommand>();
}
std::unique_ptr<Command> MakeSessionGetCommand() {
  return std::make_unique<SessionGetCommand>();
}
std::unique_ptr<Command> MakeSessionExportCommand() {
  return std::make_unique<SessionExportCommand>();
}
std::unique_ptr<Command> MakeSessionImportCommand() {
  return std::make_unique<SessionImportCommand>();
}
std::unique_ptr<Command> MakeSessionHibernateCommand() {
  return std::make_unique<SessionHibernateCommand>();
}

}  // namespace steadystate::client
