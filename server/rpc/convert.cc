#include "server/rpc/convert.h"

#include <sys/random.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"
#include "server/engine/validate.h"
#include "server/model/sampler.h"
#include "server/rpc/answer.h"
#include "server/rpc/field_check.h"
#include "server/session/session_id.h"

namespace steadystate {
namespace {

// Everything of an answer that is not logits, hidden state or alternatives:
// names, position, timing, framing.
constexpr size_t kAnswerOverheadBytes = 512;
// A TokenLogprob with its framing.
constexpr size_t kTopLogprobBytes = 16;

// A seed that nobody can guess; the caller returns it to the client.
absl::StatusOr<uint64_t> DrawSeed() {
  uint64_t seed = 0;
  if (getrandom(&seed, sizeof(seed), 0) != static_cast<ssize_t>(sizeof(seed))) {
    return absl::InternalError("getrandom gave no seed");
  }
  return seed;
}

}  // namespace

Converter::Converter(const Model& model, const EngineOptions& options,
                     size_t max_message_bytes)
    : tokenizer_(model.tokenizer()),
      model_id_(model.description().id),
      vocab_size_(model.description().vocab_size),
      hidden_size_(model.description().hidden_size),
      options_(options),
      max_message_bytes_(max_message_bytes) {}

absl::StatusOr<SessionOptions> Converter::ToSessionOptions(
    const v1::CreateSessionRequest& request) const {
  SessionOptions options;
  if (!request.session_id().empty()) {
    STEADYSTATE_RETURN_IF_ERROR(ValidateSessionId(request.session_id()));
  }
  options.id = request.session_id();
  if (!request.model().empty()) {
    STEADYSTATE_RETURN_IF_ERROR(
        CheckModelName("model", request.model(), model_id_));
  }
  const v1::Session& session = request.session();
  if (session.has_ttl()) {
    STEADYSTATE_ASSIGN_OR_RETURN(options.ttl, ParseTtl(session.ttl()));
  }
  // Before any of them is looked at: there may be as many as a message holds.
  STEADYSTATE_RETURN_IF_ERROR(
      Within("session", ValidateLabelCount(session.labels().size())));
  options.labels.insert(session.labels().begin(), session.labels().end());
  STEADYSTATE_RETURN_IF_ERROR(
      Within("session", ValidateLabels(options.labels)));
  return options;
}

absl::StatusOr<StepRequest> Converter::ToStepRequest(
    const v1::StepRequest& request) const {
  StepRequest step;
  STEADYSTATE_RETURN_IF_ERROR(ToStepRequest(request, step));
  return step;
}

absl::Status Converter::ToStepRequest(const v1::StepRequest& request,
                                      StepRequest& to) const {
  STEADYSTATE_ASSIGN_OR_RETURN(const absl::string_view id,
                               ParseSessionName("session", request.session()));
  to.session.assign(id.data(), id.size());
  to.tokens.clear();
  to.embeddings.clear();
  switch (request.input_case()) {
    case v1::StepRequest::kTokens: {
      STEADYSTATE_RETURN_IF_ERROR(CheckStepLength(
          "tokens.ids", static_cast<size_t>(request.tokens().ids_size()),
          options_));
      STEADYSTATE_RETURN_IF_ERROR(
          SetTokens("tokens.ids", request.tokens(), to.tokens));
      break;
    }
    case v1::StepRequest::kEmbeddings: {
      const auto values =
          static_cast<size_t>(request.embeddings().values_size());
      STEADYSTATE_RETURN_IF_ERROR(
          CheckStepLength("embeddings", values / hidden_size_, options_));
      STEADYSTATE_ASSIGN_OR_RETURN(to.embeddings,
                                   ToEmbeddings(request.embeddings()));
      break;
    }
    case v1::StepRequest::INPUT_NOT_SET:
      return MissingField("input", "give tokens or embeddings");
  }
  to.expected_position.reset();
  if (request.has_expected_position()) {
    to.expected_position = request.expected_position();
  }
  STEADYSTATE_RETURN_IF_ERROR(SetOutputs(request.output(), to.outputs));
  const size_t bytes = AnswerBytes(to.outputs);
  if (bytes > max_message_bytes_) {
    return MessageTooLarge(bytes, max_message_bytes_);
  }
  return absl::OkStatus();
}

absl::StatusOr<GenerateRequest> Converter::ToGenerateRequest(
    const v1::GenerateRequest& request) const {
  GenerateRequest generate;
  STEADYSTATE_ASSIGN_OR_RETURN(const absl::string_view id,
                               ParseSessionName("session", request.session()));
  generate.session = std::string(id);
  if (!request.text().empty()) {
    STEADYSTATE_ASSIGN_OR_RETURN(generate.prompt,
                                 Tokenize("text", request.text()));
  } else if (request.tokens().ids_size() > 0) {
    STEADYSTATE_ASSIGN_OR_RETURN(generate.prompt,
                                 ToTokens("tokens.ids", request.tokens()));
  }
  if (request.has_expected_position()) {
    generate.expected_position = request.expected_position();
  }
  STEADYSTATE_RETURN_IF_ERROR(
      SetSampling("sampling", request.sampling(), generate.sampling));
  if (!request.sampling().has_seed()) {
    STEADYSTATE_ASSIGN_OR_RETURN(generate.sampling.seed, DrawSeed());
  }
  if (request.has_max_tokens()) generate.max_tokens = request.max_tokens();
  STEADYSTATE_RETURN_IF_ERROR(CheckStops(request));
  generate.stop_strings.assign(request.stop().begin(), request.stop().end());
  generate.stop_tokens.assign(request.stop_tokens().begin(),
                              request.stop_tokens().end());
  generate.ignore_eos = request.ignore_eos();
  if (request.has_logprobs()) {
    STEADYSTATE_RETURN_IF_ERROR(
        CheckRange<size_t>("logprobs", request.logprobs(), 0, kMaxTopLogprobs));
    generate.logprobs = request.logprobs();
  }
  return generate;
}

absl::StatusOr<ScoreRequest> Converter::ToScoreRequest(
    const v1::ScoreRequest& request) const {
  ScoreRequest score;
  if (!request.session().empty()) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        const absl::string_view id,
        ParseSessionName("session", request.session()));
    score.session = std::string(id);
  }
  switch (request.input_case()) {
    case v1::ScoreRequest::kText: {
      if (request.text().empty()) {
        return OutOfBounds("text", "", "text of at least one token");
      }
      STEADYSTATE_ASSIGN_OR_RETURN(score.tokens,
                                   Tokenize("text", request.text()));
      break;
    }
    case v1::ScoreRequest::kTokens: {
      STEADYSTATE_ASSIGN_OR_RETURN(score.tokens,
                                   ToTokens("tokens.ids", request.tokens()));
      break;
    }
    case v1::ScoreRequest::INPUT_NOT_SET:
      return MissingField("input", "give text or tokens");
  }
  if (request.has_expected_position()) {
    if (score.session.empty()) {
      return OutOfBounds("expected_position", request.expected_position(),
                         "absent where no session is named");
    }
    score.expected_position = request.expected_position();
  }
  size_t answer_bytes = kAnswerOverheadBytes;
  if (request.has_top_logprobs()) {
    STEADYSTATE_RETURN_IF_ERROR(CheckRange<size_t>(
        "top_logprobs", request.top_logprobs(), 1, kMaxTopLogprobs));
    score.top_logprobs = request.top_logprobs();
  }
  score.logits = request.logits();
  answer_bytes += score.top_logprobs * kTopLogprobBytes;
  if (score.logits) answer_bytes += vocab_size_ * sizeof(float);
  if (answer_bytes > max_message_bytes_) {
    return MessageTooLarge(answer_bytes, max_message_bytes_);
  }
  return score;
}

