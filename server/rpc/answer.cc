#include "server/rpc/answer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "google/rpc/error_details.pb.h"
#include "server/base/error.h"
#include "server/base/logging.h"
#include "server/engine/validate.h"
#include "server/rpc/arena_message.h"
#include "server/session/session_id.h"
#include "server/session/session_state.h"

namespace steadystate {
namespace {

// On the wire.

// A TokenLogprob with its framing.
constexpr size_t kTopLogprobBytes = 16;
// The scalar fields of one token's message, and the message's own framing.
constexpr size_t kTokenBytes = 48;
// The scalar fields of a step's result, and the framing of all its messages.
constexpr size_t kStepBytes = 128;
// Everything of an answer that is not logits, hidden state or alternatives:
// names, position, timing, framing.
constexpr size_t kOverheadBytes = 512;

// In memory.

// A TokenLogprob as a part of a message, the pointer to it, and its bytes on
// the wire.
constexpr size_t kTopLogprobMemory = 32 + sizeof(void*) + 16;
// A token's text, mostly.
constexpr size_t kTokenText = 64;
// A float as a part of a message, and on the wire.
constexpr size_t kFloatMemory = 2 * sizeof(float);
// What else there is about one token, vector or step, and its share of the
// lists that double when they grow.
constexpr size_t kItemMemory = 512;
// Messages take memory in blocks, the last of which has room left.
constexpr size_t kBlockMemory = 2 * ArenaBlocks::kBytes;

// Rows of one piece, each with `floats` numbers.
size_t PieceRows(size_t inputs, size_t floats, const Engine& engine) {
  return std::min(inputs,
                  AnsweredRows(floats, engine.options().prefill_chunk_rows));
}

void SetLogprobs(const std::vector<TokenLogprob>& from,
                 google::protobuf::RepeatedPtrField<v1::TokenLogprob>& to) {
  to.Reserve(static_cast<int>(from.size()));
  for (const TokenLogprob& entry : from) {
    v1::TokenLogprob* added = to.Add();
    added->set_token(entry.token);
    added->set_logprob(entry.logprob);
  }
}

v1::FinishReason ToProto(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStopToken:
      return v1::STOP_TOKEN;
    case FinishReason::kStopString:
      return v1::STOP_STRING;
    case FinishReason::kLength:
      return v1::LENGTH;
  }
  return v1::FINISH_REASON_UNSPECIFIED;
}

void AddSpecialTokens(const Tokenizer& tokenizer, v1::Model& to) {
  // A checkpoint may name thousands, and an answer has to stay small.
  constexpr int kMost = 4096;
  for (const SpecialToken& token : tokenizer.special_tokens()) {
    if (to.special_tokens_size() == kMost) return;
    v1::Model::SpecialToken& added = *to.add_special_tokens();
    added.set_id(static_cast<uint32_t>(token.id));
    added.set_text(token.text);
  }
}

void SetLayerKinds(const Model& model, v1::Model& to) {
  const StateLayout& layout = model.state_layout();
  const std::vector<std::string>& kinds = model.description().layer_kinds;
  for (size_t layer = 0; layer < kinds.size(); ++layer) {
    auto& entries = *to.mutable_layer_kinds();
    const auto found = std::find_if(
        entries.begin(), entries.end(),
        [&](const auto& entry) { return entry.kind() == kinds[layer]; });
    v1::Model::LayerKind& entry =
        found == entries.end() ? *entries.Add() : *found;
    const StateUse use = layout.UseOfLayer(layer);
    entry.set_kind(kinds[layer]);
    entry.set_layer_count(entry.layer_count() + 1);
    entry.set_fixed_bytes(entry.fixed_bytes() + use.fixed_bytes);
    entry.set_bytes_per_token(entry.bytes_per_token() + use.token_bytes);
    if (use.token_bytes > 0) entry.set_cap_tokens(to.context_cap());
    entry.set_bytes_at_cap(entry.bytes_at_cap() + use.fixed_bytes +
                           use.token_bytes * to.context_cap());
  }
  to.set_bookkeeping_bytes(to.session_bytes() -
                           layout.bytes_at(to.context_cap()));
}

void SetExecution(const Engine& engine, v1::Model::Execution& to) {
  const ModelDescription& description = engine.model().description();
  to.set_isa(description.linear.isa);
  to.set_onednn_version(description.linear.onednn_version);
  to.set_kernel_target(description.kernel_target);
  to.set_threads(static_cast<uint32_t>(engine.options().threads));
  for (const LinearReport::Shape& shape : description.linear.shapes) {
    v1::Model::Tile& tile = *to.add_tiles();
    tile.set_in(static_cast<uint32_t>(shape.in));
    tile.set_columns(static_cast<uint32_t>(shape.block));
    for (const size_t rows : shape.decode_tiles) {
      tile.add_rows(static_cast<uint32_t>(rows));
    }
    for (const size_t rows : shape.prefill_tiles) {
      tile.add_prefill_rows(static_cast<uint32_t>(rows));
    }
    tile.set_implementation(shape.implementation);
  }
}

}  // namespace

