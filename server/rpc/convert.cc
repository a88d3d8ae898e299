#include "server/rpc/convert.h"

#include <sys/random.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"
#include "server/engine/validate.h"
#include "server/model/sampler.h"
#include "server/rpc/answer.h"
#include "server/session/session_id.h"

namespace steadystate {
namespace {

// What an error's metadata repeat of a name.
constexpr size_t kMaxEchoBytes = 256;

// Where the API has what the engine calls `tokens` or `prompt`.
constexpr absl::string_view kTokens = "tokens.ids";
constexpr absl::string_view kText = "text";
// A step's sampling.
constexpr absl::string_view kSample = "output.sample";

// A seed that nobody can guess; the caller returns it to the client.
absl::StatusOr<uint64_t> DrawSeed() {
  uint64_t seed = 0;
  if (getrandom(&seed, sizeof(seed), 0) != static_cast<ssize_t>(sizeof(seed))) {
    return absl::InternalError("getrandom gave no seed");
  }
  return seed;
}

absl::Status SetSession(const std::string& name, std::string& to) {
  STEADYSTATE_ASSIGN_OR_RETURN(const absl::string_view id,
                               ParseSessionName("session", name));
  to.assign(id.data(), id.size());
  return absl::OkStatus();
}

// What says whether the request is a repeat.
template <typename Request>
void SetKey(const Request& request, RequestBase& to) {
  to.request_id = request.request_id();
  to.expected_position.reset();
  if (request.has_expected_position()) {
    to.expected_position = request.expected_position();
  }
}

absl::Status EmptyText() {
  return OutOfBounds(kText, "", "text of at least one token");
}

// `to` is fresh.
absl::Status SetSampling(absl::string_view path, const v1::Sampling& sampling,
                         SamplingParams& to) {
  if (sampling.has_temperature()) to.temperature = sampling.temperature();
  if (sampling.has_top_k()) to.top_k = sampling.top_k();
  if (sampling.has_top_p()) to.top_p = sampling.top_p();
  if (sampling.has_min_p()) to.min_p = sampling.min_p();
  if (sampling.has_repetition_penalty()) {
    to.repetition_penalty = sampling.repetition_penalty();
  }
  if (sampling.has_presence_penalty()) {
    to.presence_penalty = sampling.presence_penalty();
  }
  if (sampling.has_frequency_penalty()) {
    to.frequency_penalty = sampling.frequency_penalty();
  }
  if (sampling.has_penalty_window()) {
    to.penalty_window = sampling.penalty_window();
  }
  to.seed = sampling.seed();
  const auto& biases = sampling.logit_bias();
  if (biases.empty()) return absl::OkStatus();
  STEADYSTATE_RETURN_IF_ERROR(
      Within(path, CheckLogitBiasCount("logit_bias", biases.size())));
  to.logit_bias.assign(biases.begin(), biases.end());
  // A map has no order of its own; errors should not depend on chance.
  std::sort(to.logit_bias.begin(), to.logit_bias.end());
  return absl::OkStatus();
}

absl::Status SetOutputs(const v1::StepOutput& output, StepOutputs& to) {
  to.logits = output.logits();
  to.hidden = output.hidden();
  to.text = output.text();
  to.top_logprobs.reset();
  if (output.has_top_logprobs()) to.top_logprobs = output.top_logprobs();
  to.sampling.reset();
  if (!output.has_sample()) return absl::OkStatus();
  return SetSampling(kSample, output.sample(), to.sampling.emplace());
}

// What the engine says of a request, in the API's names.
absl::Status OfStep(absl::Status status) {
  if (status.ok()) return status;
  status = Renamed("tokens", kTokens, status);
  status = Renamed("outputs.sampling", kSample, status);
  return Renamed("outputs", "output", status);
}

absl::Status OfGenerate(const absl::Status& status) {
  return Renamed("prompt", kTokens, Renamed("stop_strings", "stop", status));
}

absl::Status OfTokens(const absl::Status& status) {
  return Renamed("tokens", kTokens, status);
}

absl::StatusOr<Pooling> ToPooling(v1::Pooling pooling) {
  switch (pooling) {
    case v1::POOLING_UNSPECIFIED:
      return Pooling::kNone;
    case v1::MEAN:
      return Pooling::kMean;
    case v1::LAST:
      return Pooling::kLast;
    default:
      return OutOfBounds("pooling", static_cast<int>(pooling),
                         "absent, MEAN or LAST");
  }
}

}  // namespace

namespace {

absl::StatusOr<absl::Duration> ParseDuration(
    absl::string_view field, const google::protobuf::Duration& from) {
  constexpr int32_t kMostNanos = 999'999'999;
  if (from.nanos() < -kMostNanos || from.nanos() > kMostNanos) {
    return OutOfBounds(absl::StrCat(field, ".nanos"), from.nanos(),
                       "in [-999999999, 999999999]");
  }
  if ((from.seconds() > 0 && from.nanos() < 0) ||
      (from.seconds() < 0 && from.nanos() > 0)) {
    return OutOfBounds(absl::StrCat(field, ".nanos"), from.nanos(),
                       absl::StrCat("0 or of the sign of ", field, ".seconds"));
  }
  return absl::Seconds(from.seconds()) + absl::Nanoseconds(from.nanos());
}

}  // namespace

absl::StatusOr<absl::Duration> ParseTtl(const google::protobuf::Duration& ttl) {
  STEADYSTATE_ASSIGN_OR_RETURN(const absl::Duration duration,
                               ParseDuration("session.ttl", ttl));
  STEADYSTATE_RETURN_IF_ERROR(Within("session", ValidateSessionTtl(duration)));
  return duration;
}

namespace {

// `Options`: SessionOptions or ForkOptions.
template <typename Options>
absl::Status SetChoices(const v1::Session& from, Options& to) {
  if (from.has_ttl()) {
    STEADYSTATE_ASSIGN_OR_RETURN(to.ttl, ParseTtl(from.ttl()));
  }
  // Before any of them is looked at: there may be as many as a message holds.
  STEADYSTATE_RETURN_IF_ERROR(
      Within("session", ValidateLabelCount(from.labels().size())));
  to.labels.insert(from.labels().begin(), from.labels().end());
  if (from.context_cap() != 0) to.context_cap = from.context_cap();
  return Within("session", ValidateLabels(to.labels));
}

absl::Status SetDurability(const v1::Session& from, SessionOptions& to) {
  const int asked = from.durability();
  if (asked == v1::Session::DURABILITY_UNSPECIFIED) return absl::OkStatus();
  STEADYSTATE_RETURN_IF_ERROR(CheckRange<int>(
      "session.durability", asked, v1::Session::NONE, v1::Session::SYNC));
  to.durability = static_cast<Durability>(asked - v1::Session::NONE);
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckModelName(absl::string_view field, absl::string_view name,
                            absl::string_view model_id) {
  constexpr absl::string_view kForm = "\"models/{id}\"";
  if (name.empty()) return MissingField(field, kForm);
  absl::string_view id = name;
  if (!absl::ConsumePrefix(&id, "models/") || id.empty()) {
    return OutOfBounds(field, name, kForm);
  }
  if (id == model_id) return absl::OkStatus();
  return MakeError(
      ErrorReason::kModelNotFound,
      absl::StrCat("no model ", Excerpt(name, kMaxShownBytes),
                   " here; the server's only one is models/", model_id),
      {{"model", std::string(Excerpt(name, kMaxEchoBytes))}});
}

Converter::Converter(const Model& model, const EngineOptions& options,
                     size_t max_message_bytes)
    : model_(model), options_(options), max_message_bytes_(max_message_bytes) {}

absl::StatusOr<SessionOptions> Converter::ToSessionOptions(
    const v1::CreateSessionRequest& request) const {
  SessionOptions options;
  if (!request.session_id().empty()) {
    STEADYSTATE_RETURN_IF_ERROR(ValidateSessionId(request.session_id()));
  }
  options.id = request.session_id();
  if (!request.model().empty()) {
    STEADYSTATE_RETURN_IF_ERROR(
        CheckModelName("model", request.model(), model_.description().id));
  }
  STEADYSTATE_RETURN_IF_ERROR(SetChoices(request.session(), options));
  STEADYSTATE_RETURN_IF_ERROR(SetDurability(request.session(), options));
  return options;
}

absl::StatusOr<SessionOptions> Converter::ToSessionOptions(
    const v1::ImportSessionRequest& request) const {
  SessionOptions options;
  if (!request.session_id().empty()) {
    STEADYSTATE_RETURN_IF_ERROR(ValidateSessionId(request.session_id()));
  }
  options.id = request.session_id();
  STEADYSTATE_RETURN_IF_ERROR(SetChoices(request.session(), options));
  STEADYSTATE_RETURN_IF_ERROR(SetDurability(request.session(), options));
  return options;
}

absl::StatusOr<ForkOptions> Converter::ToForkOptions(
    const v1::ForkSessionRequest& request) const {
  const auto named = static_cast<size_t>(request.session_ids_size());
  if (named > kMaxForks) {
    return OutOfBounds("session_ids", absl::StrCat(named, " ids"),
                       absl::StrCat("at most ", kMaxForks, " ids"));
  }
  const size_t count =
      request.has_count() ? request.count() : std::max<size_t>(named, 1);
  STEADYSTATE_RETURN_IF_ERROR(CheckRange<size_t>("count", count, 1, kMaxForks));
  if (named > 0 && count != named) {
    return OutOfBounds(
        "count", count,
        absl::StrCat("absent or the number of session_ids, ", named));
  }
  ForkOptions forks;
  forks.count = count;
  forks.ids.assign(request.session_ids().begin(), request.session_ids().end());
  STEADYSTATE_RETURN_IF_ERROR(ValidateSessionIds(forks.ids));
  STEADYSTATE_RETURN_IF_ERROR(SetChoices(request.session(), forks));
  if (request.has_position()) forks.at.position = request.position();
  return forks;
}

namespace {

absl::Status SetTimeout(const v1::StepRequest& from, StepRequest& to) {
  to.timeout = absl::InfiniteDuration();
  if (!from.has_timeout()) return absl::OkStatus();
  STEADYSTATE_ASSIGN_OR_RETURN(to.timeout,
                               ParseDuration("timeout", from.timeout()));
  if (to.timeout > absl::ZeroDuration()) return absl::OkStatus();
  return OutOfBounds("timeout", absl::FormatDuration(to.timeout), "above 0");
}

}  // namespace

absl::StatusOr<StepRequest> Converter::ToStepRequest(
    const v1::StepRequest& request) const {
  StepRequest step;
  STEADYSTATE_RETURN_IF_ERROR(ToStepRequest(request, step));
  return step;
}

absl::Status Converter::ToStepRequest(const v1::StepRequest& request,
                                      StepRequest& to) const {
  STEADYSTATE_RETURN_IF_ERROR(SetSession(request.session(), to.session));
  STEADYSTATE_RETURN_IF_ERROR(SetStepInput(request, to));
  SetKey(request, to);
  STEADYSTATE_RETURN_IF_ERROR(SetTimeout(request, to));
  to.ephemeral = request.ephemeral();
  to.starts = to.ends = false;
  STEADYSTATE_RETURN_IF_ERROR(SetOutputs(request.output(), to.outputs));
  STEADYSTATE_RETURN_IF_ERROR(OfStep(Validate(to, model_, options_)));
  return CheckAnswer(MostWireBytes(to.outputs, model_));
}

absl::Status Converter::SetStepInput(const v1::StepRequest& request,
                                     StepRequest& to) const {
  to.tokens.clear();
  to.embeddings.clear();
  switch (request.input_case()) {
    case v1::StepRequest::kTokens:
      STEADYSTATE_RETURN_IF_ERROR(CheckStepLength(
          kTokens, static_cast<size_t>(request.tokens().ids_size()), options_));
      return SetTokens(request.tokens(), to.tokens);
    case v1::StepRequest::kEmbeddings:
      return SetStepEmbeddings(request.embeddings(), to.embeddings);
    case v1::StepRequest::kText:
      return SetStepText(request.text(), to.tokens);
    case v1::StepRequest::INPUT_NOT_SET:
      break;
  }
  // What else it must be then, the engine says.
  if (request.ephemeral()) return absl::OkStatus();
  return MissingField("input", "give tokens, embeddings or text");
}

absl::StatusOr<GenerateRequest> Converter::ToGenerateRequest(
    const v1::GenerateRequest& request) const {
  GenerateRequest generate;
  if (!request.session().empty()) {
    STEADYSTATE_RETURN_IF_ERROR(
        SetSession(request.session(), generate.session));
  }
  if (!request.text().empty()) {
    STEADYSTATE_RETURN_IF_ERROR(SetTokensOf(request.text(), generate.prompt));
  } else if (request.tokens().ids_size() > 0) {
    STEADYSTATE_RETURN_IF_ERROR(SetTokens(request.tokens(), generate.prompt));
  }
  SetKey(request, generate);
  STEADYSTATE_RETURN_IF_ERROR(
      SetSampling("sampling", request.sampling(), generate.sampling));
  if (!request.sampling().has_seed()) {
    STEADYSTATE_ASSIGN_OR_RETURN(generate.sampling.seed, DrawSeed());
    generate.seed_drawn = true;
  }
  if (request.has_max_tokens()) generate.max_tokens = request.max_tokens();
  STEADYSTATE_RETURN_IF_ERROR(SetStops(request, generate));
  if (request.has_logprobs()) generate.logprobs = request.logprobs();
  generate.reuse_prefix = request.reuse_prefix();
  STEADYSTATE_RETURN_IF_ERROR(OfGenerate(Validate(generate, model_, options_)));
  return generate;
}

absl::Status Converter::SetStops(const v1::GenerateRequest& request,
                                 GenerateRequest& to) const {
  STEADYSTATE_RETURN_IF_ERROR(CheckStopStringCount(
      "stop", static_cast<size_t>(request.stop_size()), options_));
  STEADYSTATE_RETURN_IF_ERROR(CheckStopTokenCount(
      "stop_tokens", static_cast<size_t>(request.stop_tokens_size()),
      options_));
  to.stop_strings.assign(request.stop().begin(), request.stop().end());
  to.stop_tokens.assign(request.stop_tokens().begin(),
                        request.stop_tokens().end());
  to.ignore_eos = request.ignore_eos();
  return absl::OkStatus();
}

absl::StatusOr<ScoreRequest> Converter::ToScoreRequest(
    const v1::ScoreRequest& request) const {
  ScoreRequest score;
  if (!request.session().empty()) {
    STEADYSTATE_RETURN_IF_ERROR(SetSession(request.session(), score.session));
  }
  STEADYSTATE_RETURN_IF_ERROR(SetScoreInput(request, score));
  SetKey(request, score);
  if (request.has_top_logprobs()) score.top_logprobs = request.top_logprobs();
  score.logits = request.logits();
  STEADYSTATE_RETURN_IF_ERROR(OfTokens(Validate(score, model_, options_)));
  STEADYSTATE_RETURN_IF_ERROR(CheckAnswer(MostWireBytes(score, model_)));
  return score;
}

absl::Status Converter::SetScoreInput(const v1::ScoreRequest& request,
                                      ScoreRequest& to) const {
  switch (request.input_case()) {
    case v1::ScoreRequest::kText:
      if (request.text().empty()) return EmptyText();
      return SetTokensOf(request.text(), to.tokens);
    case v1::ScoreRequest::kTokens:
      return SetTokens(request.tokens(), to.tokens);
    case v1::ScoreRequest::INPUT_NOT_SET:
      break;
  }
  return MissingField("input", "give text or tokens");
}

absl::StatusOr<EmbedRequest> Converter::ToEmbedRequest(
    const v1::EmbedRequest& request) const {
  EmbedRequest embed;
  if (!request.model().empty()) {
    STEADYSTATE_RETURN_IF_ERROR(
        CheckModelName("model", request.model(), model_.description().id));
  }
  if (!request.session().empty()) {
    STEADYSTATE_RETURN_IF_ERROR(SetSession(request.session(), embed.session));
  }
  STEADYSTATE_RETURN_IF_ERROR(SetEmbedInput(request, embed));
  SetKey(request, embed);
  STEADYSTATE_ASSIGN_OR_RETURN(embed.pooling, ToPooling(request.pooling()));
  embed.bidirectional = request.bidirectional();
  STEADYSTATE_RETURN_IF_ERROR(Renamed("tokens",
                                      request.has_text() ? kText : kTokens,
                                      Validate(embed, model_, options_)));
  STEADYSTATE_RETURN_IF_ERROR(CheckAnswer(MostWireBytes(embed, model_)));
  return embed;
}

absl::Status Converter::SetEmbedInput(const v1::EmbedRequest& request,
                                      EmbedRequest& to) const {
  switch (request.input_case()) {
    case v1::EmbedRequest::kText:
      if (request.text().empty()) return EmptyText();
      return SetTokensOf(request.text(), to.tokens);
    case v1::EmbedRequest::kTokens:
      return SetTokens(request.tokens(), to.tokens);
    case v1::EmbedRequest::kEmbeddings:
      return SetEmbeddings(request.embeddings(), to.embeddings);
    case v1::EmbedRequest::INPUT_NOT_SET:
      break;
  }
  return MissingField("input", "give text, tokens or embeddings");
}

absl::Status Converter::SetTokens(const v1::Tokens& tokens,
                                  std::vector<int32_t>& to) const {
  const auto& ids = tokens.ids();
  STEADYSTATE_RETURN_IF_ERROR(
      CheckInputLength(kTokens, static_cast<size_t>(ids.size()), options_));
  to.assign(ids.begin(), ids.end());
  return absl::OkStatus();
}

absl::Status Converter::SetEmbeddings(const v1::Embeddings& embeddings,
                                      std::vector<float>& to) const {
  const auto& values = embeddings.values();
  const auto count = static_cast<size_t>(values.size());
  const size_t hidden_size = model_.description().hidden_size;
  STEADYSTATE_RETURN_IF_ERROR(
      CheckEmbeddingValues("embeddings.values", count, hidden_size));
  STEADYSTATE_RETURN_IF_ERROR(
      CheckInputLength("embeddings", count / hidden_size, options_));
  to.assign(values.begin(), values.end());
  return absl::OkStatus();
}

absl::Status Converter::SetStepEmbeddings(const v1::Embeddings& embeddings,
                                          std::vector<float>& to) const {
  const auto count = static_cast<size_t>(embeddings.values_size());
  const size_t hidden_size = model_.description().hidden_size;
  if (count >= hidden_size) {
    STEADYSTATE_RETURN_IF_ERROR(
        CheckStepLength("embeddings", count / hidden_size, options_));
  }
  return SetEmbeddings(embeddings, to);
}

absl::Status Converter::SetStepText(const std::string& text,
                                    std::vector<int32_t>& to) const {
  if (text.empty()) return EmptyText();
  if (text.size() > kShortTextBytes) {
    return MakeError(
        ErrorReason::kInvalidArgument,
        absl::StrCat("text has ", text.size(),
                     " bytes, and a Step takes at "
                     "most ",
                     kShortTextBytes,
                     ": send a longer one by Generate with max_tokens 0, or in "
                     "parts"),
        {{"field", "text"},
         {"value", absl::StrCat(text.size(), " bytes")},
         {"bounds", absl::StrCat("1 to ", kShortTextBytes, " bytes")}});
  }
  STEADYSTATE_RETURN_IF_ERROR(SetTokensOf(text, to));
  return CheckStepLength(kText, to.size(), options_);
}

absl::Status Converter::SetTokensOf(const std::string& text,
                                    std::vector<int32_t>& to) const {
  STEADYSTATE_RETURN_IF_ERROR(CheckTextLength(kText, text.size(), model_));
  STEADYSTATE_ASSIGN_OR_RETURN(to, model_.tokenizer()->Encode(text));
  return CheckInputLength(kText, to.size(), options_);
}

absl::Status Converter::CheckAnswer(size_t bytes) const {
  if (bytes <= max_message_bytes_) return absl::OkStatus();
  return MessageTooLarge(bytes, max_message_bytes_);
}

}  // namespace steadystate
