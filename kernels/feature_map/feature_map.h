#ifndef STEADYSTATE_KERNELS_FEATURE_MAP_FEATURE_MAP_H_
#define STEADYSTATE_KERNELS_FEATURE_MAP_FEATURE_MAP_H_

#include <cstddef>
#include <cstdint>

namespace steadystate {

// The feature maps of linear attention and the pieces they are made of, each
// for the vector of one head. Maps that are one elementwise function (elu + 1,
// relu) are in pointwise/activation.h. Here "y may be x" says so where it may;
// else nothing overlaps. Any length n, d, r, m >= 1.

// y = softmax(x), the maximum subtracted, the sum in double: the hedgehog map
// of fla over the PlusMinus of scale 2, or "softmax".
//   x  f32[n] in, y  f32[n] out; y may be x.
void JointSoftmax(size_t n, const float* x, float* y);

// y = [softmax(u), softmax(-u)], each half by itself, elements not below
// 1e-12 (LoLCATs' softmax_dim).
//   u  f32[r] in, y  f32[2 r] out
void HalfSoftmaxes(size_t r, const float* u, float* y);

// y = [scale u, -scale u].
//   u  f32[r] in, y  f32[2 r] out
void PlusMinus(size_t r, const float* u, float scale, float* y);

// The second half of what Dpfp multiplies.
enum class DpfpHalf : uint8_t {
  kNegated,    // -relu(x), as fla before 0.6
  kReflected,  // relu(-x), as the paper and fla since 0.6
};

// Deterministic parameter-free projection (Schlag et al. 2021): with the 2d
// values p = [relu(x), half],
//   y[2 d (j - 1) + i] = p[i] p[(i - j) mod 2d],   j = 1..4, i = 0..2d-1.
//   x  f32[d] in, y  f32[8 d] out
void Dpfp(size_t d, const float* x, DpfpHalf half, float* y);

// The width of Taylor: 1 + 2 d + d (d - 1) / 2.
size_t TaylorWidth(size_t d);

// Second-order Taylor map: the inner product of two images is 1 + s + s^2 / 2
// of s = x.x' / sqrt(d).
//   y = [1, x_i / d^(1/4), x_i^2 / sqrt(2 d), x_i x_j / sqrt(d) for i < j]
//   x  f32[d] in, y  f32[TaylorWidth(d)] out, pairs by i, then j
void Taylor(size_t d, const float* x, float* y);

// y = [1, x / sqrt(sum x^2 + eps)]: the map of 1 + cos.
//   x  f32[d] in, y  f32[d + 1] out
void UnitWithOne(size_t d, const float* x, float eps, float* y);

// The logarithms of Performer's positive features, less log(m) / 2, which
// cancels in the ratio: y = projected - |x|^2 / 2, where x is already scaled
// by d^(-1/4) and projected is the projection of it.
//   projected  f32[m] in, x  f32[d] in, y  f32[m] out; y may be projected.
void PerformerLog(size_t m, size_t d, const float* projected, const float* x,
                  float* y);

// y = x / (sum x + eps), the sum in double.   f32[n]; y may be x.
void SumNormalize(size_t n, const float* x, float eps, float* y);

// y = w x + bias, for the small matrices of learned maps, which a head applies
// to its own vector.
//   w  f32[r, d] in, bias  f32[r] in or null, x  f32[d] in, y  f32[r] out
void MatVec(size_t r, size_t d, const float* w, const float* bias,
            const float* x, float* y);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_FEATURE_MAP_FEATURE_MAP_H_
