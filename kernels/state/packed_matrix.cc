#include "kernels/state/packed_matrix.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/state/packed_matrix.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/state/packed_rows-inl.h"

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
HWY_INLINE void PackBf16Vector(D d, const float* from, uint32_t row_noise,
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
      PackBf16Vector(d, from + j, noise.rows[i], noise.columns + j, to + j);
    }
    for (; j < columns; ++j) {
      PackBf16Vector(d1, from + j, noise.rows[i], noise.columns + j, to + j);
    }
  }
}

void UnpackGroup(size_t columns, const int16_t* from, float unit, float* to) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> d1;
  const size_t N = hn::Lanes(d);
  size_t j = 0;
  for (; j + N <= columns; j += N) {
    const auto units = LoadInt16(d, from + j);
    hn::StoreU(hn::Mul(units, hn::Set(d, unit)), d, to + j);
  }
  for (; j < columns; ++j) {
    const auto units = LoadInt16(d1, from + j);
    hn::StoreU(hn::Mul(units, hn::Set(d1, unit)), d1, to + j);
  }
}

void UnpackInt16OfTarget(size_t rows, size_t columns, const int16_t* from,
                         const uint8_t* exponents, float* to) {
  for (size_t i = 0; i < rows; ++i, from += columns, to += columns) {
    for (size_t j = 0; j < columns; j += kInt16GroupColumns) {
      UnpackGroup(std::min(kInt16GroupColumns, columns - j), from + j,
                  Int16Unit(*exponents++), to + j);
    }
  }
}

// The bits of the largest magnitude of a group.
HWY_INLINE uint32_t LargestBits(size_t columns, const float* from) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::CappedTag<float, 1> d1;
  const size_t N = hn::Lanes(d);
  auto largest = hn::Zero(di);
  size_t j = 0;
  for (; j + N <= columns; j += N) {
    largest = hn::Max(largest, MagnitudeBits(d, hn::LoadU(d, from + j)));
  }
  int32_t bits = hn::GetLane(hn::MaxOfLanes(di, largest));
  for (; j < columns; ++j) {
    bits =
        std::max(bits, hn::GetLane(MagnitudeBits(d1, hn::LoadU(d1, from + j))));
  }
  return static_cast<uint32_t>(bits);
}

// Columns j to j + Lanes(d) of a row.
template <class D>
HWY_INLINE void PackInt16Vector(D d, const float* from, float per_unit,
                                uint32_t row_noise,
                                const uint32_t* column_noise, int16_t* to) {
  const hn::RebindToUnsigned<D> du;
  const auto noise = Int16Noise(du, Int16RowNoise(du, row_noise), column_noise);
  StoreInt16(hn::LoadU(d, from), per_unit, noise, d, to);
}

// Returns the exponent of the unit.
uint8_t PackGroup(size_t columns, const float* from, uint32_t row_noise,
                  const uint32_t* column_noise, int16_t* to) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> d1;
  const size_t N = hn::Lanes(d);
  const Int16Rounding how = RoundingOfGroup(LargestBits(columns, from));
  size_t j = 0;
  for (; j + N <= columns; j += N) {
    PackInt16Vector(d, from + j, how.per_unit, row_noise, column_noise + j,
                    to + j);
  }
  for (; j < columns; ++j) {
    PackInt16Vector(d1, from + j, how.per_unit, row_noise, column_noise + j,
                    to + j);
  }
  return how.exponent;
}

void PackInt16OfTarget(size_t rows, size_t columns, const float* from,
                       const RoundingNoise& noise, int16_t* to,
                       uint8_t* exponents) {
  for (size_t i = 0; i < rows; ++i, from += columns, to += columns) {
    for (size_t j = 0; j < columns; j += kInt16GroupColumns) {
      *exponents++ =
          PackGroup(std::min(kInt16GroupColumns, columns - j), from + j,
                    noise.rows[i], noise.columns + j, to + j);
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

HWY_EXPORT(UnpackInt16OfTarget);
HWY_EXPORT(PackInt16OfTarget);

void UnpackInt16(size_t rows, size_t columns, const int16_t* from,
                 const uint8_t* exponents, float* to) {
  HWY_DYNAMIC_DISPATCH(UnpackInt16OfTarget)
  (rows, columns, from, exponents, to);
}

void PackInt16(size_t rows, size_t columns, const float* from,
               const RoundingNoise& noise, int16_t* to, uint8_t* exponents) {
  HWY_DYNAMIC_DISPATCH(PackInt16OfTarget)
  (rows, columns, from, noise, to, exponents);
}

}  // namespace steadystate
#endif  // HWY_ONCE