absl::StatusOr<EmbedRequest> Converter::ToEmbedRequest(
    const v1::EmbedRequest& request) const {
  EmbedRequest embed;
  if (!request.model().empty()) {
    STEADYSTATE_RETURN_IF_ERROR(
        CheckModelName("model", request.model(), model_id_));
  }
  if (!request.session().empty()) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        const absl::string_view id,
        ParseSessionName("session", request.session()));
    embed.session = std::string(id);
  }
  STEADYSTATE_RETURN_IF_ERROR(SetInput(request, embed));
  if (request.has_expected_position()) {
    if (embed.session.empty()) {
      return OutOfBounds("expected_position", request.expected_position(),
                         "absent where no session is named");
    }
    embed.expected_position = request.expected_position();
  }
  switch (request.pooling()) {
    case v1::POOLING_UNSPECIFIED:
      break;
    case v1::MEAN:
      embed.pooling = Pooling::kMean;
      break;
    case v1::LAST:
      embed.pooling = Pooling::kLast;
      break;
    default:
      return OutOfBounds("pooling", static_cast<int>(request.pooling()),
                         "absent, MEAN or LAST");
  }
  embed.bidirectional = request.bidirectional();
  const size_t bytes = kAnswerOverheadBytes + hidden_size_ * sizeof(float);
  if (bytes > max_message_bytes_) {
    return MessageTooLarge(bytes, max_message_bytes_);
  }
  return embed;
}

