#include "server/model/parts/softplus_decay.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "kernels/pointwise/activation.h"
#include "kernels/pointwise/decay.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

// Blocks of `size` values, each `times` times in a row.
std::vector<float> Repeated(const std::vector<float>& values, size_t size,
                            size_t times) {
  std::vector<float> repeated;
  for (auto block = values.begin(); block != values.end();
       block += static_cast<ptrdiff_t>(size)) {
    for (size_t i = 0; i < times; ++i) {
      repeated.insert(repeated.end(), block,
                      block + static_cast<ptrdiff_t>(size));
    }
  }
  return repeated;
}

// y[i] = factor x[i].
void Multiply(size_t n, float factor, float* x) {
  for (size_t i = 0; i < n; ++i) x[i] *= factor;
}

}  // namespace

absl::StatusOr<SoftplusDecay> SoftplusDecay::Make(
    const MixerBuilder& builder, size_t heads, size_t factors,
    std::optional<double> lower_bound, size_t sharing) {
  SoftplusDecay decay;
  decay.factors_ = factors;
  if (lower_bound.has_value()) {
    decay.lower_bound_ = static_cast<float>(*lower_bound);
  }
  const size_t stored = heads / sharing;
  STEADYSTATE_ASSIGN_OR_RETURN(const std::vector<float> rates,
                               builder.weights.TakeFloats("A_log", {stored}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const std::vector<float> biases,
      builder.weights.TakeFloats("dt_bias", {stored * factors}));
  decay.rate_ = Repeated(rates, 1, sharing);
  decay.bias_ = Repeated(biases, factors, sharing);
  for (float& rate : decay.rate_) {
    // Finite, so that times a vanished softplus it is 0.
    rate = std::min(std::exp(rate), std::numeric_limits<float>::max());
  }
  return decay;
}

void SoftplusDecay::Apply(float* x, float* low) const {
  const size_t n = bias_.size();
  AddTo(n, bias_.data(), x);
  if (!lower_bound_.has_value()) Activate(Activation::kSoftplus, n, x, x);
  for (size_t head = 0; head < rate_.size(); ++head) {
    const float sign = lower_bound_.has_value() ? 1.0f : -1.0f;
    Multiply(factors_, sign * rate_[head], x + head * factors_);
  }
  if (lower_bound_.has_value()) {
    Activate(Activation::kSigmoid, n, x, x);
    Multiply(n, *lower_bound_, x);
  }
  SplitDecay(n, x, x, low);
}

}  // namespace steadystate
