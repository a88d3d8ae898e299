#ifndef STEADYSTATE_SERVER_RPC_PUBLIC_ERROR_H_
#define STEADYSTATE_SERVER_RPC_PUBLIC_ERROR_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/support/status.h"
#include "server/base/error.h"

namespace steadystate {

// ErrorInfo.domain of every error.
inline constexpr absl::string_view kErrorDomain = "steadystate";

// Name of the trailer that repeats RetryInfo, in milliseconds, for gRPC's own
// retry policies.
inline constexpr char kPushbackTrailer[] = "grpc-retry-pushback-ms";

// An error as clients may see it: always with details, its texts short enough
// for the 8 KiB that HTTP/2 trailers may have.
struct PublicError {
  absl::StatusCode code = absl::StatusCode::kInternal;
  std::string message;
  ErrorDetails details;
};

// What to tell a client about `status`. A status without ErrorDetails was not
// written for clients: the client gets a generic text, with the reason that
// goes with INVALID_ARGUMENT, DEADLINE_EXCEEDED or CANCELLED, or else with
// INTERNAL, and only then does the text go to the log. REQUIRES: !status.ok().
PublicError ToPublicError(const absl::Status& status);

// For errors inside a stream: exactly one ErrorInfo, and RetryInfo if the error
// says when to retry.
google::rpc::Status ToRpcStatus(const PublicError& error);

// For the end of a call: the same google.rpc.Status in its error_details.
grpc::Status ToGrpcStatus(const PublicError& error);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_PUBLIC_ERROR_H_
