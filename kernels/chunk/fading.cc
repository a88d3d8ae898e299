#include "kernels/chunk/fading.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/chunk/fading.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Row i is row i - 1 once more faded, and a one for the token itself.
void FadeBetweenOfTarget(size_t L, const float* alpha, size_t stride,
                         float* between) {
  const hn::ScalableTag<float> d;
  const size_t N = hn::Lanes(d);
  between[0] = 1;
  for (size_t i = 1; i < L; ++i) {
    const float* before = between + (i - 1) * kChunkTokens;
    float* row = between + i * kChunkTokens;
    const auto factor = hn::Set(d, alpha[i * stride]);
    for (size_t j = 0; j < i; j += N) {
      hn::StoreU(hn::Mul(factor, hn::LoadU(d, before + j)), d, row + j);
    }
    row[i] = 1;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(FadeBetweenOfTarget);

namespace {

// What the float nearest to a number lacks of it.
float LackOf(double exact) {
  const double nearest = static_cast<double>(static_cast<float>(exact));
  return static_cast<float>(exact - nearest);
}

}  // namespace

Fading ChunkFading(size_t L, ChunkRows alpha, ChunkRows alpha_low,
                   float* table) {
  float* between = table;
  float* from_start = table + kChunkTokens * kChunkTokens;
  HWY_DYNAMIC_DISPATCH(FadeBetweenOfTarget)
  (L, alpha.data, alpha.stride, between);
  double product = 1;
  for (size_t i = 0; i < L; ++i) {
    double factor = static_cast<double>(*alpha.At(i));
    if (alpha_low.data != nullptr) {
      factor += static_cast<double>(*alpha_low.At(i));
    }
    product *= factor;
    from_start[i] = static_cast<float>(product);
  }
  return {.from_start = from_start,
          .all_low = LackOf(product),
          .to_end = between + (L - 1) * kChunkTokens,
          .between = between,
          .between_stride = kChunkTokens};
}

// Powers descending to 1, with a row's length of zeros behind, so that a row of
// the table between tokens starts where its length says; then ascending ones,
// and what those lack.
void FillPowers(double factor, float* powers) {
  float* descending = powers;
  float* ascending = powers + 2 * kChunkTokens;
  float* lacking = ascending + kChunkTokens + 1;
  std::fill_n(descending, 2 * kChunkTokens, 0.0f);
  double power = 1;
  for (size_t n = 0; n <= kChunkTokens; ++n, power *= factor) {
    ascending[n] = static_cast<float>(power);
    lacking[n] = LackOf(power);
    if (n < kChunkTokens) {
      descending[kChunkTokens - 1 - n] = static_cast<float>(power);
    }
  }
}

Fading FadingOfPowers(size_t L, const float* powers) {
  const float* row_0 = powers + kChunkTokens - 1;
  const float* ascending = powers + 2 * kChunkTokens;
  const float* lacking = ascending + kChunkTokens + 1;
  return {.from_start = ascending + 1,
          .all_low = lacking[L],
          .to_end = row_0 - (L - 1),
          .between = row_0,
          .between_stride = -1};
}

}  // namespace steadystate
#endif  // HWY_ONCE
