#ifndef STEADYSTATE_SERVER_RPC_INFERENCE_INFER_REQUEST_H_
#define STEADYSTATE_SERVER_RPC_INFERENCE_INFER_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/engine/engine.h"
#include "server/engine/request.h"
#include "server/model/model.h"

// What is generated from proto/inference is for the sources in this folder.
namespace inference {
class ModelInferRequest;
}  // namespace inference

namespace steadystate {

// The tensors of every model.
inline constexpr absl::string_view kTokensInput = "tokens";
inline constexpr absl::string_view kSampledTokenOutput = "sampled_token";
inline constexpr absl::string_view kLogitsOutput = "logits";
inline constexpr absl::string_view kPositionOutput = "position";

// The only version that there is.
inline constexpr absl::string_view kModelVersion = "1";

// What an answer has (StepNames::form), a bit each.
inline constexpr uint32_t kHasSampledToken = 1;
inline constexpr uint32_t kHasLogits = 2;
inline constexpr uint32_t kHasPosition = 4;
// And that it is the only one to its request.
inline constexpr uint32_t kSaysFinal = 8;

// Turns requests of KServe's and Triton's protocol into steps. What only that
// protocol has is checked here, sizes before anything is copied; the rest the
// engine judges (engine/validate.h). Errors name the field by its path within
// the request, "parameters.top_k", "inputs.tokens.shape": INVALID_ARGUMENT,
// TOKEN_OUT_OF_RANGE, MODEL_NOT_FOUND, MESSAGE_TOO_LARGE. Immutable;
// thread-safe.
class InferConverter {
 public:
  // `max_message_bytes`: a larger answer is refused before anything is
  // computed. `model` outlives it.
  InferConverter(const Model& model, const EngineOptions& options,
                 size_t max_message_bytes);

  // As clients name it; the id in GetModel's "models/{id}".
  const std::string& model_name() const { return model_.description().id; }
  // MODEL_NOT_FOUND unless they name the model, or do not say. `field`: of the
  // name in the request.
  absl::Status CheckModel(absl::string_view field, absl::string_view name,
                          absl::string_view version) const;

  // Sets everything in `to` but writer, client and deadline, in memory that it
  // has, and `form`. If this fails, `to` has at most the session.
  absl::Status ToStepRequest(const inference::ModelInferRequest& request,
                             StepRequest& to, uint32_t& form) const;

 private:
  absl::Status SetTokens(const inference::ModelInferRequest& request,
                         std::vector<int32_t>& to) const;
  absl::Status CheckShape(const inference::ModelInferRequest& request,
                          size_t& count) const;

  const Model& model_;
  const EngineOptions options_;
  const size_t max_message_bytes_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_INFERENCE_INFER_REQUEST_H_
