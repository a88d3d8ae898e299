#include "client/cli/generation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "steadystate/client.h"

namespace steadystate::client {

void SamplingOptions::AppendTo(OptionTable& table) {
  const auto read_bias = [this](absl::string_view text) -> absl::Status {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(text, absl::MaxSplits('=', 1));
    const auto token = ParseTokenId(parts.first);
    float bias = 0;
    if (!token.ok() || !absl::SimpleAtof(parts.second, &bias) ||
        !std::isfinite(bias)) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", text, "' is not TOKEN=BIAS, such as 10=-2.5"));
    }
    logit_bias[*token] = bias;
    return absl::OkStatus();
  };
  const OptionTable options = {
      {"temperature", "X", "Divides the logits; 0 takes the most likely token.",
       &temperature, 't', "0 to 100", "1"},
      {"top_k", "K", "Keeps the K most likely tokens.", &top_k, 0, "1 or more",
       "all"},
      {"top_p", "P",
       "Keeps the most likely tokens whose probabilities sum to P.", &top_p, 0,
       "above 0, at most 1", "1"},
      {"min_p", "P",
       "Drops tokens less than P times as likely as the most likely one.",
       &min_p, 0, "0 to 1", "0"},
      {"repetition_penalty", "X",
       "Divides positive and multiplies negative logits of tokens seen in the "
       "penalty window.",
       &repetition_penalty, 0, "above 0, at most 10", "1"},
      {"presence_penalty", "X",
       "Subtracted from the logits of tokens seen in the penalty window.",
       &presence_penalty, 0, "-2 to 2", "0"},
      {"frequency_penalty", "X",
       "Subtracted once for each time a token was seen in the penalty window.",
       &frequency_penalty, 0, "-2 to 2", "0"},
      {"penalty_window", "N",
       "How many of the latest tokens the penalties look at.", &penalty_window,
       0, "0 to 256", "64"},
      {"seed", "N",
       "The same seed gives the same tokens. Default: the server draws one, "
       "which a summary or JSON tells, where the command has these.",
       &seed},
      {"logit_bias", "TOKEN=BIAS",
       "Added to the logit of a token id. May be repeated.", read_bias, 0,
       "biases -100 to 100"},
  };
  table.insert(table.end(), options.begin(), options.end());
}

v1::Sampling SamplingOptions::ToProto() const {
  v1::Sampling sampling;
  if (temperature) sampling.set_temperature(*temperature);
  if (top_k) sampling.set_top_k(*top_k);
  if (top_p) sampling.set_top_p(*top_p);
  if (min_p) sampling.set_min_p(*min_p);
  if (repetition_penalty) sampling.set_repetition_penalty(*repetition_penalty);
  if (presence_penalty) sampling.set_presence_penalty(*presence_penalty);
  if (frequency_penalty) sampling.set_frequency_penalty(*frequency_penalty);
  if (penalty_window) sampling.set_penalty_window(*penalty_window);
  if (seed) sampling.set_seed(*seed);
  sampling.mutable_logit_bias()->insert(logit_bias.begin(), logit_bias.end());
  return sampling;
}

absl::StatusOr<std::optional<uint64_t>> ParseMaxTokens(absl::string_view text) {
  uint64_t count = 0;
  if (text == "none") return std::nullopt;
  if (absl::SimpleAtoi(text, &count)) return count;
  return NotWhole(text, std::numeric_limits<uint64_t>::max(),
                  "a whole number, nor none");
}

absl::StatusOr<int32_t> ParseTokenId(absl::string_view text) {
  int32_t token = 0;
  if (!absl::SimpleAtoi(text, &token) || token < 0) {
    return NotWhole(text, std::numeric_limits<int32_t>::max(), "a token id");
  }
  return token;
}

