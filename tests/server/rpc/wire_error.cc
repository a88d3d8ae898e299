#include "tests/server/rpc/wire_error.h"

#include "google/rpc/error_details.pb.h"

namespace steadystate {

WireError ToWireError(const google::rpc::Status& status) {
  WireError error;
  error.code = status.code();
  error.message = status.message();
  int infos = 0;
  for (const google::protobuf::Any& detail : status.details()) {
    google::rpc::ErrorInfo info;
    google::rpc::RetryInfo retry;
    if (detail.UnpackTo(&info)) {
      ++infos;
      if (info.domain() == "steadystate") error.reason = info.reason();
      error.metadata.insert(info.metadata().begin(), info.metadata().end());
    } else if (detail.UnpackTo(&retry)) {
      error.retry_after = absl::Seconds(retry.retry_delay().seconds()) +
                          absl::Nanoseconds(retry.retry_delay().nanos());
    }
  }
  if (infos != 1) error.reason.clear();
  return error;
}

WireError ToWireError(const grpc::Status& status) {
  google::rpc::Status details;
  details.ParseFromString(status.error_details());
  WireError error = ToWireError(details);
  if (error.code != status.error_code() ||
      error.message != status.error_message()) {
    error.reason.clear();
  }
  error.code = status.error_code();
  error.message = status.error_message();
  return error;
}

std::ostream& operator<<(std::ostream& to, const WireError& error) {
  to << "code " << error.code << " reason '" << error.reason << "' \""
     << error.message << "\"";
  for (const auto& [key, value] : error.metadata) {
    to << " " << key << "=" << value;
  }
  return to;
}

}  // namespace steadystate
