#include "server/base/error.h"

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace steadystate {
namespace {

struct Row {
  ErrorReason reason;
  absl::StatusCode code;
  absl::string_view name;
};

using enum ErrorReason;
constexpr Row kTable[] = {
    {kSessionNotFound, absl::StatusCode::kNotFound, "SESSION_NOT_FOUND"},
    {kSessionExpired, absl::StatusCode::kNotFound, "SESSION_EXPIRED"},
    {kSessionAlreadyExists, absl::StatusCode::kAlreadyExists,
     "SESSION_ALREADY_EXISTS"},
    {kSessionBusy, absl::StatusCode::kAborted, "SESSION_BUSY"},
    {kPositionMismatch, absl::StatusCode::kAborted, "POSITION_MISMATCH"},
    {kRequestIdReused, absl::StatusCode::kInvalidArgument, "REQUEST_ID_REUSED"},
    {kReplayUnavailable, absl::StatusCode::kFailedPrecondition,
     "REPLAY_UNAVAILABLE"},
    {kStateBudgetExhausted, absl::StatusCode::kResourceExhausted,
     "STATE_BUDGET_EXHAUSTED"},
    {kQueueFull, absl::StatusCode::kResourceExhausted, "QUEUE_FULL"},
    {kContextCapReached, absl::StatusCode::kOutOfRange, "CONTEXT_CAP_REACHED"},
    {kDraining, absl::StatusCode::kUnavailable, "DRAINING"},
    {kInvalidArgument, absl::StatusCode::kInvalidArgument, "INVALID_ARGUMENT"},
    {kTokenOutOfRange, absl::StatusCode::kInvalidArgument,
     "TOKEN_OUT_OF_RANGE"},
    {kNoPendingLogits, absl::StatusCode::kFailedPrecondition,
     "NO_PENDING_LOGITS"},
    {kTokenizerUnavailable, absl::StatusCode::kFailedPrecondition,
     "TOKENIZER_UNAVAILABLE"},
    {kModelNotFound, absl::StatusCode::kNotFound, "MODEL_NOT_FOUND"},
    {kDeadlineExceeded, absl::StatusCode::kDeadlineExceeded,
     "DEADLINE_EXCEEDED"},
    {kCancelled, absl::StatusCode::kCancelled, "CANCELLED"},
    {kInvalidPageToken, absl::StatusCode::kInvalidArgument,
     "INVALID_PAGE_TOKEN"},
    {kMessageTooLarge, absl::StatusCode::kResourceExhausted,
     "MESSAGE_TOO_LARGE"},
    {kBidirectionalUnsupported, absl::StatusCode::kFailedPrecondition,
     "BIDIRECTIONAL_UNSUPPORTED"},
    {kSnapshotCorrupt, absl::StatusCode::kDataLoss, "SNAPSHOT_CORRUPT"},
    {kSnapshotVersionUnsupported, absl::StatusCode::kFailedPrecondition,
     "SNAPSHOT_VERSION_UNSUPPORTED"},
    {kModelFingerprintMismatch, absl::StatusCode::kFailedPrecondition,
     "MODEL_FINGERPRINT_MISMATCH"},
    {kNumericsMismatch, absl::StatusCode::kFailedPrecondition,
     "NUMERICS_MISMATCH"},
    {kStoreUnavailable, absl::StatusCode::kUnavailable, "STORE_UNAVAILABLE"},
    {kNoStore, absl::StatusCode::kFailedPrecondition, "NO_STORE"},
    {kPositionOutOfReach, absl::StatusCode::kOutOfRange,
     "POSITION_OUT_OF_REACH"},
    {kCheckpointNotFound, absl::StatusCode::kNotFound, "CHECKPOINT_NOT_FOUND"},
    {kCheckpointAlreadyExists, absl::StatusCode::kAlreadyExists,
     "CHECKPOINT_ALREADY_EXISTS"},
    {kStateNotFinite, absl::StatusCode::kFailedPrecondition,
     "STATE_NOT_FINITE"},
    {kCursorExpired, absl::StatusCode::kOutOfRange, "CURSOR_EXPIRED"},
    {kCheckpointLimitReached, absl::StatusCode::kResourceExhausted,
     "CHECKPOINT_LIMIT_REACHED"},
    {kMethodNotServed, absl::StatusCode::kUnimplemented, "METHOD_NOT_SERVED"},
    {kInternal, absl::StatusCode::kInternal, "INTERNAL"},
};

constexpr size_t kReasons = std::size(kTable);

constexpr std::array<ErrorReason, kReasons> kAll = [] {
  std::array<ErrorReason, kReasons> all{};
  for (size_t i = 0; i < kReasons; ++i) all[i] = kTable[i].reason;
  return all;
}();

// The table is indexed by the enum.
static_assert([] {
  for (size_t i = 0; i < kReasons; ++i) {
    if (static_cast<size_t>(kTable[i].reason) != i) return false;
  }
  return static_cast<size_t>(kInternal) + 1 == kReasons;
}());

const Row& RowOf(ErrorReason reason) {
  return kTable[static_cast<size_t>(reason)];
}

// Details travel as a payload: fields, each preceded by its length. Field 0 is
// the reason's index, field 1 the retry delay in nanoseconds or empty, then
// metadata keys and values in turn.
constexpr absl::string_view kPayloadUrl = "steadystate/error";

void AppendField(absl::string_view field, std::string& to) {
  absl::StrAppend(&to, field.size(), ":", field);
}

std::vector<std::string> SplitFields(absl::string_view text) {
  std::vector<std::string> fields;
  while (!text.empty()) {
    const size_t colon = text.find(':');
    size_t size = 0;
    if (colon == absl::string_view::npos ||
        !absl::SimpleAtoi(text.substr(0, colon), &size) ||
        size > text.size() - colon - 1) {
      return {};
    }
    fields.emplace_back(text.substr(colon + 1, size));
    text.remove_prefix(colon + 1 + size);
  }
  return fields;
}

}  // namespace

absl::string_view Name(ErrorReason reason) { return RowOf(reason).name; }

absl::StatusCode Code(ErrorReason reason) { return RowOf(reason).code; }

std::span<const ErrorReason> AllErrorReasons() { return kAll; }

absl::Status MakeError(ErrorReason reason, absl::string_view message,
                       const ErrorMetadata& metadata,
                       std::optional<absl::Duration> retry_after) {
  std::string payload;
  AppendField(absl::StrCat(static_cast<size_t>(reason)), payload);
  AppendField(retry_after.has_value()
                  ? absl::StrCat(absl::ToInt64Nanoseconds(*retry_after))
                  : "",
              payload);
  for (const auto& [key, value] : metadata) {
    AppendField(key, payload);
    AppendField(value, payload);
  }
  absl::Status status(Code(reason), message);
  status.SetPayload(kPayloadUrl, absl::Cord(payload));
  return status;
}

std::optional<ErrorDetails> GetErrorDetails(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayloadUrl);
  if (!payload.has_value()) return std::nullopt;
  const std::vector<std::string> fields = SplitFields(std::string(*payload));
  size_t index = 0;
  if (fields.size() < 2 || !absl::SimpleAtoi(fields[0], &index) ||
      index >= kReasons) {
    return std::nullopt;
  }
  ErrorDetails details;
  details.reason = kTable[index].reason;
  int64_t nanoseconds = 0;
  if (absl::SimpleAtoi(fields[1], &nanoseconds)) {
    details.retry_after = absl::Nanoseconds(nanoseconds);
  }
  for (size_t i = 2; i + 1 < fields.size(); i += 2) {
    details.metadata.emplace_back(fields[i], fields[i + 1]);
  }
  return details;
}

