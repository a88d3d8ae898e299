#include "server/rpc/library_logs.h"

#include <string>

#include "google/protobuf/stubs/logging.h"
#include "grpc/support/log.h"
#include "server/base/logging.h"

namespace steadystate {
namespace {

LogLimiter& GrpcLimiter() {
  static auto& limiter = *new LogLimiter;
  return limiter;
}

LogLimiter& ProtobufLimiter() {
  static auto& limiter = *new LogLimiter;
  return limiter;
}

// gRPC's own log lines name its source files; ours do not.
void LogFromGrpc(gpr_log_func_args* args) {
  LogLevel level = LogLevel::kDebug;
  if (args->severity == GPR_LOG_SEVERITY_INFO) level = LogLevel::kInfo;
  if (args->severity == GPR_LOG_SEVERITY_ERROR) level = LogLevel::kWarning;
  LogLimited(GrpcLimiter(), level, "grpc", {{"text", args->message}});
}

// What Protobuf calls an error is a client's mistake as a rule.
void LogFromProtobuf(google::protobuf::LogLevel severity, const char*, int,
                     const std::string& text) {
  LogLevel level = LogLevel::kWarning;
  if (severity == google::protobuf::LOGLEVEL_INFO) level = LogLevel::kInfo;
  if (severity == google::protobuf::LOGLEVEL_FATAL) level = LogLevel::kError;
  LogLimited(ProtobufLimiter(), level, "protobuf", {{"text", text}});
}

}  // namespace

void LogWhatLibrariesSay() {
  gpr_set_log_function(&LogFromGrpc);
  google::protobuf::SetLogHandler(&LogFromProtobuf);
}

}  // namespace steadystate
