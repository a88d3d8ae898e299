#ifndef STEADYSTATE_SERVER_ENGINE_VALIDATE_H_
#define STEADYSTATE_SERVER_ENGINE_VALIDATE_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/engine/engine.h"
#include "server/engine/request.h"
#include "server/model/model.h"

namespace steadystate {

// What can be said about options and requests without looking at any session.
// Errors name the field as the API has it, its value and its bound:
// INVALID_ARGUMENT, TOKEN_OUT_OF_RANGE, TOKENIZER_UNAVAILABLE,
// BIDIRECTIONAL_UNSUPPORTED.

absl::Status ValidateEngineOptions(const EngineOptions& options);

// Most tokens or embeddings of a Step, and what is said where there are more.
size_t MaxStepInputs(const EngineOptions& options);
absl::Status CheckStepLength(absl::string_view field, size_t count,
                             const EngineOptions& options);

absl::Status ValidateStep(const StepRequest& request, const Model& model,
                          const EngineOptions& options);
absl::Status ValidateGenerate(const GenerateRequest& request,
                              const Model& model, const EngineOptions& options);
absl::Status ValidateScore(const ScoreRequest& request, const Model& model,
                           const EngineOptions& options);

absl::Status ValidateEmbed(const EmbedRequest& request, const Model& model,
                           const EngineOptions& options);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_VALIDATE_H_
