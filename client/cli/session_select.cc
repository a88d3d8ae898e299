// `steadystate session list | delete`: all sessions, those that are chosen by
// their id or their labels, or those that are named.
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/output.h"
#include "client/cli/session.h"

namespace steadystate::client {
namespace {

// Which sessions a command is about.
class SessionFilter {
 public:
  // What `list` and `delete` are given.
  Option MatchOption() {
    return {
        "match", "GLOB",
        "Only sessions whose id matches: * stands for any characters, ? for "
        "one. Quote it for the shell.",
        [this](absl::string_view glob) { return SetMatch(glob); }};
  }
  Option LabelOption() {
    return {"label", "KEY=VALUE",
            "Only sessions with this label. May be repeated: those with all of "
            "them.",
            [this](absl::string_view text) {
              return ReadLabel(text, *request_.mutable_labels());
            }};
  }

  // False if it lets all sessions through.
  bool chooses() const {
    return !request_.match().empty() || !request_.labels().empty();
  }

  // Calls `each` with every session that there is; ends at its first error.
  absl::Status ForEach(
      const Connection& connection,
      absl::FunctionRef<absl::Status(const v1::Session&)> each) const {
    v1::ListSessionsRequest request = request_;
    request.set_page_size(1000);
    do {
      const auto page =
          connection.client.ListSessions(request, connection.call);
      if (!page.ok()) return page.status();
      for (const v1::Session& session : page->sessions()) {
        const absl::Status done = each(session);
        if (!done.ok()) return done;
      }
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty());
    return absl::OkStatus();
  }

 private:
  // To the server an empty one means all sessions.
  absl::Status SetMatch(absl::string_view glob) {
    if (glob.empty()) {
      return absl::InvalidArgumentError(
          "'' matches no id: for all sessions leave it out");
    }
    request_.set_match(std::string(glob));
    return absl::OkStatus();
  }

  v1::ListSessionsRequest request_;
};

class SessionListCommand final : public Command {
 public:
  CommandText text() const override {
    return {"session list", "", "Lists sessions",
            "Prints name, position, bytes and state of every session, or of "
            "those that are chosen, in the order of their ids; behind that "
            "other_numerics, if a part was computed elsewhere, and the reason "
            "with which the server refuses a session that it cannot use.",
            "  steadystate session list\n"
            "  steadystate session list --match 'load-*'\n"
            "  steadystate session list --label user=ada --json\n"};
  }

  OptionTable options() override {
    return {filter_.MatchOption(),
            filter_.LabelOption(),
            {"json", "", "Prints the sessions as a JSON array.", &json_}};
  }

  absl::Status Prepare(const std::vector<std::string>& arguments) override {
    return CheckIds(arguments, 0, 0);
  }

  absl::Status Run(const Connection& connection) override {
    Json all = Json::array();
    const absl::Status listed =
        filter_.ForEach(connection, [&](const v1::Session& session) {
          if (!json_) return PrintLine(session);
          all.push_back(ToJson(session));
          return absl::OkStatus();
        });
    return listed.ok() && json_ ? PrintJson(all) : listed;
  }

 private:
  static absl::Status PrintLine(const v1::Session& session) {
    const std::string unusable = session.unusable().empty()
                                     ? ""
                                     : absl::StrCat("  ", session.unusable());
    return Print(absl::StrFormat(
        "%s  %d tokens  %d bytes  %s%s%s\n", session.name(), session.position(),
        session.state_bytes(), v1::Session::State_Name(session.state()),
        session.other_numerics() ? "  other_numerics" : "", unusable));
  }

  SessionFilter filter_;
  bool json_ = false;
};

class SessionDeleteCommand final : public Command {
 public:
  CommandText text() const override {
    return {"session delete", "[ID...]", "Deletes sessions",
            "Deletes each session named and gives its memory back; stops at "
            "the first that cannot be deleted. Or deletes all sessions, or "
            "those that are chosen, without asking: prints the name of each, "
            "and goes on past those that vanish meanwhile.",
            "  steadystate session delete my-session\n"
            "  steadystate session delete --match 'load-*'\n"
            "  steadystate session delete --all\n"};
  }

  OptionTable options() override {
    return {{"all", "", "Deletes every session that the server has.", &all_},
            filter_.MatchOption(),
            filter_.LabelOption()};
  }

  absl::Status Prepare(const std::vector<std::string>& arguments) override {
    if (all_ && filter_.chooses()) {
      return absl::InvalidArgumentError(
          "--all deletes every session: leave it out, or --match and --label");
    }
    if (!all_ && !filter_.chooses()) {
      names_.reserve(arguments.size());
      for (const std::string& id : arguments) names_.push_back(SessionName(id));
      return CheckIds(arguments, 1, arguments.size());
    }
    if (arguments.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "unexpected '", arguments[0],
        "': name the sessions, or choose them by --all, --match or --label"));
  }

  absl::Status Run(const Connection& connection) override {
    for (const std::string& name : names_) {
      const absl::Status deleted = Delete(name, connection);
      if (!deleted.ok()) return deleted;
    }
    return names_.empty() ? DeleteChosen(connection) : absl::OkStatus();
  }

 private:
  static absl::Status Delete(const std::string& name,
                             const Connection& connection) {
    v1::DeleteSessionRequest request;
    request.set_name(name);
    return connection.client.DeleteSession(request, connection.call);
  }

  // Says how many there were, also where others could not be deleted.
  absl::Status DeleteChosen(const Connection& connection) const {
    size_t count = 0;
    const absl::Status status =
        filter_.ForEach(connection, [&](const v1::Session& session) {
          const absl::Status deleted = Delete(session.name(), connection);
          if (absl::IsNotFound(deleted)) return absl::OkStatus();
          if (!deleted.ok()) return deleted;
          ++count;
          return Print(absl::StrCat(session.name(), "\n"));
        });
    if (status.ok() || (count > 0 && !IsReaderGone(status))) {
      absl::FPrintF(stderr, "%d session%s deleted\n", count,
                    count == 1 ? "" : "s");
    }
    return status;
  }

  bool all_ = false;
  SessionFilter filter_;
  std::vector<std::string> names_;  // empty: those chosen
};

}  // namespace

std::unique_ptr<Command> MakeSessionListCommand() {
  return std::make_unique<SessionListCommand>();
}
std::unique_ptr<Command> MakeSessionDeleteCommand() {
  return std::make_unique<SessionDeleteCommand>();
}

}  // namespace steadystate::client
