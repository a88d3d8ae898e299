#include "server/engine/validate.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"
#include "server/engine/backlog.h"
#include "server/engine/bidirectional_task.h"
#include "server/engine/inputs.h"
#include "server/model/sampler.h"
#include "server/session/session_id.h"

namespace steadystate {
namespace {

constexpr size_t kMaxThreads = 1024;
constexpr size_t kMaxBatchRows = 65536;
// A begun Step is carried through: at most some minutes of computing.
constexpr size_t kMaxStepTokens = size_t{1} << 20;
constexpr absl::Duration kMaxPrefillSlice = absl::Seconds(10);
constexpr absl::string_view kLength = "'s length";

absl::Status Invalid(absl::string_view field, absl::string_view problem) {
  return MakeError(ErrorReason::kInvalidArgument,
                   absl::StrCat(field, " ", problem),
                   {{"field", std::string(field)}});
}

// `aspect` is what of the field is bounded, "'s length".
absl::Status CheckRange(absl::string_view field, uint64_t value, uint64_t least,
                        uint64_t most, absl::string_view aspect = "") {
  if (value >= least && value <= most) return absl::OkStatus();
  const std::string bound =
      most == std::numeric_limits<uint64_t>::max()
          ? absl::StrCat("at least ", least)
          : absl::StrCat("between ", least, " and ", most);
  return MakeError(
      ErrorReason::kInvalidArgument,
      absl::StrCat(field, aspect, " is ", value, ", must be ", bound),
      {{"field", std::string(field)},
       {"value", absl::StrCat(value)},
       {"bounds", bound}});
}

absl::Status CheckTokens(absl::string_view field,
                         std::span<const int32_t> tokens, size_t vocab_size) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && static_cast<size_t>(tokens[i]) < vocab_size) continue;
    const std::string where = absl::StrCat(field, "[", i, "]");
    return MakeError(ErrorReason::kTokenOutOfRange,
                     absl::StrCat(where, " is ", tokens[i],
                                  ", must be at least 0 and less than the "
                                  "vocabulary's size ",
                                  vocab_size),
                     {{"field", where},
                      {"value", absl::StrCat(tokens[i])},
                      {"bounds", absl::StrCat(vocab_size)}});
  }
  return absl::OkStatus();
}

absl::Status CheckEmbeddings(std::span<const float> embeddings,
                             size_t hidden_size) {
  if (embeddings.size() % hidden_size != 0) {
    return Invalid("embeddings",
                   absl::StrCat("has ", embeddings.size(),
                                " values, must be a multiple of the hidden "
                                "size ",
                                hidden_size));
  }
  for (size_t i = 0; i < embeddings.size(); ++i) {
    if (std::isfinite(embeddings[i])) continue;
    return Invalid(absl::StrCat("embeddings[", i, "]"),
                   "is not finite: embeddings must be");
  }
  return absl::OkStatus();
}

absl::Status CheckInputs(std::span<const int32_t> tokens,
                         std::span<const float> embeddings, const Model& model,
                         size_t most) {
  const ModelDescription& description = model.description();
  if (tokens.empty() == embeddings.empty()) {
    return Invalid("tokens", "and embeddings: exactly one must be given");
  }
  STEADYSTATE_RETURN_IF_ERROR(
      CheckRange("tokens", tokens.size(), 0, most, kLength));
  STEADYSTATE_RETURN_IF_ERROR(
      CheckRange("embeddings", embeddings.size() / description.hidden_size, 0,
                 most, "'s rows"));
  STEADYSTATE_RETURN_IF_ERROR(
      CheckTokens("tokens", tokens, description.vocab_size));
  return CheckEmbeddings(embeddings, description.hidden_size);
}