namespace {

// Enough to recognise a value by; clients know the rest.
constexpr size_t kMaxShownBytes = 64;

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
}

// `text` with `to` in place of `from`, if it begins with that as a whole name.
std::string WithBeginning(absl::string_view from, absl::string_view to,
                          absl::string_view text) {
  absl::string_view rest = text;
  if (!absl::ConsumePrefix(&rest, from) ||
      (!rest.empty() && IsNameCharacter(rest.front()))) {
    return std::string(text);
  }
  return absl::StrCat(to, rest);
}

}  // namespace

absl::Status OutOfBounds(absl::string_view field, const absl::AlphaNum& value,
                         absl::string_view bounds) {
  const absl::string_view shown = Excerpt(value.Piece(), kMaxShownBytes);
  return MakeError(ErrorReason::kInvalidArgument,
                   absl::StrCat(field, " is ", shown.empty() ? "empty" : shown,
                                "; it must be ", bounds),
                   {{"field", std::string(field)},
                    {"value", std::string(shown)},
                    {"bounds", std::string(bounds)}});
}

absl::Status MissingField(absl::string_view field, absl::string_view rule) {
  return MakeError(ErrorReason::kInvalidArgument,
                   absl::StrCat(field, " is missing: ", rule),
                   {{"field", std::string(field)}});
}

absl::Status CheckOpenRange(absl::string_view field, double value, double low,
                            double high) {
  if (value > low && value <= high) return absl::OkStatus();
  return OutOfBounds(field, value, absl::StrCat("in (", low, ", ", high, "]"));
}

absl::Status Within(absl::string_view path, const absl::Status& status) {
  if (status.ok()) return status;
  std::optional<ErrorDetails> details = GetErrorDetails(status);
  if (!details.has_value()) return status;
  for (auto& [key, value] : details->metadata) {
    if (key == "field") value = absl::StrCat(path, ".", value);
  }
  return MakeError(details->reason, absl::StrCat(path, ".", status.message()),
                   details->metadata, details->retry_after);
}

absl::Status Renamed(absl::string_view from, absl::string_view to,
                     const absl::Status& status) {
  if (status.ok()) return status;
  std::optional<ErrorDetails> details = GetErrorDetails(status);
  if (!details.has_value()) return status;
  for (auto& [key, value] : details->metadata) {
    if (key == "field") value = WithBeginning(from, to, value);
  }
  return MakeError(details->reason, WithBeginning(from, to, status.message()),
                   details->metadata, details->retry_after);
}

absl::Status CloneError(const absl::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::optional<ErrorDetails> details = GetErrorDetails(status);
  if (!details.has_value()) {
    return absl::Status(status.code(), status.message());
  }
  return MakeError(details->reason, status.message(), details->metadata,
                   details->retry_after);
}

absl::string_view Excerpt(absl::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  size_t end = max_bytes;
  // Bytes 10xxxxxx continue a character.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
    --end;
  }
  return text.substr(0, end);
}

}  // namespace steadystate
