#include "client/steadystate/sampling_options.h"

#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace steadystate::client {

void SamplingOptions::AppendTo(OptionTable& table) {
  const auto read_bias = [this](absl::string_view text) -> absl::Status {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(text, absl::MaxSplits('=', 1));
    const auto token = ParseTokenId(parts.first);
    float bias = 0;
    if (!token.ok() || !absl::SimpleAtof(parts.second, &bias)) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", text, "' is not TOKEN=BIAS, such as 10=-2.5"));
    }
    logit_bias[*token] = bias;
    return absl::OkStatus();
  };
  const OptionTable options = {
      {"temperature", "X",
       "0 to 100. 0 takes the most likely token. Default 1.", &temperature},
      {"top_k", "K", "Keeps the K most likely tokens. Default: all.", &top_k},
      {"top_p", "P",
       "Keeps the most likely tokens whose probabilities sum to P, above 0 and "
       "at most 1. Default 1.",
       &top_p},
      {"min_p", "P",
       "Drops tokens less than P times as likely as the most likely one, 0 to "
       "1. Default 0.",
       &min_p},
      {"repetition_penalty", "X",
       "Divides positive and multiplies negative logits of tokens seen in the "
       "penalty window, above 0 and at most 10. Default 1.",
       &repetition_penalty},
      {"presence_penalty", "X",
       "Subtracted from the logits of tokens seen in the penalty window, -2 to "
       "2. Default 0.",
       &presence_penalty},
      {"frequency_penalty", "X",
       "Subtracted once for each time a token was seen in the penalty window, "
       "-2 to 2. Default 0.",
       &frequency_penalty},
      {"penalty_window", "N",
       "How many of the latest tokens the penalties look at, 0 to 256. Default "
       "64.",
       &penalty_window},
      {"seed", "N",
       "The same seed gives the same tokens. Default: the server draws one; "
       "--summary and --json tell it.",
       &seed},
      {"logit_bias", "TOKEN=BIAS",
       "Added to the logit of a token id, -100 to 100. May be repeated.",
       read_bias},
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

absl::StatusOr<int32_t> ParseTokenId(absl::string_view text) {
  int32_t token = 0;
  if (!absl::SimpleAtoi(text, &token) || token < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not a token id"));
  }
  return token;
}

}  // namespace steadystate::client
