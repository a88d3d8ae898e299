#include "server/session/session_id.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/base/error.h"
#include "server/base/logging.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

// It comes before whatever a session's id begins with.
constexpr absl::string_view kCheckpointMark = "!";

constexpr size_t kMaxIdBytes = 63;
constexpr absl::string_view kBase32 = "abcdefghijklmnopqrstuvwxyz234567";

// Page tokens begin with this, so that another form can be told apart later.
constexpr char kPageTokenVersion = '1';

// Foreign text in a message: without control characters, of bounded length.
std::string Quoted(absl::string_view text) {
  constexpr size_t kShown = 80;
  const bool cut = text.size() > kShown;
  return absl::StrCat("'", absl::CHexEscape(text.substr(0, kShown)),
                      cut ? "...'" : "'");
}

bool IsIdCharacter(char c) {
  return absl::ascii_islower(static_cast<unsigned char>(c)) ||
         absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '-';
}

bool IsLabelKey(absl::string_view key) {
  return !key.empty() && key.size() <= kMaxLabelBytes &&
         absl::ascii_islower(static_cast<unsigned char>(key.front())) &&
         std::all_of(key.begin(), key.end(), [](char c) {
           return IsIdCharacter(c) || c == '_' || c == '.';
         });
}

bool IsLabelValue(absl::string_view value) {
  return value.size() <= kMaxLabelBytes &&
         std::all_of(value.begin(), value.end(), [](char c) {
           return absl::ascii_isprint(static_cast<unsigned char>(c));
         });
}

}  // namespace

bool IsSessionId(absl::string_view id) {
  return !id.empty() && id.size() <= kMaxIdBytes && id.front() != '-' &&
         std::all_of(id.begin(), id.end(), IsIdCharacter);
}

SessionUid NewSessionUid() {
  SessionUid random;
  while (getrandom(random.data(), sizeof(random), 0) !=
         static_cast<ssize_t>(sizeof(random))) {
    if (errno == EINTR) continue;
    LogError("getrandom failed; ids cannot be made safely");
    std::abort();
  }
  return random;
}

std::string ToString(const SessionUid& uid) {
  return absl::StrCat(absl::Hex(uid[0], absl::kZeroPad16),
                      absl::Hex(uid[1], absl::kZeroPad16));
}

std::string CheckpointId(absl::string_view name) {
  return absl::StrCat(kCheckpointMark, name);
}

std::optional<absl::string_view> CheckpointName(absl::string_view id) {
  if (!absl::ConsumePrefix(&id, kCheckpointMark)) return std::nullopt;
  return id;
}

std::string Called(absl::string_view id) {
  const std::optional<absl::string_view> checkpoint = CheckpointName(id);
  return checkpoint.has_value() ? absl::StrCat("checkpoint '", *checkpoint, "'")
                                : absl::StrCat("session '", id, "'");
}

absl::Status DeletedMeanwhile(absl::string_view id) {
  const std::string what =
      absl::StrCat(Called(id), " was deleted before the request was finished");
  const std::optional<absl::string_view> checkpoint = CheckpointName(id);
  return checkpoint.has_value()
             ? MakeError(ErrorReason::kCheckpointNotFound, what,
                         {{"checkpoint", std::string(*checkpoint)}})
             : MakeError(ErrorReason::kSessionNotFound, what,
                         {{"session", std::string(id)}});
}

std::string NewSessionId() {
  const auto random =
      std::bit_cast<std::array<uint8_t, sizeof(SessionUid)>>(NewSessionUid());
  std::string id;
  uint32_t bits = 0;
  int bit_count = 0;
  for (const uint8_t byte : random) {
    bits = bits << 8 | byte;
    bit_count += 8;
    while (bit_count >= 5) {
      bit_count -= 5;
      id.push_back(kBase32[bits >> bit_count & 31]);
    }
  }
  id.push_back(kBase32[bits << (5 - bit_count) & 31]);
  return id;
}

absl::Status ValidateSessionId(absl::string_view id, absl::string_view field) {
  if (IsSessionId(id)) return absl::OkStatus();
  return MakeError(
      ErrorReason::kInvalidArgument,
      absl::StrCat(field, " ", Quoted(id),
                   " is not 1 to 63 of [a-z0-9-], beginning with a letter or "
                   "digit"),
      {{"field", std::string(field)},
       {"value", Quoted(id)},
       {"bounds", "1 to 63 of [a-z0-9-], beginning with a letter or digit"}});
}

