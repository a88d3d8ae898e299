#ifndef STEADYSTATE_CLIENT_STEADYSTATE_GENERATION_REPORT_H_
#define STEADYSTATE_CLIENT_STEADYSTATE_GENERATION_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "client/clock.h"
#include "client/steadystate/output.h"
#include "steadystate/v1/generation.pb.h"
#include "steadystate/v1/session.pb.h"

namespace steadystate::client {

// What a generation brought and took, as this side of the connection saw it.
// Built message by message. Confined to one thread.
class GenerationReport {
 public:
  // `start`: when the first piece of the prompt was sent.
  explicit GenerationReport(SteadyTime start) : start_(start) {}

  // Adds a message that arrived at `now`.
  void Add(const v1::GenerateResponse& message, SteadyTime now);

  // The session's position after the last message.
  uint64_t position() const { return position_; }

  // From the start to the first token; nothing before it.
  std::optional<absl::Duration> time_to_first_token() const;

  // Tokens per second after those of the first message; nothing if no others
  // came.
  std::optional<double> tokens_per_second() const;

  // All of it, for programs: text, token ids and, where they were asked for,
  // their log-probabilities included.
  Json ToJson(const v1::Session& session) const;

  // The figures alone, for people. `deleted`: the session does not outlive the
  // command.
  std::string Summary(const v1::Session& session, bool deleted) const;

 private:
  Json Figures(const v1::Session& session) const;

  const SteadyTime start_;
  SteadyTime first_token_;
  SteadyTime last_token_;
  uint64_t position_ = 0;
  uint64_t prompt_count_ = 0;
  uint64_t first_message_token_count_ = 0;
  std::optional<uint64_t> seed_;
  v1::FinishReason finish_reason_ = v1::FINISH_REASON_UNSPECIFIED;
  std::string text_;
  Json tokens_ = Json::array();
  Json logprobs_ = Json::array();
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_STEADYSTATE_GENERATION_REPORT_H_
