#include "kernels/feature_map/feature_map.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/pointwise/activation.h"
#include "kernels/pointwise/norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/feature_map/feature_map.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

void MatVecOfTarget(size_t r, size_t d, const float* w, const float* bias,
                    const float* x, float* y) {
  for (size_t i = 0; i < r; ++i) {
    const float product = Dot(d, w + i * d, x);
    y[i] = bias == nullptr ? product : product + bias[i];
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

namespace {

double Sum(size_t n, const float* x) {
  return std::accumulate(x, x + n, 0.0, [](double sum, float value) {
    return sum + static_cast<double>(value);
  });
}

double SquaredNorm(size_t n, const float* x) {
  return std::accumulate(x, x + n, 0.0, [](double sum, float value) {
    return sum + static_cast<double>(value) * static_cast<double>(value);
  });
}

void Scale(size_t n, double factor, const float* x, float* y) {
  for (size_t i = 0; i < n; ++i) {
    y[i] = static_cast<float>(static_cast<double>(x[i]) * factor);
  }
}

}  // namespace

void JointSoftmax(size_t n, const float* x, float* y) {
  const float max = *std::max_element(x, x + n);
  for (size_t i = 0; i < n; ++i) y[i] = x[i] - max;
  Activate(Activation::kExp, n, y, y);
  Scale(n, 1.0 / Sum(n, y), y, y);
}

void HalfSoftmaxes(size_t r, const float* u, float* y) {
  PlusMinus(r, u, 1.0f, y);
  JointSoftmax(r, y, y);
  JointSoftmax(r, y + r, y + r);
  for (size_t i = 0; i < 2 * r; ++i) y[i] = std::max(y[i], 1e-12f);
}

void PlusMinus(size_t r, const float* u, float scale, float* y) {
  for (size_t i = 0; i < r; ++i) {
    y[i] = scale * u[i];
    y[r + i] = -y[i];
  }
}

void Dpfp(size_t d, const float* x, DpfpHalf half, float* y) {
  const bool reflected = half == DpfpHalf::kReflected;
  const auto p = [d, x, reflected](size_t i) {
    if (i < d) return std::max(x[i], 0.0f);
    return reflected ? std::max(-x[i - d], 0.0f) : -std::max(x[i - d], 0.0f);
  };
  const size_t width = 2 * d;
  for (size_t j = 1; j <= 4; ++j) {
    // j may exceed the width.
    size_t rolled = (4 * width - j) % width;
    for (size_t i = 0; i < width; ++i) {
      *y++ = p(i) * p(rolled);
      rolled = rolled + 1 == width ? 0 : rolled + 1;
    }
  }
}

size_t TaylorWidth(size_t d) { return 1 + 2 * d + d * (d - 1) / 2; }

void Taylor(size_t d, const float* x, float* y) {
  const double width = static_cast<double>(d);
  const auto linear = static_cast<float>(1 / std::sqrt(std::sqrt(width)));
  const auto square = static_cast<float>(1 / std::sqrt(2 * width));
  const auto product = static_cast<float>(1 / std::sqrt(width));
  *y++ = 1.0f;
  for (size_t i = 0; i < d; ++i) *y++ = x[i] * linear;
  for (size_t i = 0; i < d; ++i) *y++ = x[i] * x[i] * square;
  for (size_t i = 0; i < d; ++i) {
    const float x_i = x[i] * product;
    for (size_t j = i + 1; j < d; ++j) *y++ = x_i * x[j];
  }
}

void UnitWithOne(size_t d, const float* x, float eps, float* y) {
  y[0] = 1.0f;
  L2Normalize(d, x, eps, y + 1);
}

void PerformerLog(size_t m, size_t d, const float* projected, const float* x,
                  float* y) {
  const double shift = SquaredNorm(d, x) / 2;
  for (size_t i = 0; i < m; ++i) {
    y[i] = static_cast<float>(static_cast<double>(projected[i]) - shift);
  }
}

void SumNormalize(size_t n, const float* x, float eps, float* y) {
  Scale(n, 1.0 / (Sum(n, x) + static_cast<double>(eps)), x, y);
}

HWY_EXPORT(MatVecOfTarget);

void MatVec(size_t r, size_t d, const float* w, const float* bias,
            const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(MatVecOfTarget)(r, d, w, bias, x, y);
}

}  // namespace steadystate
#endif  // HWY_ONCE
