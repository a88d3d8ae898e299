#ifndef STEADYSTATE_KERNELS_RECURRENCE_STEP_H_
#define STEADYSTATE_KERNELS_RECURRENCE_STEP_H_

#include <cstddef>

namespace steadystate {

// One head and one token: what every step takes beside its decay and its state.
struct HeadToken {
  size_t K = 0;              // width of queries and keys, >= 1
  size_t V = 0;              // width of values, >= 1
  float scale = 1;           // of the readout
  const float* q = nullptr;  // f32[K]  in
  const float* k = nullptr;  // f32[K]  in; a mere readout does not look at it
  const float* v = nullptr;  // f32[V]  in; likewise
  float* o = nullptr;        // f32[V]  out; aliases nothing
};

// The factors by which a step makes the past fade, where they lie: one for each
// channel, or one for all channels. Each factor is the sum of two floats, as
// SplitDecay gives them: the float nearest to the factor, and what that lacks.
// A float near one is off by 3e-8, which a state that remembers 10^4 tokens
// makes 3e-4.
struct Decays {
  const float* high = nullptr;  // f32[channels], or f32[1] if stride is 0
  const float* low = nullptr;   // likewise; null: zeros
  size_t stride = 1;            // 0: one factor for all channels

  float High(size_t i) const { return high[i * stride]; }
  float Low(size_t i) const { return low == nullptr ? 0 : low[i * stride]; }
};

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_RECURRENCE_STEP_H_
