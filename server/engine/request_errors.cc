#include "server/engine/request_errors.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/engine/receiver.h"

namespace steadystate {

absl::Status PositionMismatch(const Request& request, uint64_t position) {
  return MakeError(
      ErrorReason::kPositionMismatch,
      absl::StrCat("the request expects position ", *request.expected_position,
                   ", the session is at ", position,
                   ": nothing was absorbed; continue from there"),
      {{"position", absl::StrCat(position)},
       {"expected_position", absl::StrCat(*request.expected_position)}});
}

absl::Status RequestIdReused(absl::string_view request_id, uint64_t position) {
  // What is no text is not repeated as one.
  const std::string shown = absl::CHexEscape(request_id);
  return MakeError(
      ErrorReason::kRequestIdReused,
      absl::StrCat("request_id '", shown, "' was used at position ", position,
                   " for a request with other content: nothing was absorbed; "
                   "give each request an id of its own"),
      {{"field", "request_id"},
       {"value", shown},
       {"bounds", "one for each request"},
       {"expected_position", absl::StrCat(position)}});
}

absl::Status NotFinite() {
  return MakeError(ErrorReason::kStateNotFinite,
                   "the model's output for these inputs is not finite: send "
                   "other inputs");
}

absl::Status NotLogged(const Session& session) {
  return MakeError(
      ErrorReason::kStoreUnavailable,
      absl::StrCat("what session '", session.id,
                   "' has absorbed cannot be kept in the store now; try again"),
      {}, absl::Seconds(1));
}

absl::Status Unfinished(ErrorReason reason, absl::string_view what,
                        const Request& request) {
  return MakeError(
      reason,
      absl::StrCat(what, request.begun ? ": what was answered before stays"
                                       : ": the session is unchanged"));
}

absl::Status StandsStill(const Request& request) {
  return Unfinished(
      ErrorReason::kDeadlineExceeded,
      absl::StrCat("what this call has to say has not been read for ",
                   absl::FormatDuration(kMaxStandstill),
                   ", and others wait for the memory that it takes; read "
                   "without a break"),
      request);
}

absl::Status CutByDrain(const std::string& id, uint64_t position) {
  constexpr absl::string_view kCut =
      "the server was shut down before the request was finished";
  if (id.empty()) {
    return MakeError(ErrorReason::kDraining,
                     absl::StrCat(kCut, ": use another one"));
  }
  return MakeError(ErrorReason::kDraining,
                   absl::StrCat(kCut, ", with its session at position ",
                                position, ": use another one"),
                   {{"position", absl::StrCat(position)}});
}

}  // namespace steadystate
