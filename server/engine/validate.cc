#include "server/engine/validate.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"
#include "server/engine/backlog.h"
#include "server/engine/embed_task.h"
#include "server/engine/task.h"
#include "server/model/sampler.h"
#include "server/session/session_id.h"
#include "server/session/session_memory.h"

namespace steadystate {
namespace {

constexpr size_t kMaxThreads = 1024;
constexpr size_t kMaxBatchRows = 65536;
// A begun Step is carried through: at most some minutes of computing.
constexpr size_t kMaxStepTokens = size_t{1} << 20;
// Which of them gives way is looked for among all, under the sessions' lock.
constexpr size_t kMaxPrefixes = 4096;
constexpr absl::Duration kMinHibernateAfter = absl::Seconds(1);
constexpr absl::Duration kMaxPrefillSlice = absl::Seconds(10);

absl::Status CheckTime(absl::string_view field, absl::Duration value,
                       absl::Duration least, absl::Duration most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return OutOfBounds(field, absl::FormatDuration(value),
                     absl::StrCat("in [", absl::FormatDuration(least), ", ",
                                  absl::FormatDuration(most), "]"));
}

absl::Status CheckEmbeddings(absl::string_view field,
                             std::span<const float> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    return OutOfBounds(absl::StrCat(field, "[", i, "]"), values[i], "finite");
  }
  return absl::OkStatus();
}

absl::Status CheckInputs(std::span<const int32_t> tokens,
                         std::span<const float> embeddings, const Model& model,
                         const EngineOptions& options) {
  const ModelDescription& description = model.description();
  if (tokens.empty() == embeddings.empty()) {
    return MissingField("tokens",
                        "give tokens or embeddings, and not both of them");
  }
  if (!tokens.empty()) {
    STEADYSTATE_RETURN_IF_ERROR(
        CheckInputLength("tokens", tokens.size(), options));
    return CheckTokens("tokens", tokens, description.vocab_size);
  }
  constexpr absl::string_view kValues = "embeddings.values";
  STEADYSTATE_RETURN_IF_ERROR(CheckEmbeddingValues(kValues, embeddings.size(),
                                                   description.hidden_size));
  STEADYSTATE_RETURN_IF_ERROR(CheckInputLength(
      "embeddings", embeddings.size() / description.hidden_size, options));
  return CheckEmbeddings(kValues, embeddings);
}

absl::Status CheckTopLogprobs(absl::string_view field,
                              std::optional<uint32_t> count, size_t least) {
  if (!count.has_value()) return absl::OkStatus();
  return CheckRange<size_t>(field, *count, least, kMaxTopLogprobs);
}

bool WantsAny(const StepOutputs& outputs) {
  return outputs.logits || outputs.hidden || outputs.text ||
         outputs.top_logprobs.has_value() || outputs.sampling.has_value();
}

absl::Status CheckRequestId(const RequestBase& request) {
  const size_t bytes = request.request_id.size();
  if (bytes <= kMaxRequestIdBytes) return absl::OkStatus();
  return OutOfBounds(
      "request_id", absl::StrCat(bytes, " bytes long"),
      absl::StrCat("at most ", kMaxRequestIdBytes, " bytes long"));
}

// A position to expect is one of a session.
absl::Status CheckExpectedPosition(const RequestBase& request) {
  if (!request.expected_position.has_value() || !request.session.empty()) {
    return absl::OkStatus();
  }
  return OutOfBounds("expected_position", *request.expected_position,
                     "absent where no session is named");
}

// What makes its session, or ends it, names one; where that is new it has
// absorbed nothing.
absl::Status CheckStart(const StepRequest& request) {
  if ((request.starts || request.ends || request.ephemeral) &&
      request.session.empty()) {
    return MissingField("session", "a step that makes or ends one names it");
  }
  if (!request.starts) return absl::OkStatus();
  STEADYSTATE_RETURN_IF_ERROR(ValidateSessionId(request.session));
  if (request.ephemeral) {
    return OutOfBounds("starts", "true", "false where ephemeral is true");
  }
  if (request.expected_position.value_or(0) == 0) return absl::OkStatus();
  return OutOfBounds("expected_position", *request.expected_position,
                     "0 or absent where the step starts its session");
}

absl::Status CheckBiases(const SamplingParams& params, size_t vocab_size) {
  constexpr absl::string_view kField = "logit_bias";
  const auto& biases = params.logit_bias;
  STEADYSTATE_RETURN_IF_ERROR(CheckLogitBiasCount(kField, biases.size()));
  std::vector<int32_t> tokens;
  tokens.reserve(biases.size());
  for (const auto& [token, bias] : biases) {
    STEADYSTATE_RETURN_IF_ERROR(CheckTokens(kField, {&token, 1}, vocab_size));
    if (!(bias >= -100.0f && bias <= 100.0f)) {
      return OutOfBounds(absl::StrCat(kField, "[", token, "]"), bias,
                         "in [-100, 100]");
    }
    tokens.push_back(token);
  }
  std::sort(tokens.begin(), tokens.end());
  const auto twice = std::adjacent_find(tokens.begin(), tokens.end());
  if (twice == tokens.end()) return absl::OkStatus();
  return OutOfBounds(absl::StrCat(kField, "[", *twice, "]"), "there twice",
                     "one number for each token");
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
    return MakeError(ErrorReason::kInvalidArgument,
                     "session must be absent where bidirectional is true: a "
                     "session holds what came before, and here every token "
                     "also sees what comes after",
                     {{"field", "session"},
                      {"value", request.session},
                      {"bounds", "absent"}});
  }
  const Inputs inputs(request.tokens, request.embeddings,
                      description.hidden_size);
  const uint64_t row_bytes =
      EmbedTask::ResidualBytes(1, description.hidden_size) +
      (request.tokens.empty() ? description.hidden_size * sizeof(float)
                              : sizeof(int32_t));
  const uint64_t most = std::min<uint64_t>(
      options.max_embed_tokens,
      LargestInput(options.max_queued_input_bytes) / row_bytes);
  if (inputs.rows() <= most) return absl::OkStatus();
  return OutOfBounds(request.tokens.empty() ? "embeddings" : "tokens",
                     inputs.rows(),
                     absl::StrCat("1 to ", most,
                                  " with bidirectional "
                                  "(--max_embed_tokens)"));
}

