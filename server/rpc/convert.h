#ifndef STEADYSTATE_SERVER_RPC_CONVERT_H_
#define STEADYSTATE_SERVER_RPC_CONVERT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/engine/engine.h"
#include "server/engine/request.h"
#include "server/model/model.h"
#include "server/session/session_info.h"
#include "steadystate/v1/generation.pb.h"
#include "steadystate/v1/session.pb.h"

namespace steadystate {

// Turns requests of the API into the engine's, checking everything that the
// comments in proto/ promise to check: presence, ranges, names, counts. Errors
// are INVALID_ARGUMENT, TOKEN_OUT_OF_RANGE, MODEL_NOT_FOUND,
// TOKENIZER_UNAVAILABLE or MESSAGE_TOO_LARGE, and name the field by its path
// within the request. Immutable; thread-safe.
class Converter {
 public:
  // `max_message_bytes`: an answer that might be larger is refused before
  // anything is computed. `model` outlives the converter.
  Converter(const Model& model, const EngineOptions& options,
            size_t max_message_bytes);

  absl::StatusOr<SessionOptions> ToSessionOptions(
      const v1::CreateSessionRequest& request) const;

  // The returned requests have neither writer nor deadline.
  absl::StatusOr<StepRequest> ToStepRequest(
      const v1::StepRequest& request) const;
  // Sets everything in `to` but writer and deadline, in memory that it has; it
  // is of no use if this fails.
  absl::Status ToStepRequest(const v1::StepRequest& request,
                             StepRequest& to) const;
  // Draws a seed if the request has none.
  absl::StatusOr<GenerateRequest> ToGenerateRequest(
      const v1::GenerateRequest& request) const;
  absl::StatusOr<ScoreRequest> ToScoreRequest(
      const v1::ScoreRequest& request) const;
  absl::StatusOr<EmbedRequest> ToEmbedRequest(
      const v1::EmbedRequest& request) const;

  // At least the bytes that the answer to `request` takes on the wire.
  size_t AnswerBytes(const StepOutputs& outputs) const;

  // OK if every id is in [0, vocab_size).
  absl::Status CheckTokens(absl::string_view field, const int32_t* ids,
                           size_t count) const;
  // OK if the model has a tokenizer.
  absl::Status NeedTokenizer(absl::string_view what) const;
  // OK if the tokenizer takes texts of so many bytes. REQUIRES: there is one.
  absl::Status CheckTextLength(absl::string_view field, size_t bytes) const;

 private:
  absl::StatusOr<std::vector<int32_t>> ToTokens(absl::string_view field,
                                                const v1::Tokens& tokens) const;
  absl::Status SetTokens(absl::string_view field, const v1::Tokens& tokens,
                         std::vector<int32_t>& to) const;
  absl::StatusOr<std::vector<int32_t>> Tokenize(absl::string_view field,
                                                absl::string_view text) const;
  absl::StatusOr<std::vector<float>> ToEmbeddings(
      const v1::Embeddings& embeddings) const;
  absl::Status SetInput(const v1::EmbedRequest& request,
                        EmbedRequest& to) const;
  absl::Status SetOutputs(const v1::StepOutput& output, StepOutputs& to) const;
  // `to` is fresh.
  absl::Status SetSampling(absl::string_view path, const v1::Sampling& sampling,
                           SamplingParams& to) const;
  absl::Status ToLogitBias(absl::string_view field,
                           const v1::Sampling& sampling,
                           SamplingParams& to) const;
  absl::Status CheckCount(absl::string_view field, size_t count) const;
  absl::Status CheckStops(const v1::GenerateRequest& request) const;

  const Tokenizer* const tokenizer_;
  const std::string model_id_;
  const size_t vocab_size_;
  const size_t hidden_size_;
  const EngineOptions options_;
  const size_t max_message_bytes_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_CONVERT_H_
