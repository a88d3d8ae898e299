#ifndef STEADYSTATE_SERVER_MODEL_PARTS_SOFTPLUS_DECAY_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_SOFTPLUS_DECAY_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "server/model/mixer_builder.h"

namespace steadystate {

// The decay of the gated delta rules, with a rate per head and a bias per
// factor:
//   log alpha = -exp(A_log) softplus(x + dt_bias), or
//   log alpha = lower_bound sigmoid(exp(A_log) (x + dt_bias)),
// fla's "safe gate", whose alpha is not below exp(lower_bound). Immutable;
// thread-safe.
class SoftplusDecay {
 public:
  SoftplusDecay() = default;

  // Pulls `A_log`, [heads], and `dt_bias`, [heads factors], with so many
  // factors for each head. `lower_bound` is below 0, or nothing. If `sharing`
  // heads in a row have the same rate and biases, a divisor of heads, they are
  // stored once for those. Errors as WeightStore::Take.
  static absl::StatusOr<SoftplusDecay> Make(
      const MixerBuilder& builder, size_t heads, size_t factors,
      std::optional<double> lower_bound = std::nullopt, size_t sharing = 1);

  // alpha of one row, in place, and what it lacks, as SplitDecay has it.
  //   x    f32[heads, factors]  in/out
  //   low  f32[heads, factors]  out
  void Apply(float* x, float* low) const;

 private:
  size_t factors_ = 0;  // of a head
  std::optional<float> lower_bound_;
  std::vector<float> rate_;  // f32[heads], exp(A_log)
  std::vector<float> bias_;  // f32[heads, factors]
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_SOFTPLUS_DECAY_H_