absl::Status MessageTooLarge(size_t bytes, size_t limit) {
  return MakeError(
      ErrorReason::kMessageTooLarge,
      absl::StrCat("the answer would take up to ", bytes,
                   " bytes, more than the limit of ", limit,
                   "; ask for less, or raise --max_message_bytes"),
      {{"bytes", absl::StrCat(bytes)}, {"limit", absl::StrCat(limit)}});
}

size_t MostWireBytes(const StepOutputs& outputs, const Model& model) {
  const ModelDescription& sizes = model.description();
  return kOverheadBytes + outputs.top_logprobs.value_or(0) * kTopLogprobBytes +
         ((outputs.logits ? sizes.vocab_size : 0) +
          (outputs.hidden ? sizes.hidden_size : 0)) *
             sizeof(float);
}

size_t MostWireBytes(const ScoreRequest& request, const Model& model) {
  return kOverheadBytes + request.top_logprobs.value_or(0) * kTopLogprobBytes +
         (request.logits ? model.description().vocab_size * sizeof(float) : 0);
}

size_t MostWireBytes(const EmbedRequest& /*request*/, const Model& model) {
  return kOverheadBytes + model.description().hidden_size * sizeof(float);
}

size_t WireBytes(const StepResult& result) {
  return kStepBytes + result.text_delta.size() +
         result.top_logprobs.size() * kTopLogprobBytes +
         (result.logits.size() + result.hidden.size()) * sizeof(float);
}

size_t WireBytes(const GeneratedToken& token) {
  return kTokenBytes + token.top_logprobs.size() * kTopLogprobBytes +
         token.text_delta.size();
}

size_t WireBytes(const ScoredToken& token) {
  return kTokenBytes + token.top_logprobs.size() * kTopLogprobBytes +
         token.logits.size() * sizeof(float);
}

size_t WireBytes(const EmbeddedRow& row) {
  return kTokenBytes + row.hidden.size() * sizeof(float);
}

size_t PieceMemory(const GenerateRequest& request) {
  const size_t alternatives = request.logprobs.value_or(0);
  if (request.keyed()) {
    // It may be a repeat. Log-probabilities are not replayed.
    return kBlockMemory + alternatives * kTopLogprobMemory +
           kMaxReplayedAtOnce * kItemMemory;
  }
  // A token alone has room in the first part of a message.
  if (alternatives == 0) return 4 * kItemMemory;
  return kBlockMemory + kItemMemory + alternatives * kTopLogprobMemory;
}

