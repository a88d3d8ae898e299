#include "server/base/field_error.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"
#include "server/base/error.h"

namespace steadystate {
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
                   std::move(details->metadata), details->retry_after);
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
                   std::move(details->metadata), details->retry_after);
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
