#include "server/model/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/sampling/softmax.h"

namespace steadystate {
namespace {

// How many of the likeliest tokens are sorted at first to find those that reach
// top_p; usually few do.
constexpr size_t kFirstSorted = 256;

void ApplyBiases(const SamplingParams& params, std::vector<float>& logits) {
  for (const auto& [token, bias] : params.logit_bias) {
    logits[static_cast<size_t>(token)] += bias;
  }
}

bool HasPenalties(const SamplingParams& params) {
  return params.repetition_penalty != 1 || params.presence_penalty != 0 ||
         params.frequency_penalty != 0;
}

// `scratch` is overwritten.
void ApplyPenalties(const SamplingParams& params,
                    std::span<const int32_t> recent,
                    std::vector<int32_t>& scratch, std::vector<float>& logits) {
  const size_t window = std::min<size_t>(params.penalty_window, recent.size());
  scratch.assign(recent.end() - static_cast<ptrdiff_t>(window), recent.end());
  std::sort(scratch.begin(), scratch.end());
  for (auto first = scratch.begin(); first != scratch.end();) {
    const auto last = std::upper_bound(first, scratch.end(), *first);
    float& logit = logits[static_cast<size_t>(*first)];
    double x = static_cast<double>(logit);
    x = x > 0 ? x / params.repetition_penalty : x * params.repetition_penalty;
    x -= params.presence_penalty;
    x -= params.frequency_penalty * static_cast<double>(last - first);
    // A tiny penalty may carry a logit beyond what a float holds.
    constexpr double kLargest = std::numeric_limits<float>::max();
    logit = static_cast<float>(std::clamp(x, -kLargest, kLargest));
    first = last;
  }
}

// The index that `uniform` falls on when [0, 1) is divided in proportion to the
// weights. REQUIRES: a positive weight.
size_t Draw(std::span<const double> weights, double uniform) {
  double total = 0;
  for (const double weight : weights) total += weight;
  const double target = uniform * total;
  double sum = 0;
  size_t last_possible = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0) continue;
    last_possible = i;
    sum += weights[i];
    if (sum > target) return i;
  }
  return last_possible;  // the sum was rounded down to the target
}

}  // namespace

size_t RecentWanted(const SamplingParams& params) {
  return HasPenalties(params) ? params.penalty_window : 0;
}

Sampler::Sampler(size_t vocab_size, std::span<const int32_t> never)
    : never_(never) {
  adjusted_.reserve(vocab_size);
  order_.reserve(std::max(vocab_size, kMaxPenaltyWindow));
  weights_.reserve(vocab_size);
}

int32_t Sampler::Sample(std::span<const float> logits,
                        const SamplingParams& params,
                        std::span<const int32_t> recent, uint64_t position) {
  adjusted_.assign(logits.begin(), logits.end());
  ApplyBiases(params, adjusted_);
  if (HasPenalties(params)) {
    ApplyPenalties(params, recent, order_, adjusted_);
  }
  RuleOut();
  const size_t n = adjusted_.size();
  const size_t best = ArgMax(n, adjusted_.data());
  if (params.temperature == 0) return static_cast<int32_t>(best);

  const size_t kept = std::min<size_t>(params.top_k.value_or(n), n);
  const double uniform = UniformAt(params.seed, position);
  if (kept == n && params.top_p == 1) {
    WeighAll(params, adjusted_[best]);
    return static_cast<int32_t>(Draw(weights_, uniform));
  }
  WeighLikeliest(params, adjusted_[best], kept);
  return order_[Draw(weights_, uniform)];
}

void Sampler::RuleOut() {
  for (const int32_t token : never_) {
    adjusted_[static_cast<size_t>(token)] =
        -std::numeric_limits<float>::infinity();
  }
}

void Sampler::WeighAll(const SamplingParams& params, float max) {
  weights_.clear();
  for (const float logit : adjusted_) {
    const double weight = Weight(params, logit, max);
    weights_.push_back(weight >= params.min_p ? weight : 0);
  }
}

void Sampler::WeighLikeliest(const SamplingParams& params, float max,
                             size_t kept) {
  const size_t n = adjusted_.size();
  double total = 0;
  if (kept == n) {
    for (const float logit : adjusted_) total += Weight(params, logit, max);
  }
  size_t sorted = kept == n ? std::min(n, kFirstSorted) : kept;
  while (true) {
    TopK(n, adjusted_.data(), sorted, order_);
    weights_.clear();
    for (const int32_t token : order_) {
      weights_.push_back(
          Weight(params, adjusted_[static_cast<size_t>(token)], max));
    }
    if (kept < n) {
      total = 0;
      for (const double weight : weights_) total += weight;
    }
    const bool reached = CutAtTopP(params.top_p * total);
    if (reached || sorted == kept) break;
    sorted = std::min(n, sorted * 8);
  }
  // The best token's weight is 1, so the others' are ratios to it.
  while (weights_.size() > 1 && weights_.back() < params.min_p) {
    weights_.pop_back();
  }
}

bool Sampler::CutAtTopP(double wanted) {
  double sum = 0;
  for (size_t i = 0; i < weights_.size(); ++i) {
    sum += weights_[i];
    if (sum >= wanted) {
      weights_.resize(i + 1);
      return true;
    }
  }
  return false;
}

double Sampler::Weight(const SamplingParams& params, float logit, float max) {
  const double below = static_cast<double>(logit) - static_cast<double>(max);
  return std::exp(below / params.temperature);
}

float Sampler::Logprob(std::span<const float> logits, int32_t token) {
  const double logit = static_cast<double>(logits[static_cast<size_t>(token)]);
  return static_cast<float>(logit - LogSumExp(logits.size(), logits.data()));
}

std::vector<TokenLogprob> Sampler::TopLogprobs(std::span<const float> logits,
                                               size_t count) {
  std::vector<TokenLogprob> best;
  count = std::min(count, logits.size() - never_.size());
  if (count == 0) return best;
  const double log_sum = LogSumExp(logits.size(), logits.data());
  const float* ranked = logits.data();
  if (!never_.empty()) {
    adjusted_.assign(logits.begin(), logits.end());
    RuleOut();
    ranked = adjusted_.data();
  }
  TopK(logits.size(), ranked, count, order_);
  for (const int32_t token : order_) {
    const double logit =
        static_cast<double>(logits[static_cast<size_t>(token)]);
    best.push_back({token, static_cast<float>(logit - log_sum)});
  }
  return best;
}

double UniformAt(uint64_t seed, uint64_t position) {
  const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
  const auto high = [](uint64_t x) { return static_cast<uint32_t>(x >> 32); };
  const auto bits = Philox4x32({low(position), high(position), 0, 0},
                               {low(seed), high(seed)});
  const uint64_t random = uint64_t{bits[1]} << 32 | bits[0];
  return static_cast<double>(random >> 11) * 0x1p-53;
}

}  // namespace steadystate