size_t PieceMemory(const ScoreRequest& request, const Engine& engine) {
  const size_t vocab_size = engine.model().description().vocab_size;
  const size_t rows = PieceRows(request.tokens.size(), vocab_size, engine);
  const size_t row_memory =
      kItemMemory + request.top_logprobs.value_or(0) * kTopLogprobMemory +
      (request.logits ? vocab_size * kFloatMemory : 0);
  return kBlockMemory + rows * row_memory;
}

size_t PieceMemory(const EmbedRequest& request, const Engine& engine) {
  const size_t hidden_size = engine.model().description().hidden_size;
  const size_t inputs =
      std::max(request.tokens.size(), request.embeddings.size() / hidden_size);
  const size_t rows = request.pooling == Pooling::kNone
                          ? PieceRows(inputs, hidden_size, engine)
                          : 1;
  return kBlockMemory + rows * (kItemMemory + hidden_size * kFloatMemory);
}

size_t AnswerMemory(const StepOutputs& outputs, const Engine& engine) {
  const ModelDescription& model = engine.model().description();
  return kItemMemory + (outputs.text ? kTokenText : 0) +
         outputs.top_logprobs.value_or(0) * kTopLogprobMemory +
         ((outputs.logits ? model.vocab_size : 0) +
          (outputs.hidden ? model.hidden_size : 0)) *
             kFloatMemory;
}

void ToProto(const Engine& engine, v1::Model& to) {
  const ModelDescription& from = engine.model().description();
  const StateLayout& layout = engine.model().state_layout();
  to.set_name(absl::StrCat("models/", from.id));
  to.set_family(from.family);
  to.set_fingerprint(from.fingerprint);
  to.set_vocab_size(static_cast<uint32_t>(from.vocab_size));
  to.set_hidden_size(static_cast<uint32_t>(from.hidden_size));
  to.set_layer_count(static_cast<uint32_t>(from.layers));
  to.set_softmax_layer_count(static_cast<uint32_t>(from.softmax_layers));
  to.set_parameter_count(from.parameters);
  to.set_session_bytes(
      SessionLayoutOf(engine.model(), engine.options()).charge_bytes());
  to.set_context_cap(from.context_cap);
  to.set_max_context_cap(engine.max_context_cap());
  to.set_weight_dtype(from.linear.weight_dtype);
  to.set_state_dtype(layout.dtype());
  if (const Tokenizer* tokenizer = engine.model().tokenizer()) {
    to.set_tokenizer(std::string(tokenizer->kind()));
    const std::span<const int32_t> prefix = tokenizer->text_prefix();
    to.mutable_text_prefix_tokens()->Assign(prefix.begin(), prefix.end());
    AddSpecialTokens(*tokenizer, to);
  }
  to.mutable_bos_tokens()->Assign(from.bos_tokens.begin(),
                                  from.bos_tokens.end());
  to.mutable_eos_tokens()->Assign(from.eos_tokens.begin(),
                                  from.eos_tokens.end());
  to.set_chat_template(from.chat.text);
  to.set_bos_token(from.chat.bos_token);
  to.set_eos_token(from.chat.eos_token);
  for (const StateSlot& slot : layout.slots()) {
    v1::Model::StateSlot& added = *to.add_state_slots();
    added.set_layer(static_cast<uint32_t>(slot.layer));
    added.set_name(slot.name);
    for (const size_t dimension : slot.shape) added.add_shape(dimension);
    added.set_bytes(slot.bytes);
    added.set_grows(slot.growth == SlotGrowth::kPerToken);
    if (added.grows()) {
      added.set_shape(0, from.context_cap);
      added.set_bytes(slot.bytes / slot.shape[0] * from.context_cap);
    }
    added.set_dtype(std::string(Name(slot.type)));
  }
  SetLayerKinds(engine.model(), to);
  to.set_norm(from.norm);
  // As config.json has it, without the digits of the nearest float.
  double norm_eps = 0;
  if (absl::SimpleAtod(absl::StrCat(from.norm_eps), &norm_eps)) {
    to.set_norm_eps(norm_eps);
  }
  to.set_tied_head(from.tied_head);
  to.set_bidirectional(!engine.model().FirstCausalLayer().has_value());
  to.set_max_step_tokens(
      static_cast<uint32_t>(MaxStepInputs(engine.options())));
  SetExecution(engine, *to.mutable_execution());
  to.mutable_warnings()->Assign(from.warnings.begin(), from.warnings.end());
  to.mutable_warnings()->Add(from.readings.begin(), from.readings.end());
}

