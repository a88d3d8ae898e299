// `steadystate session update`: what of a session its client chooses.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/cli/output.h"
#include "client/cli/session.h"

namespace steadystate::client {
namespace {

class SessionUpdateCommand : public Command {
 public:
  CommandText text() const override {
    return {"session update", "ID", "Changes a session",
            "Changes how many tokens a session can absorb, how long it may be "
            "idle, or its labels, and prints the session's name. What is not "
            "given stays as it is.",
            "  steadystate session update my-session --context_cap 32768\n"
            "  steadystate session update my-session --ttl 12h\n"
            "  steadystate session update my-session --label user=ada\n"};
  }

  OptionTable options() override {
    return {
        {"context_cap", "N",
         "Most tokens of the session, of a model with softmax layers; at "
         "least its position. More needs more of the server's memory.",
         &context_cap_},
        {"ttl", "DURATION",
         "How long the session may be idle, such as 90s or 12h; 1s to "
         "720h.",
         &ttl_},
        {"label", "KEY=VALUE",
         "A note that the server keeps, in place of all that it has. May "
         "be repeated.",
         [this](absl::string_view text) {
           return ReadLabel(text,
                            *request_.mutable_session()->mutable_labels());
         }},
        {"clear_labels", "", "The session keeps no labels.", &clear_labels_},
        {"json", "", "Prints the whole session as JSON.", &json_}};
  }

  absl::Status Prepare(const std::vector<std::string>& arguments) override {
    const absl::Status checked = CheckIds(arguments, 1, 1);
    if (!checked.ok()) return checked;
    v1::Session& session = *request_.mutable_session();
    session.set_name(SessionName(arguments[0]));
    auto& mask = *request_.mutable_update_mask();
    if (context_cap_.has_value()) {
      session.set_context_cap(*context_cap_);
      mask.add_paths("context_cap");
    }
    if (ttl_ != absl::InfiniteDuration()) {
      SetTtl(ttl_, session);
      mask.add_paths("ttl");
    }
    if (!session.labels().empty() && clear_labels_) {
      return absl::InvalidArgumentError("give --label or --clear_labels");
    }
    if (!session.labels().empty() || clear_labels_) mask.add_paths("labels");
    if (!mask.paths().empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "give what is to change: --context_cap, --ttl, --label or "
        "--clear_labels");
  }

  absl::Status Run(const Connection& connection) override {
    const auto session =
        connection.client.UpdateSession(request_, connection.call);
    if (!session.ok()) return session.status();
    if (json_) return PrintJson(ToJson(*session));
    return Print(absl::StrCat(session->name(), "\n"));
  }

 private:
  v1::UpdateSessionRequest request_;
  std::optional<uint64_t> context_cap_;
  absl::Duration ttl_ = absl::InfiniteDuration();  // as it is
  bool clear_labels_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeSessionUpdateCommand() {
  return std::make_unique<SessionUpdateCommand>();
}

}  // namespace steadystate::client
