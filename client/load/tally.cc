#include "client/load/tally.h"

#include "steadystate/error.h"

namespace steadystate::client {

std::string ErrorName(const absl::Status& status) {
  const auto details = GetErrorDetails(status);
  return details ? details->reason : absl::StatusCodeToString(status.code());
}

void Tally::CountError(const absl::Status& status) {
  auto& errors = GetErrorDetails(status) ? server_errors : client_errors;
  ++errors[ErrorName(status)];
  if (&errors == &client_errors &&
      (absl::IsCancelled(status) || absl::IsDeadlineExceeded(status))) {
    ++given_up;
  }
}

void Tally::CountUnanswered(LoadTime intended, LoadTime now,
                            const Window& window) {
  if (!window.Contains(intended)) return;
  ++window_unanswered;
  time_to_first_token.Record(now - intended);
  request.Record(now - intended);
}

void Tally::Merge(const Tally& other) {
  begun += other.begun;
  completed += other.completed;
  failed += other.failed;
  cut += other.cut;
  of_unknown_extent += other.of_unknown_extent;
  drawn_tokens += other.drawn_tokens;
  absorbed.prompt += other.absorbed.prompt;
  absorbed.generated += other.absorbed.generated;
  for (const auto& [reason, count] : other.server_errors) {
    server_errors[reason] += count;
  }
  for (const auto& [reason, count] : other.client_errors) {
    client_errors[reason] += count;
  }
  given_up += other.given_up;
  window_completed += other.window_completed;
  window_failed += other.window_failed;
  window_good += other.window_good;
  window_unanswered += other.window_unanswered;
  window_drawn_tokens += other.window_drawn_tokens;
  window_prompt_tokens += other.window_prompt_tokens;
  time_to_first_token.Merge(other.time_to_first_token);
  time_per_output_token.Merge(other.time_per_output_token);
  inter_token.Merge(other.inter_token);
  request.Merge(other.request);
  server_queue.Merge(other.server_queue);
  server_compute.Merge(other.server_compute);
  outside_server.Merge(other.outside_server);
  timeline.Merge(other.timeline);
}

}  // namespace steadystate::client
