// The product of two small matrices in float32, C <- diag(keep) C + A B, which
// the chunk kernels are made of. Include after foreach_target.h.
//
// A tile of C, four or six rows of a few vectors, stays in registers over the
// inner dimension; A is broadcast from wherever it lies, B is read in rows.
// Each element of A B is one sum in the order of the inner dimension, fused
// where the target can, so that its bits do not depend on the tile it is in.
// What is kept of C is added last: where it is much larger than the product, it
// would round every term of it.

#if defined(STEADYSTATE_KERNELS_CHUNK_MATRIX_PRODUCT_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef STEADYSTATE_KERNELS_CHUNK_MATRIX_PRODUCT_INL_H_
#undef STEADYSTATE_KERNELS_CHUNK_MATRIX_PRODUCT_INL_H_
#else
#define STEADYSTATE_KERNELS_CHUNK_MATRIX_PRODUCT_INL_H_
#endif

#include <algorithm>
#include <cstddef>

#include "hwy/highway.h"
#include "kernels/chunk/matrix_product.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// One, two or four vectors side by side.
template <class D>
struct One {
  static constexpr size_t kVectors = 1;
  static HWY_INLINE One Zero(D d) { return {hn::Zero(d)}; }
  static HWY_INLINE One Load(D d, const float* p) { return {hn::LoadU(d, p)}; }
  HWY_INLINE void MulAdd(D d, float a, const One& b) {
    const auto each = hn::Set(d, a);
    v0 = hn::MulAdd(each, b.v0, v0);
  }
  HWY_INLINE void Store(D d, float* p) const { hn::StoreU(v0, d, p); }

  hn::Vec<D> v0;
};

template <class D>
struct Two {
  static constexpr size_t kVectors = 2;
  static HWY_INLINE Two Zero(D d) { return {hn::Zero(d), hn::Zero(d)}; }
  static HWY_INLINE Two Load(D d, const float* p) {
    return {hn::LoadU(d, p), hn::LoadU(d, p + hn::Lanes(d))};
  }
  HWY_INLINE void MulAdd(D d, float a, const Two& b) {
    const auto each = hn::Set(d, a);
    v0 = hn::MulAdd(each, b.v0, v0);
    v1 = hn::MulAdd(each, b.v1, v1);
  }
  HWY_INLINE void Store(D d, float* p) const {
    hn::StoreU(v0, d, p);
    hn::StoreU(v1, d, p + hn::Lanes(d));
  }

  hn::Vec<D> v0, v1;
};

template <class D>
struct Four {
  static constexpr size_t kVectors = 4;
  static HWY_INLINE Four Zero(D d) {
    return {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  }
  static HWY_INLINE Four Load(D d, const float* p) {
    return {hn::LoadU(d, p), hn::LoadU(d, p + hn::Lanes(d)),
            hn::LoadU(d, p + 2 * hn::Lanes(d)),
            hn::LoadU(d, p + 3 * hn::Lanes(d))};
  }
  HWY_INLINE void MulAdd(D d, float a, const Four& b) {
    const auto each = hn::Set(d, a);
    v0 = hn::MulAdd(each, b.v0, v0);
    v1 = hn::MulAdd(each, b.v1, v1);
    v2 = hn::MulAdd(each, b.v2, v2);
    v3 = hn::MulAdd(each, b.v3, v3);
  }
  HWY_INLINE void Store(D d, float* p) const {
    hn::StoreU(v0, d, p);
    hn::StoreU(v1, d, p + hn::Lanes(d));
    hn::StoreU(v2, d, p + 2 * hn::Lanes(d));
    hn::StoreU(v3, d, p + 3 * hn::Lanes(d));
  }

  hn::Vec<D> v0, v1, v2, v3;
};

// Stores the sums of C's row i, columns j and up, with what is kept of C.
template <class Pack, class D>
HWY_INLINE void Finish(D d, const MatrixProductArgs& p, size_t i, size_t j,
                       Pack sum) {
  float* c = p.c + i * p.c_row + j;
  if (p.keep != nullptr) {
    const Pack before = Pack::Load(d, c);
    const size_t at = i * p.keep_step;
    if (p.keep_low != nullptr) sum.MulAdd(d, p.keep_low[at], before);
    sum.MulAdd(d, p.keep[at], before);
  }
  sum.Store(d, c);
}

// Some rows of C from i on, as many columns from j on as a Pack has.
template <size_t kRows, class Pack, class D>
HWY_INLINE void SomeRows(D d, const MatrixProductArgs& p, size_t i, size_t j) {
  Pack c[kRows];
  for (size_t r = 0; r < kRows; ++r) c[r] = Pack::Zero(d);
  const float* a = p.a + i * p.a_row;
  const float* b = p.b + j;
  const size_t inner = p.lower_a ? std::min(p.k, i + kRows) : p.k;
  for (size_t x = 0; x < inner; ++x, a += p.a_col, b += p.b_row) {
    const Pack row = Pack::Load(d, b);
    for (size_t r = 0; r < kRows; ++r) c[r].MulAdd(d, a[r * p.a_row], row);
  }
  for (size_t r = 0; r < kRows; ++r) Finish(d, p, i + r, j, c[r]);
}

// As many accumulators as the target has registers for.
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3) || HWY_ARCH_ARM_A64
template <class D>
using Widest = Four<D>;
constexpr bool kSixRows = true;
#else
template <class D>
using Widest = Two<D>;
// Without fused operations a product takes a register, too.
constexpr bool kSixRows = HWY_TARGET == HWY_AVX2;
#endif

// All columns from j on in steps as wide as a Pack. Returns the first column
// that is left. B's columns stay in cache over the rows.
template <class Pack, class D>
HWY_INLINE size_t Columns(D d, const MatrixProductArgs& p, size_t j) {
  const size_t width = Pack::kVectors * hn::Lanes(d);
  for (; j + width <= p.n; j += width) {
    size_t i = p.lower_c ? j / 4 * 4 : 0;
    if constexpr (kSixRows && Pack::kVectors == Widest<D>::kVectors) {
      // B's columns do not stay in the first cache: half as much again is done
      // with what comes of them. Twelve rows, so that fours are left.
      const bool whole = !p.lower_a && !p.lower_c;
      for (; whole && i + 12 <= p.m; i += 12) {
        SomeRows<6, Pack>(d, p, i, j);
        SomeRows<6, Pack>(d, p, i + 6, j);
      }
    }
    for (; i + 4 <= p.m; i += 4) SomeRows<4, Pack>(d, p, i, j);
    for (; i < p.m; ++i) SomeRows<1, Pack>(d, p, i, j);
  }
  return j;
}

// A function of its own: its loops are long, and in each place that calls it
// they took half of the time to compile a chunk's kernels.
static HWY_NOINLINE void MultiplyMatrices(const MatrixProductArgs& p) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 4> d4;
  const hn::CappedTag<float, 1> d1;
  using D = decltype(d);
  // Of a triangle narrower steps leave more out.
  size_t j = p.lower_c ? Columns<Two<D>>(d, p, 0) : Columns<Widest<D>>(d, p, 0);
  j = Columns<One<D>>(d, p, j);
  j = Columns<One<decltype(d4)>>(d4, p, j);
  Columns<One<decltype(d1)>>(d1, p, j);
}

}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#endif  // STEADYSTATE_KERNELS_CHUNK_MATRIX_PRODUCT_INL_H_
