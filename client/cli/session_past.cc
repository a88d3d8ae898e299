// `steadystate session fork | rewind | checkpoint` and `checkpoint list |
// delete`: sessions as they were.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/output.h"
#include "client/cli/session.h"

namespace steadystate::client {
namespace {

class SessionForkCommand : public Command {
 public:
  CommandText text() const override {
    return {"session fork", "ID", "Copies a session",
            "Creates a copy of a session, as it is now or was at an earlier "
            "position, or several, and prints their names. A copy goes on just "
            "as the session itself would, which does not notice.",
            "  steadystate session fork my-session --id my-other-session\n"
            "  steadystate session fork my-session --count 8 --at 120\n"};
  }

  OptionTable options() override {
    return {
        {"id", "NEW",
         "The copy's id. May be repeated, for several copies. Default: the "
         "server makes one.",
         [this](absl::string_view id) -> absl::Status {
           for (const std::string& given : request_.session_ids()) {
             if (given != id) continue;
             return absl::InvalidArgumentError(absl::StrCat(
                 "'", id, "' is given twice: each copy has an id of its own"));
           }
           request_.add_session_ids(std::string(id));
           return absl::OkStatus();
         }},
        {"count", "N", "How many copies, at most 256. Default: 1.", &count_},
        {"at", "POSITION",
         "Where the session was that is copied: from its earliest_position on. "
         "Default: where it is.",
         &position_}};
  }

  absl::Status Prepare(const std::vector<std::string>& arguments) override {
    const absl::Status checked = CheckIds(arguments, 1, 1);
    if (!checked.ok()) return checked;
    request_.set_name(SessionName(arguments[0]));
    if (count_.has_value()) request_.set_count(*count_);
    if (position_.has_value()) request_.set_position(*position_);
    return absl::OkStatus();
  }

  absl::Status Run(const Connection& connection) override {
    const auto forks = connection.client.ForkSession(request_, connection.call);
    if (!forks.ok()) return forks.status();
    for (const std::string& name : forks->sessions()) {
      const absl::Status printed = Print(absl::StrCat(name, "\n"));
      if (!printed.ok()) return printed;
    }
    return absl::OkStatus();
  }

 private:
  v1::ForkSessionRequest request_;
  std::optional<uint32_t> count_;
  std::optional<uint64_t> position_;
};

class SessionRewindCommand : public Command {
 public:
  CommandText text() const override {
    return {"session rewind", "ID", "Takes a session back",
            "Makes a session what it was at an earlier position, and prints "
            "where it is then. `session get` says how far back it can go.",
            "  steadystate session rewind my-session --to 120\n"
            "  steadystate session rewind my-session --back 1\n"
            "  steadystate session rewind my-session --checkpoint prompt\n"};
  }

  OptionTable options() override {
    Option to = {"to", "POSITION", "A position that the session has been at.",
                 &position_};
    to.mistaken = "position|at";
    Option back = {"back", "N", "So many tokens back.", &back_};
    back.mistaken = "by|tokens|tokens_back|steps|count";
    return {std::move(to),
            std::move(back),
            {"checkpoint", "ID", "What a checkpoint is, whatever it was.",
             &checkpoint_},
            {"json", "", "Prints the whole session as JSON.", &json_}};
  }

  absl::Status Prepare(const std::vector<std::string>& arguments) override {
    if (position_.has_value() + back_.has_value() + !checkpoint_.empty() != 1) {
      return absl::InvalidArgumentError(
          "give one of --to, --back and --checkpoint");
    }
    name_ = arguments.empty() ? "" : SessionName(arguments[0]);
    return CheckIds(arguments, 1, 1);
  }

  absl::Status Run(const Connection& connection) override {
    v1::RewindSessionRequest request;
    request.set_name(name_);
    if (position_.has_value()) {
      request.set_position(*position_);
    } else if (!checkpoint_.empty()) {
      request.set_checkpoint(CheckpointName(checkpoint_));
    } else {
      v1::GetSessionRequest where;
      where.set_name(name_);
      const auto session = connection.client.GetSession(where, connection.call);
      if (!session.ok()) return session.status();
      request.set_tokens_back(*back_);
      request.set_expected_position(session->position());
    }
    const auto session =
        connection.client.RewindSession(request, connection.call);
    if (!session.ok()) return session.status();
    if (json_) return PrintJson(ToJson(*session));
    return Print(
        absl::StrCat(session->name(), "  ", session->position(), " tokens\n"));
  }