// What a bidirectional pass asks beyond that: a mechanism to which order does
// not matter, no session, and room for the residual stream.
absl::Status CheckBidirectional(const EmbedRequest& request, const Model& model,
                                const EngineOptions& options) {
  const ModelDescription& description = model.description();
  if (const std::optional<size_t> layer = model.FirstCausalLayer()) {
    const std::string& kind = description.layer_kinds[*layer];
    return MakeError(
        ErrorReason::kBidirectionalUnsupported,
        absl::StrCat("layer ", *layer, " of model '", description.id, "' (",
                     kind, ") depends on the order of the tokens and has no ",
                     "bidirectional form that is linear in their number: leave "
                     "bidirectional false"),
        {{"field", "bidirectional"},
         {"layer", absl::StrCat(*layer)},
         {"kind", kind}});
  }
  if (!request.session.empty()) {
    return Invalid("session",
                   "must be absent where bidirectional is true: a session "
                   "holds what came before, and here every token also sees "
                   "what comes after");
  }
  const Inputs inputs(request.tokens, request.embeddings,
                      description.hidden_size);
  const uint64_t row_bytes =
      BidirectionalTask::ResidualBytes(1, description.hidden_size) +
      (request.tokens.empty() ? description.hidden_size * sizeof(float)
                              : sizeof(int32_t));
  const uint64_t most = std::min<uint64_t>(
      options.max_embed_tokens,
      LargestInput(options.max_queued_input_bytes) / row_bytes);
  return CheckRange(request.tokens.empty() ? "embeddings" : "tokens",
                    inputs.rows(), 1, most,
                    "'s rows with bidirectional (--max_embed_tokens)");
}

absl::Status CheckStopStrings(const GenerateRequest& request,
                              const Model& model,
                              const EngineOptions& options) {
  if (request.stop_strings.empty()) return absl::OkStatus();
  if (model.tokenizer() == nullptr) {
    return MakeError(
        ErrorReason::kTokenizerUnavailable,
        absl::StrCat("stop_strings need a tokenizer, and model '",
                     model.description().id, "' carries none: use stop_tokens"),
        {{"field", "stop_strings"}, {"model", model.description().id}});
  }
  STEADYSTATE_RETURN_IF_ERROR(CheckRange("stop_strings",
                                         request.stop_strings.size(), 0,
                                         options.max_stop_strings, kLength));
  for (size_t i = 0; i < request.stop_strings.size(); ++i) {
    STEADYSTATE_RETURN_IF_ERROR(CheckRange(
        absl::StrCat("stop_strings[", i, "]"), request.stop_strings[i].size(),
        1, options.max_stop_string_bytes, "'s length in bytes"));
  }
  return absl::OkStatus();
}

}  // namespace

size_t MaxStepInputs(const EngineOptions& options) {
  return std::min(options.max_step_tokens, options.max_tokens_per_request);
}

absl::Status ValidateEngineOptions(const EngineOptions& options) {
  constexpr uint64_t kNoBound = std::numeric_limits<uint64_t>::max();
  STEADYSTATE_RETURN_IF_ERROR(ValidateSessionTtl(options.session_ttl));
  STEADYSTATE_RETURN_IF_ERROR(
      CheckRange("threads", options.threads, 1, kMaxThreads));
  STEADYSTATE_RETURN_IF_ERROR(
      CheckRange("max_batch_rows", options.max_batch_rows, 1, kMaxBatchRows));
  STEADYSTATE_RETURN_IF_ERROR(CheckRange("prefill_chunk_rows",
                                         options.prefill_chunk_rows, 0,
                                         options.max_batch_rows));
  if (options.prefill_slice < absl::ZeroDuration() ||
      options.prefill_slice > kMaxPrefillSlice) {
    return Invalid(
        "prefill_slice",
        absl::StrCat("is ", absl::FormatDuration(options.prefill_slice),
                     ", must be between 0 and ",
                     absl::FormatDuration(kMaxPrefillSlice)));
  }
  STEADYSTATE_RETURN_IF_ERROR(CheckRange(
      "max_queued_per_session", options.max_queued_per_session, 1, kNoBound));
  STEADYSTATE_RETURN_IF_ERROR(CheckRange(
      "max_queued_requests", options.max_queued_requests, 1, kNoBound));
  STEADYSTATE_RETURN_IF_ERROR(CheckRange(
      "max_queued_input_bytes", options.max_queued_input_bytes, 1, kNoBound));
  STEADYSTATE_RETURN_IF_ERROR(
      CheckRange("max_embed_tokens", options.max_embed_tokens, 1, kNoBound));
  STEADYSTATE_RETURN_IF_ERROR(CheckRange(
      "max_step_tokens", options.max_step_tokens, 1, kMaxStepTokens));
  return CheckRange("max_tokens_per_request", options.max_tokens_per_request, 1,
                    kNoBound);
}

