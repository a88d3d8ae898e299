#include "kernels/linear/integer_trials.h"

#include <random>

namespace steadystate {
namespace {

int32_t Dot(size_t n, const uint8_t* x, const int8_t* w) {
  int32_t sum = 0;
  for (size_t i = 0; i < n; ++i) sum += int32_t{x[i]} * int32_t{w[i]};
  return sum;
}

// Whole numbers, the same in every process.
class Random {
 public:
  // In [0, n).
  int Below(int n) {
    return static_cast<int>((generator_() >> 8) % static_cast<unsigned>(n));
  }

 private:
  std::minstd_rand generator_{1};
};

// Column j is of one of four kinds in turn. Near the end of its range, as is
// the first column wholly and, from the other side, the second; from some place
// on with the other sign; with signs that change all the time; of all numbers.
//   to  s8[in]  out
void FillColumn(size_t j, size_t in, Random& random, int8_t* to) {
  const int sign = j % 2 == 0 ? 1 : -1;
  const size_t turn = static_cast<size_t>(random.Below(static_cast<int>(in)));
  for (size_t i = 0; i < in; ++i) {
    int value = sign * (127 - (j < 2 ? 0 : random.Below(8)));
    if (j % 8 >= 2 && j % 8 < 4 && i >= turn) value = -value;
    if (j % 8 >= 4 && j % 8 < 6 && random.Below(2) == 0) value = -value;
    if (j % 8 >= 6) value = random.Below(255) - 127;
    to[i] = static_cast<int8_t>(value);
  }
}

// Rows that are tried, the more the fewer columns there are.
size_t TestRows(size_t width) { return width < 16 ? 32 : 8; }

// Row 0 has the largest values, row 1 these and ones in turn. Of the others
// four of six have the largest values but for some, ever fewer, that are near
// them, and two have all values.
//   to  u8[in]  out
void FillRow(size_t r, size_t in, int most, Random& random, uint8_t* to) {
  const size_t kind = r < 2 ? r : 2 + (r - 2) % 6;
  for (size_t i = 0; i < in; ++i) {
    int value = most;
    if (kind == 1 && i % 2 == 1) value = 1;
    if (kind >= 2 && kind < 6 && random.Below(1 << (2 * kind - 3)) == 0) {
      value -= 1 + random.Below(8);
    }
    if (kind >= 6) value = random.Below(most + 1);
    to[i] = static_cast<uint8_t>(value);
  }
}

}  // namespace

IntegerTrials::IntegerTrials(size_t in, size_t width, uint8_t most)
    : in_(in),
      width_(width),
      test_rows_(TestRows(width)),
      weights_(width * in),
      rows_(test_rows_ * in),
      sums_(test_rows_ * width) {
  Random random;
  for (size_t j = 0; j < width; ++j) {
    FillColumn(j, in, random, weights_.data() + j * in);
  }
  for (size_t r = 0; r < test_rows_; ++r) {
    FillRow(r, in, most, random, rows_.data() + r * in);
  }
  for (size_t r = 0; r < test_rows_; ++r) {
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
