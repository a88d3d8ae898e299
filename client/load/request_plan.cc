#include "client/load/request_plan.h"

#include <algorithm>
#include <utility>

#include "client/load/random.h"

namespace steadystate::client {
namespace {

// Sequences that no session draws its prompts from: those have small numbers.
constexpr uint64_t kFirstStream = uint64_t{1} << 63;

}  // namespace

RequestPlan::RequestPlan(const LoadOptions& options,
                         std::vector<std::vector<int32_t>> prompts)
    : options_(options),
      prompts_(std::move(prompts)),
      most_prompt_tokens_(options.prompt_tokens.most()),
      mean_prompt_tokens_(options.prompt_tokens.mean()) {
  if (prompts_.empty()) return;
  size_t total = 0;
  most_prompt_tokens_ = 0;
  for (const auto& prompt : prompts_) {
    total += prompt.size();
    most_prompt_tokens_ = std::max(most_prompt_tokens_, prompt.size());
  }
  mean_prompt_tokens_ =
      static_cast<double>(total) / static_cast<double>(prompts_.size());
}

RequestShape RequestPlan::Of(uint64_t number) const {
  Random random(options_.seed, kFirstStream + number);
  RequestShape shape;
  shape.generate_tokens = options_.generate_tokens.Draw(random);
  if (prompts_.empty()) {
    shape.prompt_tokens = options_.prompt_tokens.Draw(random);
    return shape;
  }
  shape.prompt = &prompts_[number % prompts_.size()];
  shape.prompt_tokens = shape.prompt->size();
  return shape;
}

}  // namespace steadystate::client