absl::Status Converter::SetInput(const v1::EmbedRequest& request,
                                 EmbedRequest& to) const {
  switch (request.input_case()) {
    case v1::EmbedRequest::kText: {
      if (request.text().empty()) {
        return OutOfBounds("text", "", "text of at least one token");
      }
      STEADYSTATE_ASSIGN_OR_RETURN(to.tokens, Tokenize("text", request.text()));
      return absl::OkStatus();
    }
    case v1::EmbedRequest::kTokens: {
      STEADYSTATE_ASSIGN_OR_RETURN(to.tokens,
                                   ToTokens("tokens.ids", request.tokens()));
      return absl::OkStatus();
    }
    case v1::EmbedRequest::kEmbeddings: {
      STEADYSTATE_ASSIGN_OR_RETURN(to.embeddings,
                                   ToEmbeddings(request.embeddings()));
      return absl::OkStatus();
    }
    case v1::EmbedRequest::INPUT_NOT_SET:
      break;
  }
  return MissingField("input", "give text, tokens or embeddings");
}

size_t Converter::AnswerBytes(const StepOutputs& outputs) const {
  size_t bytes = kAnswerOverheadBytes;
  if (outputs.logits) bytes += vocab_size_ * sizeof(float);
  if (outputs.hidden) bytes += hidden_size_ * sizeof(float);
  return bytes + outputs.top_logprobs.value_or(0) * kTopLogprobBytes;
}

absl::Status Converter::CheckTokens(absl::string_view field, const int32_t* ids,
                                    size_t count) const {
  for (size_t i = 0; i < count; ++i) {
    // As unsigned, a negative id is large.
    if (static_cast<uint32_t>(ids[i]) < vocab_size_) [[likely]] {
      continue;
    }
    return MakeError(ErrorReason::kTokenOutOfRange,
                     absl::StrCat(field, "[", i, "] is ", ids[i],
                                  "; it must be in [0, ", vocab_size_, ")"),
                     {{"field", std::string(field)},
                      {"index", absl::StrCat(i)},
                      {"token", absl::StrCat(ids[i])},
                      {"vocab_size", absl::StrCat(vocab_size_)}});
  }
  return absl::OkStatus();
}

absl::Status Converter::NeedTokenizer(absl::string_view what) const {
  if (tokenizer_ != nullptr) return absl::OkStatus();
  return MakeError(ErrorReason::kTokenizerUnavailable,
                   absl::StrCat(what, " needs a tokenizer and model ",
                                model_id_, " has none; send token ids"));
}

absl::Status Converter::CheckCount(absl::string_view field,
                                   size_t count) const {
  if (count >= 1 && count <= options_.max_tokens_per_request) {
    return absl::OkStatus();
  }
  return OutOfBounds(
      field, absl::StrCat(count, " tokens"),
      absl::StrCat("1 to ", options_.max_tokens_per_request, " tokens"));
}

