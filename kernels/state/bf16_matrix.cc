#include "kernels/state/bf16_matrix.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/state/bf16_matrix.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/state/bf16_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

void UnpackBf16OfTarget(size_t n, const uint16_t* from, float* to) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> d1;
  const size_t N = hn::Lanes(d);
  size_t i = 0;
  for (; i + N <= n; i += N) hn::StoreU(LoadBf16(d, from + i), d, to + i);
  for (; i < n; ++i) hn::StoreU(LoadBf16(d1, from + i), d1, to + i);
}

// Columns j to j + Lanes(d) of a row.
template <class D>
HWY_INLINE void PackVector(D d, const float* from, uint32_t row_noise,
                           const uint32_t* column_noise, uint16_t* to) {
  const hn::RebindToUnsigned<D> du;
  const auto noise =
      hn::Xor(hn::LoadU(du, column_noise), hn::Set(du, row_noise));
  StoreBf16(hn::LoadU(d, from), noise, d, to);
}

void PackBf16OfTarget(size_t rows, size_t columns, const float* from,
                      const RoundingNoise& noise, uint16_t* to) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> d1;
  const size_t N = hn::Lanes(d);
  for (size_t i = 0; i < rows; ++i, from += columns, to += columns) {
    size_t j = 0;
    for (; j + N <= columns; j += N) {
      PackVector(d, from + j, noise.rows[i], noise.columns + j, to + j);
    }
    for (; j < columns; ++j) {
      PackVector(d1, from + j, noise.rows[i], noise.columns + j, to + j);
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(UnpackBf16OfTarget);
HWY_EXPORT(PackBf16OfTarget);

void UnpackBf16(size_t n, const uint16_t* from, float* to) {
  HWY_DYNAMIC_DISPATCH(UnpackBf16OfTarget)(n, from, to);
}

void PackBf16(size_t rows, size_t columns, const float* from,
              const RoundingNoise& noise, uint16_t* to) {
  HWY_DYNAMIC_DISPATCH(PackBf16OfTarget)(rows, columns, from, noise, to);
}

}  // namespace steadystate
#endif  // HWY_ONCE
