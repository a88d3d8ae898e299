#include "server/rpc/field_check.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/base/error.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/session/session_id.h"

namespace steadystate {
namespace {

// Enough to recognise a value by; clients know the rest.
constexpr size_t kMaxShownBytes = 64;
// What an error's metadata repeat of a name.
constexpr size_t kMaxEchoBytes = 256;

}  // namespace

absl::StatusOr<absl::Duration> ParseTtl(const google::protobuf::Duration& ttl) {
  constexpr int32_t kMostNanos = 999'999'999;
  if (ttl.nanos() < -kMostNanos || ttl.nanos() > kMostNanos) {
    return OutOfBounds("session.ttl.nanos", ttl.nanos(),
                       "in [-999999999, 999999999]");
  }
  if ((ttl.seconds() > 0 && ttl.nanos() < 0) ||
      (ttl.seconds() < 0 && ttl.nanos() > 0)) {
    return OutOfBounds("session.ttl.nanos", ttl.nanos(),
                       "0 or of the sign of session.ttl.seconds");
  }
  const absl::Duration duration =
      absl::Seconds(ttl.seconds()) + absl::Nanoseconds(ttl.nanos());
  STEADYSTATE_RETURN_IF_ERROR(Within("session", ValidateSessionTtl(duration)));
  return duration;
}

absl::StatusOr<absl::string_view> ParseSessionName(absl::string_view field,
                                                   absl::string_view name) {
  constexpr absl::string_view kForm =
      "\"sessions/{id}\", the id 1 to 63 of [a-z0-9-]";
  if (name.empty()) return MissingField(field, kForm);
  absl::string_view id = name;
  if (!absl::ConsumePrefix(&id, "sessions/") || !IsSessionId(id)) {
    return OutOfBounds(field, name, kForm);
  }
  return id;
}

absl::Status CheckModelName(absl::string_view field, absl::string_view name,
                            absl::string_view model_id) {
  constexpr absl::string_view kForm = "\"models/{id}\"";
  if (name.empty()) return MissingField(field, kForm);
  absl::string_view id = name;
  if (!absl::ConsumePrefix(&id, "models/") || id.empty()) {
    return OutOfBounds(field, name, kForm);
  }
  if (id == model_id) return absl::OkStatus();
  return MakeError(
      ErrorReason::kModelNotFound,
      absl::StrCat("no model ", Excerpt(name, kMaxShownBytes),
                   " here; the server's only one is models/", model_id),
      {{"model", std::string(Excerpt(name, kMaxEchoBytes))}});
}

}  // namespace steadystate
