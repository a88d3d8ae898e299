// `steadystate health` and `steadystate model`: what there is to know about the
// server.
#include "absl/strings/str_cat.h"
#include "client/cli/command.h"
#include "client/cli/output.h"

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
    if (absl::IsNotFound(status.status())) {
      return absl::NotFoundError(absl::StrCat(
          "the server has no service '", service_,
          "'; --service takes names such as steadystate.v1.GenerationService"));
    }
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

// What the layers of a kind keep of a session.
std::string Sentence(const v1::Model::LayerKind& kind) {
  std::string text = absl::StrCat(
      kind.layer_count(), kind.layer_count() == 1 ? " layer: " : " layers: ");
  if (kind.bytes_per_token() == 0) {
    return absl::StrCat(text, kind.fixed_bytes(), " bytes at any length");
  }
  if (kind.fixed_bytes() > 0) {
    absl::StrAppend(&text, kind.fixed_bytes(), " bytes and ");
  }
  return absl::StrCat(text, kind.bytes_per_token(), " bytes a token, at ",
                      kind.cap_tokens(), " tokens ", kind.bytes_at_cap());
}

class ModelCommand : public Command {
 public:
  CommandText text() const override {
    return {"model", "", "Describes the model that the server serves",
            "Prints the family, sizes, types, bytes per session and how the "
            "model is computed on this machine. --json prints every field, the "
            "blocks of a session's state included.",
            "  steadystate model\n"
            "  steadystate model --json\n"};
  }

  OptionTable options() override {
    return {{"json", "", "Prints the whole description as JSON.", &json_}};
  }

  absl::Status Prepare(const std::vector<std::string>& arguments) override {
    if (arguments.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("unexpected '", arguments[0], "'"));
  }

  absl::Status Run(const Connection& connection) override {
    v1::GetModelRequest request;
    request.set_name("models/-");
    const auto model = connection.client.GetModel(request, connection.call);
    if (!model.ok()) return model.status();
    Json json = ToJson(*model);
    if (json_) return PrintJson(json);
    // Its few figures stand on a level with the others; tiles are for --json.
    const Json execution = json["execution"];
    json.erase("execution");
    json.erase("layer_kinds");
    for (const v1::Model::LayerKind& kind : model->layer_kinds()) {
      json[absl::StrCat("state of ", kind.kind())] = Sentence(kind);
    }
    for (const auto& [key, value] : execution.items()) {
      if (key != "tiles") json[key] = value;
    }
    return Print(FormatLines(json));
  }

 private:
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeHealthCommand() {
  return std::make_unique<HealthCommand>();
}

std::unique_ptr<Command> MakeModelCommand() {
  return std::make_unique<ModelCommand>();
}

}  // namespace steadystate::client
