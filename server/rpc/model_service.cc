#include "server/rpc/model_service.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"
#include "server/engine/validate.h"
#include "server/rpc/answer.h"
#include "server/rpc/convert.h"
#include "server/rpc/unary.h"
#include "server/text/text_stream.h"
#include "server/text/tokenizer.h"

namespace steadystate {
namespace {

// The text of a token, about.
constexpr size_t kTokenTextBytes = 8;

// What renders a long conversation has two for each message.
constexpr size_t kMaxParts = 4096;

size_t TextBytes(const v1::TokenizeRequest& request) {
  size_t bytes = request.text().size();
  for (const v1::TextPart& part : request.parts()) bytes += part.text().size();
  return bytes;
}

absl::Status CheckParts(const v1::TokenizeRequest& request) {
  const auto parts = static_cast<size_t>(request.parts_size());
  if (parts > kMaxParts) {
    return OutOfBounds("parts", parts, absl::StrCat("at most ", kMaxParts));
  }
  if (parts == 0 || request.text().empty()) return absl::OkStatus();
  return MakeError(ErrorReason::kInvalidArgument,
                   "text and parts are two ways to give a text: give one");
}

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
  const size_t bytes = TextBytes(*request);
  return AnswerLongUnary(
      services_, *context, "steadystate.v1.ModelService/Tokenize",
      UnaryCost{.work = bytes, .answer = AnswerMemory(bytes)}, *response,
      [this, request, response] { return DoTokenize(*request, *response); });
}

grpc::ServerUnaryReactor* ModelService::Detokenize(
    grpc::CallbackServerContext* context, const v1::DetokenizeRequest* request,
    v1::DetokenizeResponse* response) {
  const auto tokens = static_cast<size_t>(request->tokens_size());
  return AnswerLongUnary(
      services_, *context, "steadystate.v1.ModelService/Detokenize",
      UnaryCost{.work = tokens * sizeof(int32_t),
                .answer = AnswerMemory(tokens * kTokenTextBytes)},
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
  STEADYSTATE_RETURN_IF_ERROR(CheckParts(request));
  const bool in_parts = request.parts_size() > 0;
  STEADYSTATE_RETURN_IF_ERROR(
      CheckTextLength(in_parts ? "parts" : "text", TextBytes(request), model));
  std::vector<TextPart> parts;
  for (const v1::TextPart& part : request.parts()) {
    parts.push_back({.text = part.text(), .literal = part.literal()});
  }
  STEADYSTATE_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens,
                               in_parts
                                   ? model.tokenizer()->EncodeParts(parts)
                                   : model.tokenizer()->Encode(request.text()));
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
