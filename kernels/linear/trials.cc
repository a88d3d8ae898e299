#include "kernels/linear/trials.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <utility>

#include "kernels/linear/matrix_memory.h"

namespace steadystate {
namespace {

// Magnitudes as powers of two. Sums of 65536 products stay finite, and products
// far from what bf16 takes for zero.
constexpr int kWeights = 8;        // 2^-8 to 2^8
constexpr int kInputs = 12;        // 2^-12 to 2^12
constexpr int kSinglePair = 16;    // 2^16 ...
constexpr int kLargestInput = 24;  // ... to 2^24

// The fewer products there are, the fewer of their sums round: there the order
// shows in few rows. The same where there are few columns.
size_t TestRows(size_t in, size_t width) {
  if (in <= 16) return 128;
  return in <= 64 || width < 16 ? 64 : 16;
}

void Store(const std::vector<float>& values, DType dtype, void* to) {
  if (dtype == DType::kBf16) {
    ConvertToBf16(values.size(), values.data(), static_cast<uint16_t*>(to));
  } else {
    std::memcpy(to, values.data(), values.size() * sizeof(float));
  }
}

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

TileTrials::TileTrials(size_t in, size_t width, DType dtype)
    : rows_(TestRows(in, width)),
      width_(width),
      row_bytes_(RowBytes(dtype, in)),
      weights_(width * in * SizeOf(dtype)),
      x_(rows_ * row_bytes_) {
  TellingNumbers numbers(in);
  std::vector<float> values(in);
  for (size_t j = 0; j < width; ++j) {
    numbers.FillColumn(values.data());
    Store(values, dtype, weights_.data() + j * in * SizeOf(dtype));
  }
  // The last row stays zero, as padding is.
  for (size_t row = 0; row + 1 < rows_; ++row) {
    numbers.FillRow(values.data());
    Store(values, dtype, x_.data() + row * row_bytes_);
  }
}

void TileTrials::Arrange(size_t shift, size_t rows, unsigned char* x) const {
  for (size_t position = 0; position < rows; ++position) {
    const size_t row = (position + shift) % rows_;
    std::memcpy(x + position * row_bytes_, x_.data() + row * row_bytes_,
                row_bytes_);
  }
}

void TileTrials::Compare(size_t shift, const std::vector<float>& y,
                         std::vector<bool>& seen, TileTrial& trial) const {
  for (size_t position = 0; position < trial.rows; ++position) {
    const size_t row = (position + shift) % rows_;
    const float* got = y.data() + position * width_;
    float* first = trial.results.data() + row * width_;
    if (!seen[row]) {
      std::memcpy(first, got, width_ * sizeof(float));
      seen[row] = true;
    } else if (std::memcmp(first, got, width_ * sizeof(float)) != 0) {
      trial.position_free = false;
    }
  }
}

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
