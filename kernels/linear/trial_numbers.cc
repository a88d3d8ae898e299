#include "kernels/linear/trial_numbers.h"

#include <cmath>
#include <numeric>
#include <utility>

namespace steadystate {
namespace {

// Magnitudes as powers of two. Sums of 65536 products stay finite, and products
// far from what bf16 takes for zero.
constexpr int kWeights = 8;        // 2^-8 to 2^8
constexpr int kInputs = 12;        // 2^-12 to 2^12
constexpr int kSinglePair = 16;    // 2^16 ...
constexpr int kLargestInput = 24;  // ... to 2^24

}  // namespace

uint32_t TrialNumbers::Next() {
  state_ = state_ * 6364136223846793005u + 1442695040888963407u;
  return static_cast<uint32_t>(state_ >> 32);
}

float TrialNumbers::Spread(int low, int high) {
  const uint32_t bits = Next();
  const float mantissa = 1.0f + static_cast<float>(bits >> 9) * 0x1p-23f;
  const int exponent =
      low + static_cast<int>(Below(static_cast<size_t>(high - low)));
  return std::ldexp(bits % 2 == 0 ? mantissa : -mantissa, exponent);
}

// The upper bits of Next, whose lower ones have short periods.
size_t TrialNumbers::Below(size_t n) { return (size_t{Next()} * n) >> 32; }

TellingNumbers::TellingNumbers(size_t in) : in_(in), partners_(in) {
  std::vector<size_t> shuffled(in);
  std::iota(shuffled.begin(), shuffled.end(), size_t{0});
  for (size_t i = in; i > 1; --i) {
    std::swap(shuffled[i - 1], shuffled[numbers_.Below(i)]);
  }
  // Of an odd number one stays alone, but not the last: a tail may be of one.
  if (in % 2 == 1 && shuffled.back() == in - 1) {
    std::swap(shuffled.back(), shuffled.front());
  }
  std::iota(partners_.begin(), partners_.end(), size_t{0});
  for (size_t i = 0; i + 1 < in; i += 2) {
    partners_[shuffled[i]] = shuffled[i + 1];
    partners_[shuffled[i + 1]] = shuffled[i];
  }
}

void TellingNumbers::FillSpread(int low, int high, float* to) {
  for (size_t i = 0; i < in_; ++i) to[i] = numbers_.Spread(low, high);
}

void TellingNumbers::FillColumn(float* to) {
  FillSpread(-kWeights, kWeights, to);
  for (size_t i = 0; i < in_; ++i) {
    if (partners_[i] > i) to[partners_[i]] = -to[i];
  }
}

void TellingNumbers::FillRow(float* to) {
  const size_t row = rows_++;
  if (row % 2 == 0) {
    FillSpread(-kInputs, kInputs, to);
  } else if (row % 4 == 1) {
    FillSpread(-kInputs, 0, to);
    for (size_t i = 0; i < in_; ++i) {
      if (partners_[i] <= i || numbers_.Below(2) == 0) continue;
      to[i] = to[partners_[i]] = numbers_.Spread(0, kInputs);
    }
  } else {
    FillSpread(-kInputs, 0, to);
    const size_t i = in_ - 1 - row / 4 % in_;
    to[i] = to[partners_[i]] = numbers_.Spread(kSinglePair, kLargestInput);
  }
}

}  // namespace steadystate
