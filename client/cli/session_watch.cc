// `steadystate session watch`: what happens to sessions, as it happens.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "client/cli/output.h"
#include "client/cli/session.h"

namespace steadystate::client {
namespace {

// "2026-11-24T22:10:03.250Z  FORKED  sessions/b  17 tokens  of sessions/a".
std::string LineOf(const v1::SessionEvent& event) {
  const absl::Time time = absl::FromUnixSeconds(event.time().seconds()) +
                          absl::Nanoseconds(event.time().nanos());
  return absl::StrFormat(
      "%s  %s  %s  %d tokens%s%s\n",
      absl::FormatTime("%Y-%m-%d%ET%H:%M:%E3SZ", time, absl::UTCTimeZone()),
      v1::SessionEvent::Kind_Name(event.kind()), event.session(),
      event.position(), event.parent().empty() ? "" : "  of ", event.parent());
}

class SessionWatchCommand final : public Command {
 public:
  CommandText text() const override {
    return {"session watch", "[ID]", "Shows what happens to sessions",
            "Prints a line for each session that is created, leaves memory, "
            "comes back, goes back or ends, as it happens, until it is "
            "interrupted; then it ends with 0. It says on standard error with "
            "which --cursor another one goes on.",
            "  steadystate session watch\n"
            "  steadystate session watch my-session --json\n"};
  }

  OptionTable options() override {
    return {{"cursor", "CURSOR",
             "Begins with what has happened since an earlier one ended. A "
             "cursor ends with the server that gave it. Default: now.",
             request_.mutable_cursor()},
            {"json", "",
             "Prints a line of JSON for each message: its events, which may be "
             "several or none, and the cursor after them.",
             &json_}};
  }

  absl::Duration default_timeout() const override {
    return absl::InfiniteDuration();
  }

  absl::Status Prepare(const std::vector<std::string>& arguments) override {
    if (!arguments.empty()) request_.set_session(SessionName(arguments[0]));
    return CheckIds(arguments, 0, 1);
  }

  absl::Status Run(const Connection& connection) override {
    std::string cursor;
    const absl::Status ended = connection.client.WatchSessions(
        request_,
        [&](const v1::WatchSessionsResponse& message) {
          const absl::Status printed = PrintMessage(message);
          if (printed.ok()) cursor = message.cursor();
          return printed;
        },
        connection.call);
    if (!cursor.empty()) {
      std::fprintf(stderr, "to go on: --cursor %s\n", cursor.c_str());
    }
    return connection.call.canceller->cancelled() ? absl::OkStatus() : ended;
  }

 private:
  absl::Status PrintMessage(const v1::WatchSessionsResponse& message) const {
    if (json_) return Print(absl::StrCat(ToJson(message).dump(), "\n"));
    for (const v1::SessionEvent& event : message.events()) {
      const absl::Status printed = Print(LineOf(event));
      if (!printed.ok()) return printed;
    }
    return absl::OkStatus();
  }

  v1::WatchSessionsRequest request_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeSessionWatchCommand() {
  return std::make_unique<SessionWatchCommand>();
}

}  // namespace steadystate::client
