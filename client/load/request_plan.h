#ifndef STEADYSTATE_CLIENT_LOAD_REQUEST_PLAN_H_
#define STEADYSTATE_CLIENT_LOAD_REQUEST_PLAN_H_

#include <cstdint>
#include <vector>

#include "client/load/load_options.h"

namespace steadystate::client {

// What one request asks for.
struct RequestShape {
  uint64_t prompt_tokens = 0;
  uint64_t generate_tokens = 0;
  // The prompt, as long as the plan; nullptr: random tokens.
  const std::vector<int32_t>* prompt = nullptr;
};

// Says of each request of a run what it asks for, by its number in the order in
// which requests begin: whichever session gets it and whenever, the same seed
// asks the same. Immutable; thread-safe.
class RequestPlan {
 public:
  // `options` outlives the object. `prompts`: the tokens of its texts, each at
  // least one.
  explicit RequestPlan(const LoadOptions& options,
                       std::vector<std::vector<int32_t>> prompts = {});

  RequestShape Of(uint64_t number) const;

  // Of the longest request that there may be.
  uint64_t most_prompt_tokens() const { return most_prompt_tokens_; }
  uint64_t most_tokens() const {
    return most_prompt_tokens_ + options_.generate_tokens.most();
  }
  // Of prompts, on average.
  double mean_prompt_tokens() const { return mean_prompt_tokens_; }

  const LoadOptions& options() const { return options_; }

 private:
  const LoadOptions& options_;
  const std::vector<std::vector<int32_t>> prompts_;
  uint64_t most_prompt_tokens_;
  double mean_prompt_tokens_;
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_REQUEST_PLAN_H_
