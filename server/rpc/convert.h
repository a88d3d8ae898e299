#ifndef STEADYSTATE_SERVER_RPC_CONVERT_H_
#define STEADYSTATE_SERVER_RPC_CONVERT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "server/engine/engine.h"
#include "server/engine/request.h"
#include "server/model/model.h"
#include "server/session/session_info.h"
#include "steadystate/v1/generation.pb.h"
#include "steadystate/v1/session.pb.h"

namespace steadystate {

// Names and times in requests of the API. Errors are INVALID_ARGUMENT about
// `field` (server/base/error.h) if nothing else is said.

// Texts up to this many bytes become tokens on gRPC's own threads: that takes a
// millisecond at most. A step has no longer one.
inline constexpr size_t kShortTextBytes = size_t{4} << 10;

// Enough to recognise a value by; clients know the rest.
inline constexpr size_t kMaxShownBytes = 64;

// A session's ttl.
absl::StatusOr<absl::Duration> ParseTtl(const google::protobuf::Duration& ttl);

// The checkpoint that a session becomes; its id there as CheckpointId has it.
absl::StatusOr<ForkOptions> ToForkOptions(
    const v1::CreateCheckpointRequest& request);
// A session that begins as a checkpoint is.
ForkOptions ToForkOptions(const SessionOptions& options);

// Which sessions ListSessions lists.
absl::StatusOr<SessionQuery> ToQuery(const v1::ListSessionsRequest& request);

// Where RewindSession goes.
// `default_ttl`: of a session whose ttl is to be that of the server.
absl::StatusOr<SessionChanges> ToChanges(
    const v1::UpdateSessionRequest& request, absl::Duration default_ttl);
absl::StatusOr<PastPoint> ToPastPoint(const v1::RewindSessionRequest& request);

// The id in "sessions/{id}", a part of `name`.
absl::StatusOr<absl::string_view> ParseSessionName(absl::string_view field,
                                                   absl::string_view name);

// The same of "checkpoints/{id}", as CheckpointId has it.
absl::StatusOr<std::string> ParseCheckpointName(absl::string_view field,
                                                absl::string_view name);

// OK if `name` is "models/{model_id}". MODEL_NOT_FOUND for the name of another
// model, INVALID_ARGUMENT for what is not the name of a model.
absl::Status CheckModelName(absl::string_view field, absl::string_view name,
                            absl::string_view model_id);

// Turns requests of the API into the engine's. What only the API has is checked
// here: presence, names, the size of answers. Everything else the engine judges
// (engine/validate.h): sizes before anything is copied, the rest once it is
// translated, its errors with the names that the API has for the fields. Errors
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

  // Without an id, ttl or labels where those of the snapshot count.
  absl::StatusOr<SessionOptions> ToSessionOptions(
      const v1::ImportSessionRequest& request) const;

  absl::StatusOr<ForkOptions> ToForkOptions(
      const v1::ForkSessionRequest& request) const;

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
  // Does not check whether the model has a bidirectional form, nor how many
  // inputs that may have: the engine does.
  absl::StatusOr<EmbedRequest> ToEmbedRequest(
      const v1::EmbedRequest& request) const;

 private:
  absl::Status SetStepInput(const v1::StepRequest& request,
                            StepRequest& to) const;
  absl::Status SetScoreInput(const v1::ScoreRequest& request,
                             ScoreRequest& to) const;
  absl::Status SetEmbedInput(const v1::EmbedRequest& request,
                             EmbedRequest& to) const;
  absl::Status SetTokens(const v1::Tokens& tokens,
                         std::vector<int32_t>& to) const;
  absl::Status SetEmbeddings(const v1::Embeddings& embeddings,
                             std::vector<float>& to) const;
  absl::Status SetStepEmbeddings(const v1::Embeddings& embeddings,
                                 std::vector<float>& to) const;
  absl::Status SetStepText(const std::string& text,
                           std::vector<int32_t>& to) const;
  absl::Status SetTokensOf(const std::string& text,
                           std::vector<int32_t>& to) const;
  absl::Status SetStops(const v1::GenerateRequest& request,
                        GenerateRequest& to) const;
  // OK if answers of so many bytes may be sent.
  absl::Status CheckAnswer(size_t bytes) const;

  const Model& model_;
  const EngineOptions options_;
  const size_t max_message_bytes_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_CONVERT_H_
