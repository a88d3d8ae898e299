#ifndef STEADYSTATE_CLIENT_STEADYSTATE_SAMPLING_OPTIONS_H_
#define STEADYSTATE_CLIENT_STEADYSTATE_SAMPLING_OPTIONS_H_

#include <cstdint>
#include <map>
#include <optional>

#include "client/steadystate/options.h"
#include "steadystate/v1/generation.pb.h"

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

// Reads a token id. INVALID_ARGUMENT if it is none.
absl::StatusOr<int32_t> ParseTokenId(absl::string_view text);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_STEADYSTATE_SAMPLING_OPTIONS_H_
