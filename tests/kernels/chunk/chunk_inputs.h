#ifndef STEADYSTATE_TESTS_KERNELS_CHUNK_CHUNK_INPUTS_H_
#define STEADYSTATE_TESTS_KERNELS_CHUNK_CHUNK_INPUTS_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/chunk/token_pairs.h"
#include "tests/kernels/numbers.h"

namespace steadystate {

// Random rows for chunk kernels, further apart than they are wide.
class TokenRows {
 public:
  TokenRows(size_t tokens, size_t width, float low, float high,
            Numbers& numbers)
      : width_(width),
        stride_(width + 3),
        values_(numbers.Uniform(tokens * stride_, low, high)) {}

  float* At(size_t t) { return values_.data() + t * stride_; }
  std::span<const float> operator[](size_t t) const {
    return {values_.data() + t * stride_, width_};
  }
  ChunkRows From(size_t t) const {
    return {values_.data() + t * stride_, stride_};
  }

 private:
  size_t width_;
  size_t stride_;
  Floats values_;
};

// Decays of several tempers: mild ones, none at all, ones that forget all at
// times, and e^-50 a token.
enum class Temper { kMild, kOnes, kZeros, kStrong };
inline constexpr Temper kTempers[] = {Temper::kMild, Temper::kOnes,
                                      Temper::kZeros, Temper::kStrong};

inline TokenRows RandomDecays(size_t tokens, size_t width, Temper temper,
                              Numbers& numbers) {
  TokenRows rows(tokens, width, 0.5f, 1.0f, numbers);
  for (size_t t = 0; t < tokens; ++t) {
    for (size_t i = 0; i < width; ++i) {
      float& alpha = rows.At(t)[i];
      if (temper == Temper::kOnes) alpha = 1;
      if (temper == Temper::kZeros && numbers.Below(3) == 0) alpha = 0;
      if (temper == Temper::kStrong) alpha = std::exp(-50.0f);
    }
  }
  return rows;
}

// Widths of heads, multiples of vectors and others.
inline constexpr size_t kWidths[] = {1, 16, 19, 35, 64, 70};

// Calls compare(temper, L, K, V) for decays of every temper: for chunks of each
// length up to `most_tokens`, and for heads of each width.
template <typename Compare>
void ForChunksOfAllKinds(size_t most_tokens, const Compare& compare) {
  for (const Temper temper : kTempers) {
    SCOPED_TRACE(static_cast<int>(temper));
    for (size_t L = 1; L <= most_tokens; ++L) compare(temper, L, 5, 7);
    for (const size_t n : kWidths) {
      compare(temper, most_tokens, n, n);
      compare(temper, most_tokens - 1, 3, n);
    }
  }
}

// Relative to the RMS of `expected`, or to a third where that is less: what has
// cancelled out was larger.
inline double RmsError(const Floats& got, std::span<const double> expected) {
  double error = 0;
  double size = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = static_cast<double>(got[i]) - expected[i];
    error += difference * difference;
    size += expected[i] * expected[i];
  }
  return std::sqrt(error /
                   std::max(size, 0.1 * static_cast<double>(expected.size())));
}

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_KERNELS_CHUNK_CHUNK_INPUTS_H_
