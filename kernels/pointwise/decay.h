#ifndef STEADYSTATE_KERNELS_POINTWISE_DECAY_H_
#define STEADYSTATE_KERNELS_POINTWISE_DECAY_H_

#include <cstddef>

namespace steadystate {

// Decays of the gated recurrences that are more than one activation. All
// f32[n]; NaN gives NaN.

// The forget gate of HGRN-2 and what it leaves for the input:
//   decay[i] = floor[i] + (1 - floor[i]) sigmoid(a[i]),
//   rest[i]  = 1 - decay[i], exact where the decay is near 1.
//   a, floor  in, 0 <= floor <= 1      decay, rest  out; decay may be a
void FlooredSigmoidDecay(size_t n, const float* a, const float* floor,
                         float* decay, float* rest);

// low[i] = what decay[i] lacks of 1 - rest[i], where the decay is at least 1/2;
// below, 1 - decay has no bits that the decay has not, and low[i] = 0.
//   decay, rest  in, of FlooredSigmoidDecay      low  out; may be rest
void LackOfDecay(size_t n, const float* decay, const float* rest, float* low);

// rest[i] = 1 - e^log_decay[i], exact where the decay is near 1.
//   log_decay  in, <= 0                rest  out; may be log_decay
void RestOfLogDecay(size_t n, const float* log_decay, float* rest);

// A decay e^log_decay as a sum of two numbers: the float nearest to it, and
// what that lacks where it is above e^-1/2, else 0. Their sum is as exact in
// 1 - decay as the logarithm is, to 4 ulp: what a decay lacks it lacks again at
// every token.
//   log_decay  in, <= 0                decay, low  out; decay may be log_decay
void SplitDecay(size_t n, const float* log_decay, float* decay, float* low);

// log_decay[i] = max(logsigmoid(a[i]) / temperature, floor): the forget gate of
// GLA (Yang et al. 2023), whose temperature is 16, by its logarithm. `floor` is
// -infinity for no clamp.
//   a  in                              log_decay  out; may be a
void LogSigmoidLogDecay(size_t n, const float* a, float temperature,
                        float floor, float* log_decay);

// The complex decays e^(log_size + i phase), phases in radians: their real and
// imaginary parts, computed in double and each the sum of two floats as in
// SplitDecay, since what rounding does to a decay it does again at every token.
// A phase beyond +-39000 counts as that bound; an ulp of it is 4e-3 there.
//   log_size, phase  in, sizes <= 0
//   re, im           out; re may be log_size, im phase
//   re_low, im_low   out
void PolarDecay(size_t n, const float* log_size, const float* phase, float* re,
                float* re_low, float* im, float* im_low);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_POINTWISE_DECAY_H_
