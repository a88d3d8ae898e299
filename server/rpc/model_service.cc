#include "server/rpc/model_service.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "server/base/error.h"
#include "server/base/status_macros.h"
#include "server/engine/validate.h"
#include "server/rpc/answer.h"
#include "server/rpc/convert.h"
#include "server/rpc/unary.h"
#include "server/text/text_stream.h"

namespace steadystate {
namespace {

// The text of a token, about.
constexpr size_t kTokenText = 8;

}  // namespace

ModelService::ModelService(ServiceContext& services) : TypedService(services) {
  Add("/steadystate.v1.ModelService/ListModels", &ModelService::ListModels);
  Add("/steadystate.v1.ModelService/GetModel", &ModelService::GetModel);
  Add("/steadystate.v1.ModelService/Tokenize", &ModelService::Tokenize);
  Add("/steadystate.v1.ModelService/Detokenize", &ModelService::Detokenize);
}

grpc::ServerUnaryReactor* ModelService::ListModels(
    grpc::CallbackServerContext* context, const v1::ListModelsRequest* request,
    v1::ListModelsResponse* response) {
  return AnswerUnary(
      services_, *context, "steadystate.v1.ModelService/ListModels", *response,
      [this, request, response]() -> absl::Status {
        if (request->page_size() < 0) {
          return OutOfBounds("page_size", request->page_size(), "at least 0");
        }
        if (!request->page_token().empty()) {
          return MakeError(ErrorReason::kInvalidPageToken,
                           "page_token is not one that ListModels returned");
        }
        ToProto(services_.engine, *response->add_models());
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* ModelService::GetModel(
    grpc::CallbackServerContext* context, const v1::GetModelRequest* request,
    v1::Model* response) {
  return AnswerUnary(services_, *context,
                     "steadystate.v1.ModelService/GetModel", *response,
                     [this, request, response]() -> absl::Status {
                       if (request->name() != "models/-") {
                         STEADYSTATE_RETURN_IF_ERROR(CheckModelName(
                             "name", request->name(),
                             services_.engine.model().description().id));
                       }
                       ToProto(services_.engine, *response);
                       return absl::OkStatus();
                     });
}

grpc::ServerUnaryReactor* ModelService::Tokenize(
    grpc::CallbackServerContext* context, const v1::TokenizeRequest* request,
    v1::TokenizeResponse* response) {
  return AnswerLongUnary(
      services_, *context, "steadystate.v1.ModelService/Tokenize",
      UnaryCost{.work = request->text().size(),
                .answer = AnswerMemory(request->text().size())},
      *response,
      [this, request, response] { return DoTokenize(*request, *response); });
}

grpc::ServerUnaryReactor* ModelService::Detokenize(
    grpc::CallbackServerContext* context, const v1::DetokenizeRequest* request,
    v1::DetokenizeResponse* response) {
  const auto tokens = static_cast<size_t>(request->tokens_size());
  return AnswerLongUnary(
      services_, *context, "steadystate.v1.ModelService/Detokenize",
      UnaryCost{.work = tokens * sizeof(int32_t),
                .answer = AnswerMemory(tokens * kTokenText)},
      *response,
      [this, request, response] { return DoDetokenize(*request, *response); });
}

size_t ModelService::AnswerMemory(size_t text_bytes) const {
  return 2 * std::min(text_bytes, services_.max_message_bytes);
}

absl::Status ModelService::CheckModel(absl::string_view name) const {
  if (name.empty()) return absl::OkStatus();
  return CheckModelName("model", name,
                        services_.engine.model().description().id);
}

absl::Status ModelService::DoTokenize(const v1::TokenizeRequest& request,
                                      v1::TokenizeResponse& response) const {
  STEADYSTATE_RETURN_IF_ERROR(CheckModel(request.model()));
  const Model& model = services_.engine.model();
  STEADYSTATE_RETURN_IF_ERROR(
      CheckTextLength("text", request.text().size(), model));
  STEADYSTATE_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens,
                               model.tokenizer()->Encode(request.text()));
  response.mutable_tokens()->Assign(tokens.begin(), tokens.end());
  return absl::OkStatus();
}

absl::Status ModelService::DoDetokenize(
    const v1::DetokenizeRequest& request,
    v1::DetokenizeResponse& response) const {
  STEADYSTATE_RETURN_IF_ERROR(CheckModel(request.model()));
  const Model& model = services_.engine.model();
  STEADYSTATE_RETURN_IF_ERROR(CheckTokenizer("text", model));
  const std::span<const int32_t> tokens(
      request.tokens().data(), static_cast<size_t>(request.tokens_size()));
  STEADYSTATE_RETURN_IF_ERROR(
      CheckTokens("tokens", tokens, model.description().vocab_size));
  STEADYSTATE_RETURN_IF_ERROR(CheckDecodedSize(tokens));
  const std::string bytes = model.tokenizer()->Decode(tokens);
  TextStream stream({}, "");
  std::string text = stream.Append(bytes);
  text += stream.Flush();
  // A character that never got its last bytes.
  if (!stream.unfinished().empty()) text += "\xEF\xBF\xBD";
  response.set_text(std::move(text));
  return absl::OkStatus();
}

// A token may stand for a hundred times the bytes that name it.
absl::Status ModelService::CheckDecodedSize(
    std::span<const int32_t> tokens) const {
  size_t bytes = 0;
  std::string token_bytes;
  for (const int32_t token : tokens) {
    token_bytes.clear();
    services_.engine.model().tokenizer()->AppendBytes(token, token_bytes);
    bytes += token_bytes.size();
  }
  if (bytes <= services_.max_message_bytes) return absl::OkStatus();
  return MessageTooLarge(bytes, services_.max_message_bytes);
}

}  // namespace steadystate
