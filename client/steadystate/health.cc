// `steadystate health`: whether the server takes requests.

#include "absl/strings/str_cat.h"
#include "client/steadystate/command.h"
#include "client/steadystate/output.h"

namespace steadystate::client {
namespace {

using grpc::health::v1::HealthCheckResponse;

class HealthCommand : public Command {
 public:
  CommandText text() const override {
    return {"health", "", "Asks whether the server takes requests",
            "Prints the answer of grpc.health.v1, such as SERVING. Exit code 0 "
            "means SERVING and nothing else does, so this can be a container's "
            "health check.",
            "  steadystate health\n"
            "  steadystate health --service "
            "steadystate.v1.GenerationService --timeout 1s\n"};
  }

  OptionTable options() override {
    return {{"service", "NAME",
             "Asks about one service. Default: the server as a whole.",
             &service_}};
  }

  absl::Duration default_timeout() const override { return absl::Seconds(5); }

  absl::Status Prepare(const std::vector<std::string>& arguments) override {
    if (arguments.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("unexpected '", arguments[0], "'"));
  }

  absl::Status Run(const Connection& connection) override {
    const auto status = connection.client.Health(service_, connection.call);
    if (!status.ok()) return status.status();
    const std::string& name = HealthCheckResponse::ServingStatus_Name(*status);
    const absl::Status printed = Print(absl::StrCat(name, "\n"));
    if (!printed.ok() || *status == HealthCheckResponse::SERVING) {
      return printed;
    }
    return absl::FailedPreconditionError(
        "the server is not ready: it is shutting down, or its compute thread "
        "does not move");
  }

 private:
  std::string service_;
};

}  // namespace

std::unique_ptr<Command> MakeHealthCommand() {
  return std::make_unique<HealthCommand>();
}

}  // namespace steadystate::client