void GenerationReport::Add(const v1::GenerateResponse& message,
                           std::chrono::steady_clock::time_point now) {
  // A message may have nothing but going_away.
  position_ = std::max(position_, message.position());
  if (message.has_going_away()) {
    going_away_ = RequestsUntil(message.going_away());
  }
  text_ += message.text_delta();
  if (message.tokens_size() > 0) {
    if (tokens_.empty()) {
      first_token_ = now;
      first_message_token_count_ = static_cast<uint64_t>(message.tokens_size());
    }
    last_token_ = now;
  }
  for (const auto& token : message.tokens()) {
    tokens_.push_back(token.token());
    if (token.has_logprob())
      logprobs_.push_back(steadystate::client::ToJson(token));
  }
  if (message.has_usage()) {
    prompt_count_ += message.usage().prompt_tokens();
    reused_count_ += message.usage().reused_tokens();
    seed_ = message.usage().seed();
    finish_reason_ = message.finish_reason();
  }
}

std::optional<absl::Duration> GenerationReport::time_to_first_token() const {
  if (tokens_.empty()) return {};
  return absl::FromChrono(first_token_ - start_);
}

std::optional<int32_t> GenerationReport::last_token() const {
  if (tokens_.empty()) return {};
  return tokens_.back().get<int32_t>();
}

std::optional<double> GenerationReport::tokens_per_second() const {
  // Messages that came together say nothing of speed.
  constexpr std::chrono::milliseconds kLeast{1};
  const bool together = last_token_ - first_token_ < kLeast;
  const uint64_t count =
      tokens_.size() - (together ? 0 : first_message_token_count_);
  const auto since = together ? start_ : first_token_;
  const double seconds =
      absl::ToDoubleSeconds(absl::FromChrono(last_token_ - since));
  if (tokens_.size() < 2 || seconds <= 0) return {};
  return static_cast<double>(count) / seconds;
}

Json GenerationReport::Figures(const v1::Session& session) const {
  Json json{{"session", session.name()},
            {"position", position_},
            {"state_bytes", session.state_bytes()},
            {"prompt_tokens", PromptCount(session)},
            {"reused_tokens", reused_count_},
            {"generated_tokens", tokens_.size()},
            {"finish_reason", FinishReason()}};
  if (seed_) json["seed"] = *seed_;
  if (going_away_) json["going_away"] = absl::FormatTime(*going_away_);
  if (const auto time = time_to_first_token()) {
    json["time_to_first_token_seconds"] = absl::ToDoubleSeconds(*time);
  }
  if (const auto speed = tokens_per_second()) {
    json["tokens_per_second"] = *speed;
  }
  return json;
}

Json GenerationReport::ToJson(const v1::Session& session) const {
  Json json = Figures(session);
  json["text"] = text_;
  json["tokens"] = tokens_;
  if (!logprobs_.empty()) json["logprobs"] = logprobs_;
  return json;
}

void GenerationReport::EndedBy(absl::StatusCode code) {
  cut_ = absl::StatusCodeToString(code);
}

std::string GenerationReport::FinishReason() const {
  return cut_.empty() ? v1::FinishReason_Name(finish_reason_) : cut_;
}

uint64_t GenerationReport::PromptCount(const v1::Session& session) const {
  const uint64_t others = session.position() + tokens_.size();
  if (cut_.empty() || position_ < others) return prompt_count_;
  return position_ - others;
}

std::string GenerationReport::Summary(const v1::Session& session,
                                      bool deleted) const {
  std::string summary = absl::StrFormat(
      "session              %s (%s)\n"
      "position             %d tokens\n"
      "state                %d bytes\n"
      "prompt               %d tokens\n"
      "generated            %d tokens, ended by %s\n",
      session.name(), deleted ? "deleted at the end" : "kept", position_,
      session.state_bytes(), PromptCount(session), tokens_.size(),
      FinishReason());
  if (const auto time = time_to_first_token()) {
    absl::StrAppendFormat(&summary, "time to first token  %.1f ms\n",
                          absl::ToDoubleMilliseconds(*time));
  }
  if (const auto speed = tokens_per_second()) {
    absl::StrAppendFormat(&summary, "speed                %.1f tokens/s\n",
                          *speed);
  }
  if (seed_)
    absl::StrAppendFormat(&summary, "seed                 %d\n", *seed_);
  return summary;
}

}  // namespace steadystate::client
