#include "kernels/recurrence/log_feature.h"

#include <algorithm>

#include "kernels/pointwise/activation.h"

namespace steadystate {

void LogFeatureKey(size_t F, bool first, const float* log_k, float* max,
                   float* decay, float* k) {
  for (size_t c = 0; c < F; ++c) {
    const float old_max = first ? log_k[c] : max[c];
    const float new_max = std::max(old_max, log_k[c]);
    decay[c] = old_max - new_max;
    k[c] = log_k[c] - new_max;
    max[c] = new_max;
  }
  Activate(Activation::kExp, F, decay, decay);
  Activate(Activation::kExp, F, k, k);
  if (first) std::fill(decay, decay + F, 0.0f);
}

void LogFeatureQuery(size_t F, const float* log_q, const float* max, float* q) {
  const auto exponent = [log_q, max](size_t c) {
    return static_cast<double>(log_q[c]) + static_cast<double>(max[c]);
  };
  double largest = exponent(0);
  for (size_t c = 1; c < F; ++c) largest = std::max(largest, exponent(c));
  for (size_t c = 0; c < F; ++c) {
    q[c] = static_cast<float>(exponent(c) - largest);
  }
  Activate(Activation::kExp, F, q, q);
}

}  // namespace steadystate
