#ifndef STEADYSTATE_CLIENT_CLI_GENERATION_H_
#define STEADYSTATE_CLIENT_CLI_GENERATION_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cli/output.h"
#include "client/options/options.h"
#include "steadystate/v1/generation.pb.h"
#include "steadystate/v1/session.pb.h"

namespace steadystate::client {

// The options that say how tokens are drawn. What is not given stays absent, so
// that the server's defaults hold; ranges are checked by the server.
struct SamplingOptions {
  std::optional<double> temperature;
  std::optional<uint32_t> top_k;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
  std::optional<double> presence_penalty;
  std::optional<double> frequency_penalty;
  std::optional<uint32_t> penalty_window;
  std::optional<uint64_t> seed;
  std::map<int32_t, float> logit_bias;

  // Appends the options, with this object as their target.
  void AppendTo(OptionTable& table);

  // What was given, as a part of a request.
  v1::Sampling ToProto() const;
};

// Reads --max_tokens: a whole number, or nothing for "none".
absl::StatusOr<std::optional<uint64_t>> ParseMaxTokens(absl::string_view text);

// Reads a token id. INVALID_ARGUMENT if it is none.
absl::StatusOr<int32_t> ParseTokenId(absl::string_view text);

// What a generation brought and took, as this side of the connection saw it.
// Built message by message. Confined to one thread.
class GenerationReport {
 public:
  // `start`: when the first piece of the prompt was sent.
  explicit GenerationReport(std::chrono::steady_clock::time_point start)
      : start_(start) {}

  // Adds a message that arrived at `now`.
  void Add(const v1::GenerateResponse& message,
           std::chrono::steady_clock::time_point now);

  // Says that no last message came, and what the call ended with: CANCELLED,
  // for instance, is then what the report says for the reason. What only the
  // last message tells is left out, or is what the positions say.
  void EndedBy(absl::StatusCode code);

  // Tokens that have come.
  size_t token_count() const { return tokens_.size(); }

  // The token that came last; nothing if none has.
  std::optional<int32_t> last_token() const;

  // Why the generation ended, if its last message has come.
  v1::FinishReason finish_reason() const { return finish_reason_; }

  // The session's position after the last message.
  uint64_t position() const { return position_; }

  // Until when the server takes requests, by its time of day, if it has said
  // that it is about to shut down.
  const std::optional<absl::Time>& going_away() const { return going_away_; }

  // From the start to the first token; nothing before it.
  std::optional<absl::Duration> time_to_first_token() const;

  // Tokens per second after those of the first message; since the start where
  // all came within a millisecond. Nothing before there are two.
  std::optional<double> tokens_per_second() const;

  // All of it, for programs: text, token ids and, where they were asked for,
  // their log-probabilities included.
  Json ToJson(const v1::Session& session) const;

  // The figures alone, for people. `deleted`: the session does not outlive the
  // command.
  std::string Summary(const v1::Session& session, bool deleted) const;

 private:
  Json Figures(const v1::Session& session) const;
  std::string FinishReason() const;
  uint64_t PromptCount(const v1::Session& session) const;

  const std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point first_token_;
  std::chrono::steady_clock::time_point last_token_;
  uint64_t position_ = 0;
  uint64_t prompt_count_ = 0;
  uint64_t reused_count_ = 0;
  uint64_t first_message_token_count_ = 0;
  std::optional<uint64_t> seed_;
  std::optional<absl::Time> going_away_;
  std::string cut_;  // what a call ended with that was cut short
  v1::FinishReason finish_reason_ = v1::FINISH_REASON_UNSPECIFIED;
  std::string text_;
  Json tokens_ = Json::array();
  Json logprobs_ = Json::array();
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_CLI_GENERATION_H_
