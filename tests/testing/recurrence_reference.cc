#include "tests/testing/recurrence_reference.h"

namespace steadystate {

std::vector<double> KeyDecayReference::Step(double scale,
                                            std::span<const float> decay,
                                            std::span<const float> q,
                                            std::span<const float> k,
                                            std::span<const float> v) {
  std::vector<double> o(V_, 0.0);
  for (size_t i = 0; i < K_; ++i) {
    for (size_t j = 0; j < V_; ++j) {
      double& s = state_[i * V_ + j];
      s = static_cast<double>(decay[i]) * s +
          static_cast<double>(k[i]) * static_cast<double>(v[j]);
      o[j] += scale * static_cast<double>(q[i]) * s;
    }
  }
  return o;
}

}  // namespace steadystate
