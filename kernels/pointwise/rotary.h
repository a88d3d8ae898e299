#ifndef STEADYSTATE_KERNELS_POINTWISE_ROTARY_H_
#define STEADYSTATE_KERNELS_POINTWISE_ROTARY_H_

#include <cstddef>
#include <cstdint>

namespace steadystate {

// How far a position turns each pair, for both layouts below: base^(-2i/d).
//   frequencies  f64[d / 2]  out
// REQUIRES: d even.
void RotaryFrequencies(size_t d, double base, double* frequencies);

// Cosines and sines of the rotary angles of one position, position *
// frequencies[i]. Angles are in double, so that positions of 10^7 and beyond
// stay exact to float.
//   frequencies  f64[d / 2]  in        cos, sin  f32[d / 2]  out
// REQUIRES: d even.
void RotaryAngles(size_t d, uint64_t position, const double* frequencies,
                  float* cos, float* sin);

// Rotates one head in place, half-split (NeoX) layout: with x1 = x[0, d/2),
// x2 = x[d/2, d):
//   y1 = x1 cos - x2 sin,  y2 = x2 cos + x1 sin.
//   x  f32[d]  in/out       cos, sin  f32[d / 2]  in
void ApplyRotary(size_t d, const float* cos, const float* sin, float* x);

// The same of the interleaved (GPT-J) layout: pair i is x[2i], x[2i + 1].
void ApplyRotaryInterleaved(size_t d, const float* cos, const float* sin,
                            float* x);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_POINTWISE_ROTARY_H_