absl::Status CheckStopStrings(const GenerateRequest& request,
                              const Model& model,
                              const EngineOptions& options) {
  constexpr absl::string_view kField = "stop_strings";
  const std::vector<std::string>& strings = request.stop_strings;
  if (strings.empty()) return absl::OkStatus();
  STEADYSTATE_RETURN_IF_ERROR(CheckTokenizer(kField, model));
  STEADYSTATE_RETURN_IF_ERROR(
      CheckStopStringCount(kField, strings.size(), options));
  for (size_t i = 0; i < strings.size(); ++i) {
    const size_t bytes = strings[i].size();
    if (bytes >= 1 && bytes <= options.max_stop_string_bytes) continue;
    return OutOfBounds(
        absl::StrCat(kField, "[", i, "]"), absl::StrCat(bytes, " bytes long"),
        absl::StrCat("1 to ", options.max_stop_string_bytes, " bytes long"));
  }
  return absl::OkStatus();
}

absl::Status CheckAtMost(absl::string_view field, size_t count, size_t most,
                         absl::string_view what) {
  if (count <= most) return absl::OkStatus();
  return OutOfBounds(field, absl::StrCat(count, " ", what),
                     absl::StrCat("at most ", most, " ", what));
}

absl::Status CheckAtLeastOne(absl::string_view option, uint64_t value) {
  if (value >= 1) return absl::OkStatus();
  return OutOfBounds(option, value, "at least 1");
}

}  // namespace