void ToProto(const StepResult& result, absl::string_view session,
             v1::StepResponse& to) {
  to.set_session(session.data(), session.size());
  to.set_position(result.position);
  to.set_replayed(result.replayed);
  if (result.sampled_token.has_value()) {
    to.set_sampled_token(*result.sampled_token);
  }
  if (result.sampled_logprob.has_value()) {
    to.set_sampled_logprob(*result.sampled_logprob);
  }
  if (!result.text_delta.empty()) to.set_text_delta(result.text_delta);
  SetLogprobs(result.top_logprobs, *to.mutable_top_logprobs());
  to.mutable_logits()->Assign(result.logits.begin(), result.logits.end());
  to.mutable_hidden()->Assign(result.hidden.begin(), result.hidden.end());
  SetDuration(result.queue_time, *to.mutable_timing()->mutable_queue());
  SetDuration(result.compute_time, *to.mutable_timing()->mutable_compute());
}

void ToProto(const GeneratedToken& token, v1::GenerateResponse& to) {
  v1::GenerateResponse::GeneratedToken& added = *to.add_tokens();
  added.set_token(token.token);
  added.set_replayed(token.replayed);
  if (token.logprob.has_value()) added.set_logprob(*token.logprob);
  SetLogprobs(token.top_logprobs, *added.mutable_top_logprobs());
  to.mutable_text_delta()->append(token.text_delta);
  to.set_position(token.position);
}

void ToProto(const GenerateSummary& summary, v1::GenerateResponse& to) {
  to.mutable_text_delta()->append(summary.text_tail);
  to.set_position(summary.position);
  to.set_finish_reason(ToProto(summary.finish_reason));
  v1::GenerateResponse::Usage& usage = *to.mutable_usage();
  usage.set_prompt_tokens(summary.prompt_tokens);
  usage.set_generated_tokens(summary.generated_tokens);
  usage.set_replayed_tokens(summary.replayed_tokens);
  usage.set_reused_tokens(summary.reused_tokens);
  usage.set_prefix_reuse(ToProto(summary.prefix_reuse));
  usage.set_seed(summary.seed);
  SetDuration(summary.queue_time, *usage.mutable_queue());
  if (summary.generated_tokens > 0) {
    SetDuration(summary.time_to_first_token,
                *usage.mutable_time_to_first_token());
  }
}

void ToProto(const ScoredToken& token, v1::ScoreResponse& to) {
  v1::ScoreResponse::ScoredToken& added = *to.add_tokens();
  added.set_token(token.token);
  if (token.logprob.has_value()) added.set_logprob(*token.logprob);
  SetLogprobs(token.top_logprobs, *added.mutable_top_logprobs());
  added.mutable_logits()->Assign(token.logits.begin(), token.logits.end());
  added.set_position(token.position);
}

void ToProto(const ScoreSummary& summary, v1::ScoreResponse& to) {
  v1::ScoreResponse::Summary& added = *to.mutable_summary();
  added.set_tokens(summary.tokens);
  added.set_scored_tokens(summary.scored_tokens);
  added.set_total_logprob(summary.total_logprob);
  added.set_position(summary.position);
}

void ToProto(const EmbeddedRow& row, v1::EmbedResponse& to) {
  v1::EmbedResponse::Row& added = *to.add_rows();
  added.mutable_hidden()->Assign(row.hidden.begin(), row.hidden.end());
  added.set_position(row.position);
}

