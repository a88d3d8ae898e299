#ifndef STEADYSTATE_CLIENT_CLI_SESSION_H_
#define STEADYSTATE_CLIENT_CLI_SESSION_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/command.h"
#include "google/protobuf/map.h"
#include "steadystate/step_stream.h"
#include "steadystate/v1/session.pb.h"

namespace steadystate::client {

// "sessions/ID" for an id; names stay as they are.
std::string SessionName(absl::string_view id);

// "checkpoints/ID" for an id; the same.
std::string CheckpointName(absl::string_view id);

// An error unless there are between `least` and `most` session ids.
absl::Status CheckIds(const std::vector<std::string>& arguments, size_t least,
                      size_t most);

// Adds "KEY=VALUE" to `labels`; an error if it is none.
absl::Status ReadLabel(absl::string_view text,
                       google::protobuf::Map<std::string, std::string>& labels);

void SetTtl(absl::Duration ttl, v1::Session& session);

// "none", "shutdown", "log" or "sync"; an error if it is something else.
absl::StatusOr<v1::Session::Durability> ParseDurability(absl::string_view text);

// The session that a command works in: one that exists, or a fresh one that is
// deleted with this object, also after the command was cancelled.
class SessionUse {
 public:
  // Looks `id` up, or creates a session if there is none. `connection` must
  // outlive the result.
  static absl::StatusOr<SessionUse> Open(const Connection& connection,
                                         const std::optional<std::string>& id);

  // A fresh session that ends with the connection, also if the process is
  // killed; where the server has no room for such, as Open makes one.
  static absl::StatusOr<SessionUse> OpenEphemeral(const Connection& connection);

  ~SessionUse();
  SessionUse(SessionUse&& other) noexcept
      : connection_(std::exchange(other.connection_, nullptr)),
        session_(std::move(other.session_)),
        owned_(other.owned_),
        stream_(std::move(other.stream_)) {}
  SessionUse& operator=(SessionUse&&) = delete;

  // The session as it was when this object was made.
  const v1::Session& session() const { return session_; }

  // True if the session will be deleted.
  bool owned() const { return owned_; }

  // Leaves a fresh session in place.
  void Keep() { owned_ = false; }

 private:
  SessionUse(const Connection* connection, v1::Session session, bool owned)
      : connection_(connection), session_(std::move(session)), owned_(owned) {}

  const Connection* connection_;  // nullptr once moved from
  v1::Session session_;
  bool owned_;
  std::unique_ptr<StepStream> stream_;  // with which an ephemeral one ends
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_CLI_SESSION_H_