absl::Status ValidateSessionIds(std::span<const std::string> ids) {
  for (const std::string& id : ids) {
    STEADYSTATE_RETURN_IF_ERROR(ValidateSessionId(id, "session_ids"));
  }
  std::vector<absl::string_view> sorted(ids.begin(), ids.end());
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice == sorted.end()) return absl::OkStatus();
  return OutOfBounds("session_ids", *twice, "each there once");
}

absl::Status ValidateSessionTtl(absl::Duration ttl) {
  if (ttl >= kMinSessionTtl && ttl <= kMaxSessionTtl) return absl::OkStatus();
  return MakeError(
      ErrorReason::kInvalidArgument,
      absl::StrCat("ttl ", absl::FormatDuration(ttl), " is not between ",
                   absl::FormatDuration(kMinSessionTtl), " and ",
                   absl::FormatDuration(kMaxSessionTtl)),
      {{"field", "ttl"},
       {"value", absl::FormatDuration(ttl)},
       {"bounds", absl::StrCat(absl::FormatDuration(kMinSessionTtl), " to ",
                               absl::FormatDuration(kMaxSessionTtl))}});
}

absl::Status ValidateLabelCount(size_t count) {
  if (count <= kMaxLabels) return absl::OkStatus();
  return MakeError(ErrorReason::kInvalidArgument,
                   absl::StrCat("labels has ", count, " entries, at most ",
                                kMaxLabels, " are allowed"),
                   {{"field", "labels"},
                    {"value", absl::StrCat(count)},
                    {"bounds", absl::StrCat(kMaxLabels)}});
}

absl::Status ValidateLabels(const std::map<std::string, std::string>& labels) {
  STEADYSTATE_RETURN_IF_ERROR(ValidateLabelCount(labels.size()));
  for (const auto& [key, value] : labels) {
    if (!IsLabelKey(key)) {
      return MakeError(
          ErrorReason::kInvalidArgument,
          absl::StrCat("labels: key ", Quoted(key),
                       " is not 1 to 63 of [a-z0-9_.-], beginning with a "
                       "letter"),
          {{"field", "labels"}});
    }
    if (!IsLabelValue(value)) {
      return MakeError(
          ErrorReason::kInvalidArgument,
          absl::StrCat("labels: value ", Quoted(value), " of '", key,
                       "' is not at most 63 printable ASCII "
                       "characters"),
          {{"field", absl::StrCat("labels.", key)}});
    }
  }
  return absl::OkStatus();
}

bool MatchesPattern(absl::string_view pattern, absl::string_view id) {
  size_t p = 0;
  size_t i = 0;
  // What follows the latest `*`, and the character from which on that is tried.
  size_t after_star = absl::string_view::npos;
  size_t tried = 0;
  while (i < id.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      after_star = ++p;
      tried = i;
    } else if (p < pattern.size() &&
               (pattern[p] == '?' || pattern[p] == id[i])) {
      ++p;
      ++i;
    } else if (after_star != absl::string_view::npos) {
      p = after_star;
      i = ++tried;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == absl::string_view::npos;
}

std::string MakePageToken(absl::string_view last_id) {
  return absl::WebSafeBase64Escape(
      absl::StrCat(std::string(1, kPageTokenVersion), last_id));
}

absl::StatusOr<std::string> ParsePageToken(absl::string_view token) {
  std::string text;
  // Decoding is lenient about padding; only the exact token counts.
  if (token.size() <= kMaxPageTokenBytes &&
      absl::WebSafeBase64Unescape(token, &text) && !text.empty() &&
      text.front() == kPageTokenVersion) {
    text.erase(0, 1);
    const absl::string_view id = CheckpointName(text).value_or(text);
    if (IsSessionId(id) && MakePageToken(text) == token) return text;
  }
  return MakeError(ErrorReason::kInvalidPageToken,
                   absl::StrCat("page_token ", Quoted(token),
                                " was not made by this method: begin again "
                                "without one"),
                   {{"field", "page_token"}});
}

}  // namespace steadystate