absl::StatusOr<std::vector<int32_t>> Converter::ToTokens(
    absl::string_view field, const v1::Tokens& tokens) const {
  std::vector<int32_t> ids;
  STEADYSTATE_RETURN_IF_ERROR(SetTokens(field, tokens, ids));
  return ids;
}

absl::Status Converter::SetTokens(absl::string_view field,
                                  const v1::Tokens& tokens,
                                  std::vector<int32_t>& to) const {
  const auto count = static_cast<size_t>(tokens.ids_size());
  STEADYSTATE_RETURN_IF_ERROR(CheckCount(field, count));
  STEADYSTATE_RETURN_IF_ERROR(CheckTokens(field, tokens.ids().data(), count));
  to.assign(tokens.ids().begin(), tokens.ids().end());
  return absl::OkStatus();
}

absl::Status Converter::CheckTextLength(absl::string_view field,
                                        size_t bytes) const {
  const size_t most = tokenizer_->max_text_bytes();
  if (bytes <= most) return absl::OkStatus();
  return OutOfBounds(field, absl::StrCat(bytes, " bytes"),
                     absl::StrCat("at most ", most,
                                  " bytes with this model's tokenizer; send "
                                  "longer texts as token ids, or in parts"));
}

absl::StatusOr<std::vector<int32_t>> Converter::Tokenize(
    absl::string_view field, absl::string_view text) const {
  STEADYSTATE_RETURN_IF_ERROR(NeedTokenizer(field));
  STEADYSTATE_RETURN_IF_ERROR(CheckTextLength(field, text.size()));
  STEADYSTATE_ASSIGN_OR_RETURN(std::vector<int32_t> tokens,
                               tokenizer_->Encode(text));
  STEADYSTATE_RETURN_IF_ERROR(CheckCount(field, tokens.size()));
  return tokens;
}

absl::StatusOr<std::vector<float>> Converter::ToEmbeddings(
    const v1::Embeddings& embeddings) const {
  constexpr absl::string_view kField = "embeddings.values";
  const auto& values = embeddings.values();
  const auto count = static_cast<size_t>(values.size());
  if (count == 0 || count % hidden_size_ != 0) {
    return OutOfBounds(
        kField, absl::StrCat(count, " long"),
        absl::StrCat("one or more times ", hidden_size_, " long"));
  }
  STEADYSTATE_RETURN_IF_ERROR(CheckCount("embeddings", count / hidden_size_));
  const auto bad = std::find_if(values.begin(), values.end(),
                                [](float v) { return !std::isfinite(v); });
  if (bad != values.end()) {
    return OutOfBounds(absl::StrCat(kField, "[", bad - values.begin(), "]"),
                       *bad, "finite");
  }
  return std::vector<float>(values.begin(), values.end());
}

absl::Status Converter::SetOutputs(const v1::StepOutput& output,
                                   StepOutputs& to) const {
  to.logits = output.logits();
  to.hidden = output.hidden();
  to.top_logprobs.reset();
  if (output.has_top_logprobs()) {
    STEADYSTATE_RETURN_IF_ERROR(CheckRange<size_t>(
        "output.top_logprobs", output.top_logprobs(), 1, kMaxTopLogprobs));
    to.top_logprobs = output.top_logprobs();
  }
  to.sampling.reset();
  if (output.has_sample()) {
    STEADYSTATE_RETURN_IF_ERROR(
        SetSampling("output.sample", output.sample(), to.sampling.emplace()));
  }
  return absl::OkStatus();
}