absl::Status ValidateEngineOptions(const EngineOptions& options, bool stores) {
  if (stores && options.snapshots > 0) {
    return OutOfBounds("--snapshots", options.snapshots,
                       "0 with a store, in which the latest snapshot serves");
  }
  STEADYSTATE_RETURN_IF_ERROR(ValidateSessionTtl(options.session_ttl));
  STEADYSTATE_RETURN_IF_ERROR(
      CheckRange<size_t>("--history", options.history, 0, kMaxHistory));
  // Fewer inputs between two of them would make copying the most of the work.
  STEADYSTATE_RETURN_IF_ERROR(CheckRange<size_t>(
      "--snapshots", options.snapshots, 0,
      std::min(kMaxSnapshots, options.history / kMinSnapshotDistance)));
  STEADYSTATE_RETURN_IF_ERROR(CheckRange<size_t>(
      "--prefix_cache", options.prefix_cache, 0, kMaxPrefixes));
  STEADYSTATE_RETURN_IF_ERROR(
      CheckTime("--log_sync_interval", options.log_sync_interval,
                absl::Milliseconds(10), absl::Hours(1)));
  STEADYSTATE_RETURN_IF_ERROR(CheckTime("--max_replay", options.max_replay,
                                        absl::Milliseconds(1), absl::Hours(1)));
  if (options.hibernate_after < kMinHibernateAfter) {
    return OutOfBounds("--hibernate_after",
                       absl::FormatDuration(options.hibernate_after),
                       "at least 1s, or inf");
  }
  STEADYSTATE_RETURN_IF_ERROR(
      CheckRange<size_t>("--threads", options.threads, 1, kMaxThreads));
  STEADYSTATE_RETURN_IF_ERROR(CheckRange<size_t>(
      "--max_batch_rows", options.max_batch_rows, 1, kMaxBatchRows));
  STEADYSTATE_RETURN_IF_ERROR(CheckRange<size_t>("--prefill_chunk_rows",
                                                 options.prefill_chunk_rows, 0,
                                                 options.max_batch_rows));
  STEADYSTATE_RETURN_IF_ERROR(
      CheckTime("--prefill_slice", options.prefill_slice, absl::ZeroDuration(),
                kMaxPrefillSlice));
  STEADYSTATE_RETURN_IF_ERROR(CheckAtLeastOne("--max_queued_per_session",
                                              options.max_queued_per_session));
  STEADYSTATE_RETURN_IF_ERROR(
      CheckAtLeastOne("max_queued_requests", options.max_queued_requests));
  STEADYSTATE_RETURN_IF_ERROR(CheckAtLeastOne("max_queued_input_bytes",
                                              options.max_queued_input_bytes));
  STEADYSTATE_RETURN_IF_ERROR(
      CheckAtLeastOne("--max_embed_tokens", options.max_embed_tokens));
  STEADYSTATE_RETURN_IF_ERROR(CheckRange<size_t>(
      "--max_step_tokens", options.max_step_tokens, 1, kMaxStepTokens));
  return CheckAtLeastOne("max_tokens_per_request",
                         options.max_tokens_per_request);
}

absl::Status Validate(const StepRequest& request, const Model& model,
                      const EngineOptions& options) {
  const ModelDescription& description = model.description();
  const size_t rows =
      Inputs(request.tokens, request.embeddings, description.hidden_size)
          .rows();
  if (rows > 0) {
    STEADYSTATE_RETURN_IF_ERROR(CheckStepLength(
        request.tokens.empty() ? "embeddings" : "tokens", rows, options));
  }
  const StepOutputs& outputs = request.outputs;
  if (rows > 0 || !request.embeddings.empty() || !request.ephemeral ||
      WantsAny(outputs)) {
    STEADYSTATE_RETURN_IF_ERROR(
        CheckInputs(request.tokens, request.embeddings, model, options));
  }
  STEADYSTATE_RETURN_IF_ERROR(CheckRequestId(request));
  STEADYSTATE_RETURN_IF_ERROR(CheckExpectedPosition(request));
  STEADYSTATE_RETURN_IF_ERROR(CheckStart(request));
  STEADYSTATE_RETURN_IF_ERROR(
      CheckTopLogprobs("outputs.top_logprobs", outputs.top_logprobs, 1));
  if (outputs.text) {
    STEADYSTATE_RETURN_IF_ERROR(CheckTokenizer("outputs.text", model));
    if (!outputs.sampling.has_value()) {
      return MissingField("outputs.sampling",
                          "outputs.text is that of the token drawn");
    }
  }
  if (!outputs.sampling.has_value()) return absl::OkStatus();
  return Within("outputs.sampling",
                ValidateSampling(*outputs.sampling, description.vocab_size));
}

