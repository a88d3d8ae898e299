#include "server/model/parts/softplus_decay.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/pointwise/activation.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

// y[i] = factor x[i].
void Multiply(size_t n, float factor, float* x) {
  for (size_t i = 0; i < n; ++i) x[i] *= factor;
}

}  // namespace

absl::StatusOr<SoftplusDecay> SoftplusDecay::Make(
    const MixerBuilder& builder, size_t heads, size_t factors,
    std::optional<double> lower_bound) {
  SoftplusDecay decay;
  decay.factors_ = factors;
  if (lower_bound.has_value()) {
    decay.lower_bound_ = static_cast<float>(*lower_bound);
  }
  STEADYSTATE_ASSIGN_OR_RETURN(decay.rate_,
                               builder.weights.TakeFloats("A_log", {heads}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      decay.bias_, builder.weights.TakeFloats("dt_bias", {heads * factors}));
  for (float& rate : decay.rate_) {
    // Finite, so that times a vanished softplus it is 0.
    rate = std::min(std::exp(rate), std::numeric_limits<float>::max());
  }
  return decay;
}

void SoftplusDecay::Apply(float* x) const {
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
  Activate(Activation::kExp, n, x, x);
}

}  // namespace steadystate