absl::Status Converter::SetSampling(absl::string_view path,
                                    const v1::Sampling& sampling,
                                    SamplingParams& to) const {
  const auto field = [path](absl::string_view name) {
    return absl::StrCat(path, ".", name);
  };
  if (sampling.has_temperature()) {
    to.temperature = sampling.temperature();
    STEADYSTATE_RETURN_IF_ERROR(
        CheckRange(field("temperature"), to.temperature, 0.0, 100.0));
  }
  if (sampling.has_top_k()) {
    if (sampling.top_k() == 0) {
      return OutOfBounds(field("top_k"), 0, "at least 1, or absent");
    }
    to.top_k = sampling.top_k();
  }
  if (sampling.has_top_p()) {
    to.top_p = sampling.top_p();
    STEADYSTATE_RETURN_IF_ERROR(CheckOpenRange(field("top_p"), to.top_p, 0, 1));
  }
  if (sampling.has_min_p()) {
    to.min_p = sampling.min_p();
    STEADYSTATE_RETURN_IF_ERROR(CheckRange(field("min_p"), to.min_p, 0.0, 1.0));
  }
  if (sampling.has_repetition_penalty()) {
    to.repetition_penalty = sampling.repetition_penalty();
    STEADYSTATE_RETURN_IF_ERROR(CheckOpenRange(field("repetition_penalty"),
                                               to.repetition_penalty, 0, 10));
  }
  if (sampling.has_presence_penalty()) {
    to.presence_penalty = sampling.presence_penalty();
    STEADYSTATE_RETURN_IF_ERROR(
        CheckRange(field("presence_penalty"), to.presence_penalty, -2.0, 2.0));
  }
  if (sampling.has_frequency_penalty()) {
    to.frequency_penalty = sampling.frequency_penalty();
    STEADYSTATE_RETURN_IF_ERROR(CheckRange(field("frequency_penalty"),
                                           to.frequency_penalty, -2.0, 2.0));
  }
  if (sampling.has_penalty_window()) {
    to.penalty_window = sampling.penalty_window();
    STEADYSTATE_RETURN_IF_ERROR(CheckRange<size_t>(
        field("penalty_window"), to.penalty_window, 0, kMaxPenaltyWindow));
  }
  to.seed = sampling.seed();
  if (sampling.logit_bias().empty()) return absl::OkStatus();
  return ToLogitBias(field("logit_bias"), sampling, to);
}

absl::Status Converter::ToLogitBias(absl::string_view field,
                                    const v1::Sampling& sampling,
                                    SamplingParams& to) const {
  const auto& biases = sampling.logit_bias();
  if (biases.size() > kMaxLogitBiases) {
    return OutOfBounds(field, absl::StrCat(biases.size(), " entries"),
                       absl::StrCat("at most ", kMaxLogitBiases, " entries"));
  }
  to.logit_bias.assign(biases.begin(), biases.end());
  // A map has no order of its own; errors should not depend on chance.
  std::sort(to.logit_bias.begin(), to.logit_bias.end());
  for (const auto& [token, bias] : to.logit_bias) {
    STEADYSTATE_RETURN_IF_ERROR(CheckTokens(field, &token, 1));
    STEADYSTATE_RETURN_IF_ERROR(CheckRange(absl::StrCat(field, "[", token, "]"),
                                           bias, -100.0f, 100.0f));
  }
  return absl::OkStatus();
}

absl::Status Converter::CheckStops(const v1::GenerateRequest& request) const {
  if (request.stop_size() > 0) {
    STEADYSTATE_RETURN_IF_ERROR(NeedTokenizer("stop"));
  }
  if (static_cast<size_t>(request.stop_size()) > options_.max_stop_strings) {
    return OutOfBounds(
        "stop", absl::StrCat(request.stop_size(), " strings"),
        absl::StrCat("at most ", options_.max_stop_strings, " strings"));
  }
  for (int i = 0; i < request.stop_size(); ++i) {
    const size_t bytes = request.stop(i).size();
    if (bytes < 1 || bytes > options_.max_stop_string_bytes) {
      return OutOfBounds(
          absl::StrCat("stop[", i, "]"), absl::StrCat(bytes, " bytes long"),
          absl::StrCat("1 to ", options_.max_stop_string_bytes, " bytes long"));
    }
  }
  const auto stop_tokens = static_cast<size_t>(request.stop_tokens_size());
  if (stop_tokens > options_.max_stop_tokens) {
    return OutOfBounds(
        "stop_tokens", absl::StrCat(stop_tokens, " tokens"),
        absl::StrCat("at most ", options_.max_stop_tokens, " tokens"));
  }
  return CheckTokens("stop_tokens", request.stop_tokens().data(), stop_tokens);
}

}  // namespace steadystate