absl::Status Validate(const GenerateRequest& request, const Model& model,
                      const EngineOptions& options) {
  const size_t vocab_size = model.description().vocab_size;
  if (!request.prompt.empty()) {
    STEADYSTATE_RETURN_IF_ERROR(
        CheckInputLength("prompt", request.prompt.size(), options));
  } else if (request.session.empty()) {
    return MissingField("prompt",
                        "give a prompt, or a session whose text goes on");
  }
  STEADYSTATE_RETURN_IF_ERROR(CheckExpectedPosition(request));
  STEADYSTATE_RETURN_IF_ERROR(
      CheckTokens("prompt", request.prompt, vocab_size));
  STEADYSTATE_RETURN_IF_ERROR(
      Within("sampling", ValidateSampling(request.sampling, vocab_size)));
  STEADYSTATE_RETURN_IF_ERROR(CheckStopStrings(request, model, options));
  STEADYSTATE_RETURN_IF_ERROR(
      CheckStopTokenCount("stop_tokens", request.stop_tokens.size(), options));
  STEADYSTATE_RETURN_IF_ERROR(
      CheckTokens("stop_tokens", request.stop_tokens, vocab_size));
  STEADYSTATE_RETURN_IF_ERROR(CheckRequestId(request));
  return CheckTopLogprobs("logprobs", request.logprobs, 0);
}

absl::Status Validate(const ScoreRequest& request, const Model& model,
                      const EngineOptions& options) {
  STEADYSTATE_RETURN_IF_ERROR(
      CheckInputLength("tokens", request.tokens.size(), options));
  STEADYSTATE_RETURN_IF_ERROR(
      CheckTokens("tokens", request.tokens, model.description().vocab_size));
  STEADYSTATE_RETURN_IF_ERROR(CheckRequestId(request));
  STEADYSTATE_RETURN_IF_ERROR(CheckExpectedPosition(request));
  return CheckTopLogprobs("top_logprobs", request.top_logprobs, 1);
}

absl::Status Validate(const EmbedRequest& request, const Model& model,
                      const EngineOptions& options) {
  STEADYSTATE_RETURN_IF_ERROR(
      CheckInputs(request.tokens, request.embeddings, model, options));
  STEADYSTATE_RETURN_IF_ERROR(CheckRequestId(request));
  STEADYSTATE_RETURN_IF_ERROR(CheckExpectedPosition(request));
  return request.bidirectional ? CheckBidirectional(request, model, options)
                               : absl::OkStatus();
}

absl::Status Validate(const WorkRequest& /*request*/, const Model& /*model*/,
                      const EngineOptions& /*options*/) {
  return absl::OkStatus();
}

absl::Status CheckInputLength(absl::string_view field, size_t count,
                              const EngineOptions& options) {
  const size_t most = options.max_tokens_per_request;
  if (count >= 1 && count <= most) return absl::OkStatus();
  return OutOfBounds(field, absl::StrCat(count, " tokens"),
                     absl::StrCat("1 to ", most, " tokens"));
}

size_t MaxStepInputs(const EngineOptions& options) {
  return std::min(options.max_step_tokens, options.max_tokens_per_request);
}

