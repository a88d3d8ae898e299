// `steadystate session fork | rewind`: sessions as they were.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
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
         [this](absl::string_view id) {
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
            "  steadystate session rewind my-session --back 1\n"};
  }

  OptionTable options() override {
    return {{"to", "POSITION", "A position that the session has been at.",
             &position_},
            {"back", "N", "So many tokens back.", &back_},
            {"json", "", "Prints the whole session as JSON.", &json_}};
  }

  absl::Status Prepare(const std::vector<std::string>& arguments) override {
    if (position_.has_value() == back_.has_value()) {
      return absl::InvalidArgumentError("give either --to or --back");
    }
    name_ = arguments.empty() ? "" : SessionName(arguments[0]);
    return CheckIds(arguments, 1, 1);
  }

  absl::Status Run(const Connection& connection) override {
    v1::RewindSessionRequest request;
    request.set_name(name_);
    if (position_.has_value()) {
      request.set_position(*position_);
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
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeSessionForkCommand() {
  return std::make_unique<SessionForkCommand>();
}
std::unique_ptr<Command> MakeSessionRewindCommand() {
  return std::make_unique<SessionRewindCommand>();
}

}  // namespace steadystate::client
