#ifndef STEADYSTATE_TESTS_SERVER_RPC_WIRE_ERROR_H_
#define STEADYSTATE_TESTS_SERVER_RPC_WIRE_ERROR_H_

#include <map>
#include <optional>
#include <ostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/support/status.h"
#include "server/base/error.h"

namespace steadystate {

// An error as a client receives it.
struct WireError {
  int code = 0;
  std::string message;
  std::string reason;  // empty unless there is exactly one ErrorInfo, of ours
  std::map<std::string, std::string> metadata;
  std::optional<absl::Duration> retry_after;
};

WireError ToWireError(const google::rpc::Status& status);
// Also checks that code and text agree with the details; if not, or without
// details, `reason` is empty.
WireError ToWireError(const grpc::Status& status);

std::ostream& operator<<(std::ostream& to, const WireError& error);

// Matches an error of `reason` with its code.
MATCHER_P(HasReason, reason, absl::StrCat("has reason ", Name(reason))) {
  const WireError error = ToWireError(arg);
  *result_listener << error;
  return error.reason == Name(reason) &&
         error.code == static_cast<int>(Code(reason));
}

// Matches INVALID_ARGUMENT about `field`.
MATCHER_P(IsAboutField, field, std::string("is about the field ") + field) {
  const WireError error = ToWireError(arg);
  *result_listener << error;
  const auto found = error.metadata.find("field");
  return error.reason == "INVALID_ARGUMENT" && error.code == 3 &&
         found != error.metadata.end() && found->second == field;
}

MATCHER(IsOk, "is OK") {
  *result_listener << ToWireError(arg);
  return arg.ok();
}

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_SERVER_RPC_WIRE_ERROR_H_
