#ifndef STEADYSTATE_SERVER_RPC_FIELD_CHECK_H_
#define STEADYSTATE_SERVER_RPC_FIELD_CHECK_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"

namespace steadystate {

// Checks of single fields of requests. Every error is INVALID_ARGUMENT with the
// metadata field (its path within the request), value and bounds.

// "<field> is <value>; it must be <bounds>", for instance bounds "in [0, 100]".
absl::Status OutOfBounds(absl::string_view field, const absl::AlphaNum& value,
                         absl::string_view bounds);

// "<field> is missing: <what it has to be>".
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

// `status` with the path to the message whose fields it names.
absl::Status Within(absl::string_view path, const absl::Status& status);

// A session's ttl.
absl::StatusOr<absl::Duration> ParseTtl(const google::protobuf::Duration& ttl);

// The id in "sessions/{id}", a part of `name`.
absl::StatusOr<absl::string_view> ParseSessionName(absl::string_view field,
                                                   absl::string_view name);

// OK if `name` is "models/{model_id}". MODEL_NOT_FOUND for the name of another
// model, INVALID_ARGUMENT for what is not the name of a model.
absl::Status CheckModelName(absl::string_view field, absl::string_view name,
                            absl::string_view model_id);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_FIELD_CHECK_H_
