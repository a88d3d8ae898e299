#ifndef STEADYSTATE_KERNELS_FEATURE_MAP_MAT_VEC_H_
#define STEADYSTATE_KERNELS_FEATURE_MAP_MAT_VEC_H_

#include <cstddef>

namespace steadystate {

// y = w x + bias, for the small matrices of learned maps, which a head applies
// to its own vector.
//   w  f32[r, d] in, bias  f32[r] in or null, x  f32[d] in, y  f32[r] out
void MatVec(size_t r, size_t d, const float* w, const float* bias,
            const float* x, float* y);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_FEATURE_MAP_MAT_VEC_H_
