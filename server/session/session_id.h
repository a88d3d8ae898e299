#ifndef STEADYSTATE_SERVER_SESSION_SESSION_ID_H_
#define STEADYSTATE_SERVER_SESSION_SESSION_ID_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace steadystate {

// How long a session may stay idle.
inline constexpr absl::Duration kMinSessionTtl = absl::Seconds(1);
inline constexpr absl::Duration kMaxSessionTtl = absl::Hours(24 * 30);

// Bounds of a session's labels.
inline constexpr size_t kMaxLabels = 16;
inline constexpr size_t kMaxLabelBytes = 63;  // of a key, and of a value

// What is longer is no page token.
inline constexpr size_t kMaxPageTokenBytes = 128;

// True for 1 to 63 of [a-z0-9-], beginning with a letter or digit.
bool IsSessionId(absl::string_view id);

// Most bytes of a pattern for ids.
inline constexpr size_t kMaxPatternBytes = 128;

// Does the pattern match all of the id? `*` in it stands for any characters,
// `?` for one, all others for themselves. In time of the product of their
// lengths.
bool MatchesPattern(absl::string_view pattern, absl::string_view id);

// A checkpoint is a session that nobody can name, advance or let expire: its id
// is the checkpoint's with a mark before it, which no session's has.
std::string CheckpointId(absl::string_view name);
// The checkpoint's name; nothing if the id is a session's.
std::optional<absl::string_view> CheckpointName(absl::string_view id);
// "session 'a'", "checkpoint 'a'".
std::string Called(absl::string_view id);
// SESSION_NOT_FOUND or CHECKPOINT_NOT_FOUND: it was deleted before a request on
// it was finished.
absl::Status DeletedMeanwhile(absl::string_view id);

// A new id: 128 random bits as 26 characters of lower-case base 32.
std::string NewSessionId();

// What tells a session from all others that ever were, whatever they are
// called: 128 random bits.
using SessionUid = std::array<uint64_t, 2>;
SessionUid NewSessionUid();
// 32 lower-case hexadecimal digits.
std::string ToString(const SessionUid& uid);

// Each returns INVALID_ARGUMENT naming the value and the bound.
absl::Status ValidateSessionId(absl::string_view id,
                               absl::string_view field = "session_id");
// Of sessions that are to be made together: also that none is there twice.
absl::Status ValidateSessionIds(std::span<const std::string> ids);
absl::Status ValidateSessionTtl(absl::Duration ttl);
absl::Status ValidateLabelCount(size_t count);
// Keys: 1 to 63 of [a-z0-9_.-], beginning with a letter. Values: at most 63
// printable ASCII characters.
absl::Status ValidateLabels(const std::map<std::string, std::string>& labels);

// A page token stands for the last id of the page before; opaque to clients.
// Well below kMaxPageTokenBytes long.
std::string MakePageToken(absl::string_view last_id);
// INVALID_PAGE_TOKEN for anything that MakePageToken did not make.
absl::StatusOr<std::string> ParsePageToken(absl::string_view token);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_SESSION_ID_H_