void ToProto(const EmbedSummary& summary, v1::EmbedResponse& to) {
  v1::EmbedResponse::Summary& added = *to.mutable_summary();
  added.set_tokens(summary.tokens);
  added.set_position(summary.position);
}

namespace {

// Together with at most a handful of metadata entries these stay well below
// the 8 KiB that a client accepts as metadata, even percent-encoded.
constexpr size_t kMaxErrorBytes = 1024;
constexpr size_t kMaxMetadataValueBytes = 256;

struct GenericError {
  absl::StatusCode code;
  ErrorReason reason;
  absl::string_view message;
};

// Codes that say enough by themselves.
constexpr GenericError kGenericErrors[] = {
    {absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidArgument,
     "the request is invalid"},
    {absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadlineExceeded,
     "the deadline passed"},
    {absl::StatusCode::kCancelled, ErrorReason::kCancelled,
     "the request was cancelled"},
};

// Those that the protos promise a RetryInfo with, and how long if the error
// does not say it better.
constexpr absl::Duration kRetryAfter = absl::Seconds(1);

bool PromisesRetry(ErrorReason reason) {
  return reason == ErrorReason::kDraining ||
         reason == ErrorReason::kQueueFull ||
         reason == ErrorReason::kStateBudgetExhausted;
}

PublicError Generic(const absl::Status& status) {
  PublicError error;
  for (const GenericError& row : kGenericErrors) {
    if (row.code == status.code()) {
      error.code = row.code;
      error.message = std::string(row.message);
      error.details.reason = row.reason;
      return error;
    }
  }
  static auto& limiter = *new LogLimiter;
  LogLimited(limiter, LogLevel::kError, "internal error",
             {{"status", status.ToString()}});
  error.code = absl::StatusCode::kInternal;
  error.message = "internal error; the server's log has the details";
  error.details.reason = ErrorReason::kInternal;
  return error;
}

}  // namespace

PublicError ToPublicError(const absl::Status& status) {
  std::optional<ErrorDetails> details = GetErrorDetails(status);
  if (!details.has_value()) return Generic(status);
  PublicError error;
  error.code = status.code();
  error.message = std::string(Excerpt(status.message(), kMaxErrorBytes));
  error.details = *std::move(details);
  if (PromisesRetry(error.details.reason) &&
      !error.details.retry_after.has_value()) {
    error.details.retry_after = kRetryAfter;
  }
  for (auto& [key, value] : error.details.metadata) {
    // Below this layer sessions go by their ids.
    if (key == "session" && !absl::StartsWith(value, "sessions/")) {
      value.insert(0, "sessions/");
    }
    value = std::string(Excerpt(value, kMaxMetadataValueBytes));
  }
  return error;
}

google::rpc::Status ToRpcStatus(const PublicError& error) {
  google::rpc::Status wire;
  wire.set_code(static_cast<int>(error.code));
  wire.set_message(error.message);
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(Name(error.details.reason)));
  info.set_domain(std::string(kErrorDomain));
  for (const auto& [key, value] : error.details.metadata) {
    (*info.mutable_metadata())[key] = value;
  }
  wire.add_details()->PackFrom(info);
  if (error.details.retry_after.has_value()) {
    google::rpc::RetryInfo retry;
    absl::Duration rest = *error.details.retry_after;
    const int64_t seconds = absl::IDivDuration(rest, absl::Seconds(1), &rest);
    retry.mutable_retry_delay()->set_seconds(seconds);
    retry.mutable_retry_delay()->set_nanos(
        static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
    wire.add_details()->PackFrom(retry);
  }
  return wire;
}

grpc::Status ToGrpcStatus(const PublicError& error) {
  return {static_cast<grpc::StatusCode>(error.code), error.message,
          ToRpcStatus(error).SerializeAsString()};
}

}  // namespace steadystate
