#ifndef STEADYSTATE_SERVER_BASE_FIELD_ERROR_H_
#define STEADYSTATE_SERVER_BASE_FIELD_ERROR_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace steadystate {

// Errors about single fields of requests and options: INVALID_ARGUMENT with the
// metadata field, value and bounds. A field is named by its path within the
// request, "sampling.temperature", and the text begins with that path.

// "<field> is <value>; it must be <bounds>", for instance bounds "in [0, 100]".
// Of a long value only the beginning is shown.
absl::Status OutOfBounds(absl::string_view field, const absl::AlphaNum& value,
                         absl::string_view bounds);

// "<field> is missing: <what it has to be>", without value and bounds.
absl::Status MissingField(absl::string_view field, absl::string_view rule);

// OK if low <= value <= high. Refuses NaN.
template <typename T>
absl::Status CheckRange(absl::string_view field, T value, T low, T high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return OutOfBounds(field, value, absl::StrCat("in [", low, ", ", high, "]"));
}

// OK if low < value <= high. Refuses NaN.
absl::Status CheckOpenRange(absl::string_view field, double value, double low,
                            double high);

// `status` with `path` before the field that it names: for who has the message
// whose field that is within another one.
absl::Status Within(absl::string_view path, const absl::Status& status);

// `status` with `to` in place of `from` where the field that it names begins
// with that: for who has the same value under another name. A status that names
// another field stays as it is.
absl::Status Renamed(absl::string_view from, absl::string_view to,
                     const absl::Status& status);

// The first `max_bytes` bytes of `text` or less, so that no UTF-8 character is
// cut in two. What is left out is not marked.
absl::string_view Excerpt(absl::string_view text, size_t max_bytes);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_BASE_FIELD_ERROR_H_
