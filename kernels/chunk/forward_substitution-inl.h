// What the delta rule writes in a chunk, once it is known how much the chunk's
// keys see of each other and of the state. Include after foreach_target.h.

#if defined(STEADYSTATE_KERNELS_CHUNK_FORWARD_SUBSTITUTION_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef STEADYSTATE_KERNELS_CHUNK_FORWARD_SUBSTITUTION_INL_H_
#undef STEADYSTATE_KERNELS_CHUNK_FORWARD_SUBSTITUTION_INL_H_
#else
#define STEADYSTATE_KERNELS_CHUNK_FORWARD_SUBSTITUTION_INL_H_
#endif

#include <algorithm>
#include <cstddef>

#include "hwy/highway.h"
#include "kernels/chunk/matrix_product-inl.h"
#include "kernels/chunk/token_pairs.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// u_i = beta_i (v_i - fade_i held_i - sum_{j < i} w_ij u_j), for tokens i of a
// chunk of L.
struct DeltaSystem {
  size_t L = 0, V = 0;
  const float* fade = nullptr;  // f32[L], or null: ones
  ChunkRows v{};                // f32[V]
  ChunkRows beta{};             // f32[1]
  // w_ij is weights[i row + j col]; in/out, what the sums take of them.
  float* weights = nullptr;
  size_t row = 0, col = 1;
  float* u = nullptr;  // f32[L, V]  in: what the state held; out: u
};

// Token i without the sum, columns j and up.
template <class D>
HWY_INLINE void TakeFromValue(D d, const DeltaSystem& s, size_t i, size_t j) {
  float* at = s.u + i * s.V + j;
  const auto fade = hn::Set(d, s.fade == nullptr ? 1.0f : s.fade[i]);
  const auto left =
      hn::NegMulAdd(fade, hn::LoadU(d, at), hn::LoadU(d, s.v.At(i) + j));
  hn::StoreU(hn::Mul(hn::Set(d, *s.beta.At(i)), left), d, at);
}

// Four rows take from all before them at once, then from each other.
HWY_INLINE void SubstituteForward(const DeltaSystem& s) {
  const float one = 1;
  for (size_t i = 0; i < s.L; i += 4) {
    const size_t end = std::min(s.L, i + 4);
    const MatrixProductArgs rows = {.m = end - i,
                                    .n = s.V,
                                    .k = i,
                                    .a = s.weights + i * s.row,
                                    .a_row = s.row,
                                    .a_col = s.col,
                                    .b = s.u,
                                    .b_row = s.V,
                                    .c = s.u + i * s.V,
                                    .c_row = s.V,
                                    .keep = &one};
    if (i > 0) MultiplyMatrices(rows);
    for (size_t x = i + 1; x < end; ++x) {
      MatrixProductArgs row = rows;
      row.m = 1;
      row.k = x - i;
      row.a = s.weights + x * s.row + i * s.col;
      row.b = s.u + i * s.V;
      row.c = s.u + x * s.V;
      MultiplyMatrices(row);
    }
  }
}

HWY_INLINE void SolveDeltaSystem(const DeltaSystem& s) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> d1;
  const size_t N = hn::Lanes(d);
  for (size_t i = 0; i < s.L; ++i) {
    size_t j = 0;
    for (; j + N <= s.V; j += N) TakeFromValue(d, s, i, j);
    for (; j < s.V; ++j) TakeFromValue(d1, s, i, j);
    const float beta = *s.beta.At(i);
    float* const row = s.weights + i * s.row;
    for (size_t x = 0; x < i; ++x) row[x * s.col] *= -beta;
  }
  SubstituteForward(s);
}

}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
