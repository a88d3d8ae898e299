#ifndef STEADYSTATE_SERVER_ENGINE_VALIDATE_H_
#define STEADYSTATE_SERVER_ENGINE_VALIDATE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/engine/engine.h"
#include "server/engine/request.h"
#include "server/model/model.h"
#include "server/model/sampler.h"

namespace steadystate {

// What can be said about options and requests without looking at any session:
// every bound of theirs is checked here and nowhere else. Errors name the field
// by its path within the request (request.h), its value and its bound
// (server/base/error.h): INVALID_ARGUMENT, TOKEN_OUT_OF_RANGE,
// TOKENIZER_UNAVAILABLE, BIDIRECTIONAL_UNSUPPORTED.

//   stores  there is a store
absl::Status ValidateEngineOptions(const EngineOptions& options,
                                   bool stores = false);

// Whole requests.
absl::Status Validate(const StepRequest& request, const Model& model,
                      const EngineOptions& options);
absl::Status Validate(const GenerateRequest& request, const Model& model,
                      const EngineOptions& options);
absl::Status Validate(const ScoreRequest& request, const Model& model,
                      const EngineOptions& options);
absl::Status Validate(const EmbedRequest& request, const Model& model,
                      const EngineOptions& options);
absl::Status Validate(const WorkRequest& request, const Model& model,
                      const EngineOptions& options);

// Sizes, for code that makes a request out of a message: checked before
// anything of it is copied or becomes tokens. The caller's name of the field
// comes first.

// Tokens or embeddings of a request of any kind, and besides of a Step.
absl::Status CheckInputLength(absl::string_view field, size_t count,
                              const EngineOptions& options);
absl::Status CheckStepLength(absl::string_view field, size_t count,
                             const EngineOptions& options);
// The most that pass the latter.
size_t MaxStepInputs(const EngineOptions& options);
// Numbers that are to be embeddings: whole ones, and one at least.
absl::Status CheckEmbeddingValues(absl::string_view field, size_t count,
                                  size_t hidden_size);
absl::Status CheckLogitBiasCount(absl::string_view field, size_t count);
absl::Status CheckStopStringCount(absl::string_view field, size_t count,
                                  const EngineOptions& options);
absl::Status CheckStopTokenCount(absl::string_view field, size_t count,
                                 const EngineOptions& options);
// Bytes of a text. TOKENIZER_UNAVAILABLE if the model has no tokenizer.
absl::Status CheckTextLength(absl::string_view field, size_t bytes,
                             const Model& model);

// OK if the model has a tokenizer.
absl::Status CheckTokenizer(absl::string_view field, const Model& model);

// OK if every token is in [0, vocab_size).
absl::Status CheckTokens(absl::string_view field,
                         std::span<const int32_t> tokens, size_t vocab_size);

// Names the first field of `params` that is out of range.
absl::Status ValidateSampling(const SamplingParams& params, size_t vocab_size);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_VALIDATE_H_
