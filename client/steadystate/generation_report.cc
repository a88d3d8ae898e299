#include "client/steadystate/generation_report.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace steadystate::client {

void GenerationReport::Add(const v1::GenerateResponse& message,
                           SteadyTime now) {
  position_ = message.position();
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
    seed_ = message.usage().seed();
    finish_reason_ = message.finish_reason();
  }
}

std::optional<absl::Duration> GenerationReport::time_to_first_token() const {
  if (tokens_.empty()) return {};
  return absl::FromChrono(first_token_ - start_);
}

std::optional<double> GenerationReport::tokens_per_second() const {
  const double seconds =
      absl::ToDoubleSeconds(absl::FromChrono(last_token_ - first_token_));
  const uint64_t count = tokens_.size() - first_message_token_count_;
  if (count == 0 || seconds <= 0) return {};
  return static_cast<double>(count) / seconds;
}

Json GenerationReport::Figures(const v1::Session& session) const {
  Json json{{"session", session.name()},
            {"position", position_},
            {"state_bytes", session.state_bytes()},
            {"prompt_tokens", prompt_count_},
            {"generated_tokens", tokens_.size()},
            {"finish_reason", v1::FinishReason_Name(finish_reason_)}};
  if (seed_) json["seed"] = *seed_;
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

std::string GenerationReport::Summary(const v1::Session& session,
                                      bool deleted) const {
  std::string summary = absl::StrFormat(
      "session              %s (%s)\n"
      "position             %d tokens\n"
      "state                %d bytes\n"
      "prompt               %d tokens\n"
      "generated            %d tokens, ended by %s\n",
      session.name(), deleted ? "deleted at the end" : "kept", position_,
      session.state_bytes(), prompt_count_, tokens_.size(),
      v1::FinishReason_Name(finish_reason_));
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
