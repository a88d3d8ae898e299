#ifndef STEADYSTATE_CLIENT_LOAD_SLO_H_
#define STEADYSTATE_CLIENT_LOAD_SLO_H_

#include <chrono>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace steadystate::client {

// What one request took.
struct RequestTimes {
  std::chrono::nanoseconds first_token{0};
  // Between the first and the last token, for each token after the first; 0 if
  // there is only one.
  std::chrono::nanoseconds per_output_token{0};
  std::chrono::nanoseconds whole{0};
};

// A service level objective: what a request may take at most. One that keeps
// all of it is good, and goodput is the rate of good requests.
struct Slo {
  std::optional<absl::Duration> time_to_first_token;
  std::optional<absl::Duration> time_per_output_token;
  std::optional<absl::Duration> request;
  // The share of the requests that have to be good.
  double attainment = 0.99;

  bool empty() const {
    return !time_to_first_token && !time_per_output_token && !request;
  }
  bool Meets(const RequestTimes& times) const;
};

// "ttft:200ms,tpot:20ms,e2e:2s", one of them at least: time to first token,
// time per output token, whole request. INVALID_ARGUMENT, for people.
absl::StatusOr<Slo> ParseSlo(absl::string_view text);

// As ParseSlo takes it.
std::string ToString(const Slo& slo);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_SLO_H_
