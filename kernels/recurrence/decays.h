#ifndef STEADYSTATE_KERNELS_RECURRENCE_DECAYS_H_
#define STEADYSTATE_KERNELS_RECURRENCE_DECAYS_H_

#include <cstddef>

namespace steadystate {

// Factors of a step, where they lie, each as the sum of two floats, as
// SplitDecay gives them: the float nearest to it, and what that lacks. A float
// near one is off by 3e-8, which a state that remembers 10^4 tokens makes 3e-4.
struct Decays {
  const float* high = nullptr;
  const float* low = nullptr;  // null: zeros

  float Low(size_t i) const { return low == nullptr ? 0 : low[i]; }
};

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_RECURRENCE_DECAYS_H_