 private:
  std::string name_;
  std::optional<uint64_t> position_;
  std::optional<uint64_t> back_;
  std::string checkpoint_;
  bool json_ = false;
};

class SessionCheckpointCommand : public Command {
 public:
  CommandText text() const override {
    return {"session checkpoint", "ID", "Keeps a session as it is",
            "Keeps a session as it is now under a name, which is printed: "
            "`session create --from` makes sessions of it that need not read "
            "the same prompt again, `session rewind --checkpoint` takes "
            "sessions back to it. It stays until `checkpoint delete`.",
            "  steadystate session checkpoint my-session --id prompt\n"};
  }

  OptionTable options() override {
    return {{"id", "NEW", "The checkpoint's id. Default: the server makes one.",
             request_.mutable_checkpoint_id()},
            {"json", "", "Prints the whole checkpoint as JSON.", &json_}};
  }

  absl::Status Prepare(const std::vector<std::string>& arguments) override {
    const absl::Status checked = CheckIds(arguments, 1, 1);
    if (checked.ok()) request_.set_session(SessionName(arguments[0]));
    return checked;
  }

  absl::Status Run(const Connection& connection) override {
    const auto checkpoint =
        connection.client.CreateCheckpoint(request_, connection.call);
    if (!checkpoint.ok()) return checkpoint.status();
    if (json_) return PrintJson(ToJson(*checkpoint));
    return Print(absl::StrCat(checkpoint->name(), "\n"));
  }

 private:
  v1::CreateCheckpointRequest request_;
  bool json_ = false;
};

class CheckpointListCommand : public Command {
 public:
  CommandText text() const override {
    return {"checkpoint list", "", "Lists all checkpoints",
            "Prints name, position and bytes of every checkpoint, in the order "
            "of their ids.",
            "  steadystate checkpoint list\n"
            "  steadystate checkpoint list --json\n"};
  }

  OptionTable options() override {
    return {{"json", "", "Prints the checkpoints as a JSON array.", &json_}};
  }

  absl::Status Prepare(const std::vector<std::string>& arguments) override {
    return CheckIds(arguments, 0, 0);
  }

  absl::Status Run(const Connection& connection) override {
    v1::ListCheckpointsRequest request;
    request.set_page_size(1000);
    Json all = Json::array();
    do {
      const auto page =
          connection.client.ListCheckpoints(request, connection.call);
      if (!page.ok()) return page.status();
      for (const v1::Checkpoint& checkpoint : page->checkpoints()) {
        if (json_) {
          all.push_back(ToJson(checkpoint));
          continue;
        }
        const absl::Status printed = Print(
            absl::StrCat(checkpoint.name(), "  ", checkpoint.position(),
                         " tokens  ", checkpoint.state_bytes(), " bytes\n"));
        if (!printed.ok()) return printed;
      }
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty());
    return json_ ? PrintJson(all) : absl::OkStatus();
  }

 private:
  bool json_ = false;
};

class CheckpointDeleteCommand : public Command {
 public:
  CommandText text() const override {
    return {"checkpoint delete", "ID...", "Deletes checkpoints",
            "Deletes each checkpoint named and gives its memory back; stops at "
            "the first that cannot be deleted. What was made of it stays.",
            "  steadystate checkpoint delete prompt\n"};
  }

  OptionTable options() override { return {}; }

  absl::Status Prepare(const std::vector<std::string>& arguments) override {
    ids_ = arguments;
    if (!ids_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError("the checkpoint's id is missing");
  }

  absl::Status Run(const Connection& connection) override {
    for (const std::string& id : ids_) {
      v1::DeleteCheckpointRequest request;
      request.set_name(CheckpointName(id));
      const absl::Status deleted =
          connection.client.DeleteCheckpoint(request, connection.call);
      if (!deleted.ok()) return deleted;
    }
    return absl::OkStatus();
  }

 private:
  std::vector<std::string> ids_;
};

}  // namespace

std::unique_ptr<Command> MakeSessionForkCommand() {
  return std::make_unique<SessionForkCommand>();
}
std::unique_ptr<Command> MakeSessionRewindCommand() {
  return std::make_unique<SessionRewindCommand>();
}
std::unique_ptr<Command> MakeSessionCheckpointCommand() {
  return std::make_unique<SessionCheckpointCommand>();
}
std::unique_ptr<Command> MakeCheckpointListCommand() {
  return std::make_unique<CheckpointListCommand>();
}
std::unique_ptr<Command> MakeCheckpointDeleteCommand() {
  return std::make_unique<CheckpointDeleteCommand>();
}

}  // namespace steadystate::client