absl::Status CheckStepLength(absl::string_view field, size_t count,
                             const EngineOptions& options) {
  const size_t most = MaxStepInputs(options);
  if (count <= most) return absl::OkStatus();
  return MakeError(
      ErrorReason::kInvalidArgument,
      absl::StrCat(field, " has ", count, " inputs, and a Step takes at most ",
                   most,
                   " (--max_step_tokens), since it is not cut short: send a "
                   "longer prompt by Generate with max_tokens 0, which ends "
                   "between pieces, or by several Steps"),
      {{"field", std::string(field)},
       {"value", absl::StrCat(count)},
       {"bounds", absl::StrCat(most)}});
}

absl::Status ValidateStep(const StepRequest& request, const Model& model,
                          const EngineOptions& options) {
  const ModelDescription& description = model.description();
  STEADYSTATE_RETURN_IF_ERROR(
      CheckStepLength("tokens", request.tokens.size(), options));
  STEADYSTATE_RETURN_IF_ERROR(CheckStepLength(
      "embeddings", request.embeddings.size() / description.hidden_size,
      options));
  STEADYSTATE_RETURN_IF_ERROR(CheckInputs(request.tokens, request.embeddings,
                                          model, MaxStepInputs(options)));
  const StepOutputs& outputs = request.outputs;
  if (outputs.top_logprobs.has_value()) {
    STEADYSTATE_RETURN_IF_ERROR(
        CheckRange("top_logprobs", *outputs.top_logprobs, 1, kMaxTopLogprobs));
  }
  if (!outputs.sampling.has_value()) return absl::OkStatus();
  return ValidateSamplingParams(*outputs.sampling, description.vocab_size);
}

absl::Status ValidateGenerate(const GenerateRequest& request,
                              const Model& model,
                              const EngineOptions& options) {
  const size_t vocab_size = model.description().vocab_size;
  STEADYSTATE_RETURN_IF_ERROR(CheckRange("prompt", request.prompt.size(), 0,
                                         options.max_tokens_per_request,
                                         kLength));
  STEADYSTATE_RETURN_IF_ERROR(
      CheckTokens("prompt", request.prompt, vocab_size));
  STEADYSTATE_RETURN_IF_ERROR(
      ValidateSamplingParams(request.sampling, vocab_size));
  STEADYSTATE_RETURN_IF_ERROR(CheckRange("stop_tokens",
                                         request.stop_tokens.size(), 0,
                                         options.max_stop_tokens, kLength));
  STEADYSTATE_RETURN_IF_ERROR(
      CheckTokens("stop_tokens", request.stop_tokens, vocab_size));
  STEADYSTATE_RETURN_IF_ERROR(
      CheckRange("logprobs", request.logprobs.value_or(0), 0, kMaxTopLogprobs));
  return CheckStopStrings(request, model, options);
}

absl::Status ValidateScore(const ScoreRequest& request, const Model& model,
                           const EngineOptions& options) {
  STEADYSTATE_RETURN_IF_ERROR(CheckRange("tokens", request.tokens.size(), 1,
                                         options.max_tokens_per_request,
                                         kLength));
  STEADYSTATE_RETURN_IF_ERROR(
      CheckTokens("tokens", request.tokens, model.description().vocab_size));
  return CheckRange("top_logprobs", request.top_logprobs, 0, kMaxTopLogprobs);
}

absl::Status ValidateEmbed(const EmbedRequest& request, const Model& model,
                           const EngineOptions& options) {
  STEADYSTATE_RETURN_IF_ERROR(CheckInputs(request.tokens, request.embeddings,
                                          model,
                                          options.max_tokens_per_request));
  return request.bidirectional ? CheckBidirectional(request, model, options)
                               : absl::OkStatus();
}

}  // namespace steadystate
