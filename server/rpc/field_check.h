#ifndef STEADYSTATE_SERVER_RPC_FIELD_CHECK_H_
#define STEADYSTATE_SERVER_RPC_FIELD_CHECK_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"

namespace steadystate {

// Names and times in requests of the API. Errors are INVALID_ARGUMENT about
// `field` (server/base/field_error.h) if nothing else is said.

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
