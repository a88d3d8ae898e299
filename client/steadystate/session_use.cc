#include "client/steadystate/session_use.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace steadystate::client {

std::string SessionName(absl::string_view id) {
  constexpr absl::string_view kPrefix = "sessions/";
  if (absl::StartsWith(id, kPrefix)) return std::string(id);
  return absl::StrCat(kPrefix, id);
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

SessionUse::~SessionUse() {
  if (connection_ == nullptr || !owned_) return;
  v1::DeleteSessionRequest request;
  request.set_name(session_.name());
  // Without the command's canceller, which may have been used already. If this
  // fails the session expires by itself.
  connection_->client.DeleteSession(request, {.timeout = absl::Seconds(2)})
      .IgnoreError();
}

}  // namespace steadystate::client