absl::Status CheckStepLength(absl::string_view field, size_t count,
                             const EngineOptions& options) {
  const size_t most = MaxStepInputs(options);
  if (count >= 1 && count <= most) return absl::OkStatus();
  if (count == 0) {
    return OutOfBounds(field, "0 tokens",
                       absl::StrCat("1 to ", most, " tokens"));
  }
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

absl::Status CheckEmbeddingValues(absl::string_view field, size_t count,
                                  size_t hidden_size) {
  if (count > 0 && count % hidden_size == 0) return absl::OkStatus();
  return OutOfBounds(field, absl::StrCat(count, " long"),
                     absl::StrCat("one or more times ", hidden_size, " long"));
}

absl::Status CheckLogitBiasCount(absl::string_view field, size_t count) {
  return CheckAtMost(field, count, kMaxLogitBiases, "entries");
}

absl::Status CheckStopStringCount(absl::string_view field, size_t count,
                                  const EngineOptions& options) {
  return CheckAtMost(field, count, options.max_stop_strings, "strings");
}

absl::Status CheckStopTokenCount(absl::string_view field, size_t count,
                                 const EngineOptions& options) {
  return CheckAtMost(field, count, options.max_stop_tokens, "tokens");
}

absl::Status CheckTextLength(absl::string_view field, size_t bytes,
                             const Model& model) {
  STEADYSTATE_RETURN_IF_ERROR(CheckTokenizer(field, model));
  const size_t most = model.tokenizer()->max_text_bytes();
  if (bytes <= most) return absl::OkStatus();
  return OutOfBounds(
      field, absl::StrCat(bytes, " bytes"),
      absl::StrCat("at most ", most,
                   " bytes with this model's tokenizer; send "
                   "longer texts as token ids, or piece by piece"));
}

absl::Status CheckTokenizer(absl::string_view field, const Model& model) {
  if (model.tokenizer() != nullptr) return absl::OkStatus();
  return MakeError(
      ErrorReason::kTokenizerUnavailable,
      absl::StrCat(field, " needs a tokenizer and model ",
                   model.description().id, " has none; send token ids"));
}

absl::Status CheckTokens(absl::string_view field,
                         std::span<const int32_t> tokens, size_t vocab_size) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    // As unsigned, a negative one is large.
    if (static_cast<uint32_t>(tokens[i]) < vocab_size) [[likely]] {
      continue;
    }
    return MakeError(ErrorReason::kTokenOutOfRange,
                     absl::StrCat(field, "[", i, "] is ", tokens[i],
                                  "; it must be in [0, ", vocab_size, ")"),
                     {{"field", std::string(field)},
                      {"index", absl::StrCat(i)},
                      {"token", absl::StrCat(tokens[i])},
                      {"vocab_size", absl::StrCat(vocab_size)}});
  }
  return absl::OkStatus();
}

absl::Status ValidateSampling(const SamplingParams& params, size_t vocab_size) {
  STEADYSTATE_RETURN_IF_ERROR(
      CheckRange("temperature", params.temperature, 0.0, 100.0));
  if (params.top_k == 0u) {
    return OutOfBounds("top_k", 0, "at least 1, or absent");
  }
  STEADYSTATE_RETURN_IF_ERROR(CheckOpenRange("top_p", params.top_p, 0, 1));
  STEADYSTATE_RETURN_IF_ERROR(CheckRange("min_p", params.min_p, 0.0, 1.0));
  STEADYSTATE_RETURN_IF_ERROR(
      CheckOpenRange("repetition_penalty", params.repetition_penalty, 0, 10));
  STEADYSTATE_RETURN_IF_ERROR(
      CheckRange("presence_penalty", params.presence_penalty, -2.0, 2.0));
  STEADYSTATE_RETURN_IF_ERROR(
      CheckRange("frequency_penalty", params.frequency_penalty, -2.0, 2.0));
  STEADYSTATE_RETURN_IF_ERROR(CheckRange<size_t>(
      "penalty_window", params.penalty_window, 0, kMaxPenaltyWindow));
  if (params.logit_bias.empty()) return absl::OkStatus();
  return CheckBiases(params, vocab_size);
}

}  // namespace steadystate
