#include "kernels/linear/integer_trials.h"

#include <algorithm>
#include <random>

namespace steadystate {
namespace {

int32_t Dot(size_t n, const uint8_t* x, const int8_t* w) {
  int32_t sum = 0;
  for (size_t i = 0; i < n; ++i) sum += int32_t{x[i]} * int32_t{w[i]};
  return sum;
}

}  // namespace

IntegerTrials::IntegerTrials(size_t in, size_t width, uint8_t most)
    : in_(in),
      width_(width),
      weights_(width * in),
      rows_(kRows * in),
      sums_(kRows * width) {
  std::minstd_rand random(1);
  const auto below = [&random](unsigned n) {
    return static_cast<int>((random() >> 8) % n);
  };
  for (int8_t& weight : weights_) {
    weight = static_cast<int8_t>(below(255) - 127);
  }
  // Columns and rows at the ends of their ranges, beside random ones.
  const size_t end = std::min<size_t>(width, 2) * in;
  for (size_t i = 0; i < end; ++i) weights_[i] = i < in ? 127 : -127;
  for (uint8_t& value : rows_) {
    value = static_cast<uint8_t>(below(most + 1u));
  }
  for (size_t i = 0; i < in; ++i) {
    rows_[i] = most;
    rows_[in + i] = i % 2 == 0 ? most : 1;
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t j = 0; j < width; ++j) {
      sums_[r * width + j] =
          Dot(in, rows_.data() + r * in, weights_.data() + j * in);
    }
  }
  for (const int32_t sum : sums_) {
    rounded_sums_.push_back(static_cast<int32_t>(static_cast<float>(sum)));
  }
}

}  // namespace steadystate
