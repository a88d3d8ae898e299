#ifndef STEADYSTATE_KERNELS_LINEAR_TRIALS_H_
#define STEADYSTATE_KERNELS_LINEAR_TRIALS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/dtype.h"
#include "kernels/linear/tiling.h"

namespace steadystate {

// Random numbers for trials, the same in every process.
class TrialNumbers {
 public:
  // Of a random sign and magnitude in [2^low, 2^high): every binade is as
  // likely.
  float Spread(int low, int high);

  // In [0, n). REQUIRES: 0 < n < 2^31.
  size_t Below(size_t n);

 private:
  uint32_t Next();
  uint64_t state_ = 2;
};

// Inputs and weights whose products show in what order they were added up, and
// what was rounded on the way. All magnitudes are far apart, so that nearly
// every addition rounds; and inputs are in pairs whose weights differ in sign
// alone, in all columns. Where a row has one large number at both, the products
// are large until the second comes and then gone, and what is left is what had
// been added before, between and after them.
class TellingNumbers {
 public:
  explicit TellingNumbers(size_t in);

  // One column.
  //   to  f32[in]  out
  void FillColumn(float* to);

  // The next row, of one of three kinds in turn: without pairs, with as many
  // pairs as not, with a single pair. The single ones begin at the last inputs,
  // which is where loops have their tails.
  //   to  f32[in]  out
  void FillRow(float* to);

 private:
  void FillSpread(int low, int high, float* to);

  const size_t in_;
  TrialNumbers numbers_;
  size_t rows_ = 0;               // that have been made
  std::vector<size_t> partners_;  // of each input; one may be its own
};

// The test rows and columns of one shape of block, and the trial of one tile
// size with them. Their numbers are TellingNumbers: ways of multiplying whose
// results are equal add up in the same order.
class TileTrials {
 public:
  // Rows of `in` elements of `dtype`, kF32 or kBf16, results of `width` f32
  // each.
  TileTrials(size_t in, size_t width, DType dtype);

  // The block's columns, dtype[width, in].
  const void* weights() const { return weights_.data(); }

  // Lets multiply(x, y) compute tiles of `rows` rows, times the block, until
  // every test row has met every position.
  //   x  dtype[rows, in], RowBytes apart  in      y  f32[rows, width]  out
  template <typename Multiply>
  TileTrial Try(size_t rows, const Multiply& multiply) const {
    TileTrial trial{rows, true, std::vector<float>(rows_ * width_)};
    std::vector<unsigned char> x(rows * row_bytes_);
    std::vector<float> y(rows * width_);
    std::vector<bool> seen(rows_, false);
    for (size_t shift = 0; shift < rows_; ++shift) {
      Arrange(shift, rows, x.data());
      multiply(x.data(), y.data());
      Compare(shift, y, seen, trial);
    }
    return trial;
  }

 private:
  // Puts test row (position + shift) mod rows_ at each position.
  void Arrange(size_t shift, size_t rows, unsigned char* x) const;
  // Keeps what a row gave first and compares it with what it gives now.
  void Compare(size_t shift, const std::vector<float>& y,
               std::vector<bool>& seen, TileTrial& trial) const;

  const size_t rows_;  // of the test
  const size_t width_;
  const size_t row_bytes_;
  std::vector<unsigned char> weights_;
  std::vector<unsigned char> x_;  // dtype[rows_, in], RowBytes apart
};

// Tests whether tiles of u8 rows times s8 columns give the sums that whole
// numbers have. Without VNNI instructions a CPU adds pairs of products with
// 16 bits and saturates, so the largest values are among those tried. So are
// sums that become larger than 2^24, where f32 has gaps, at the end or only on
// the way there, and that are no multiples of anything.
class IntegerTrials {
 public:
  // What becomes of a sum. oneDNN 3 makes it f32 and a whole number again where
  // it has no AVX-512: above 2^24 it is rounded, to nearest, ties to even.
  enum class Sums { kWhole, kRoundedToF32 };

  // Values of X are tried up to `most`.
  IntegerTrials(size_t in, size_t width, uint8_t most);

  // The block's columns, s8[width, in].
  const int8_t* weights() const { return weights_.data(); }

  // Lets multiply(x, y) compute tiles of `rows` rows until every test row has
  // met every position. True if all sums were right, as `sums` says.
  //   x  u8[rows, in]  in      y  s32[rows, width]  overwritten
  template <typename Multiply>
  bool Exact(size_t rows, Sums sums, const Multiply& multiply) const {
    const std::vector<int32_t>& right =
        sums == Sums::kWhole ? sums_ : rounded_sums_;
    std::vector<uint8_t> x(rows * in_);
    std::vector<int32_t> y(rows * width_);
    for (size_t shift = 0; shift < test_rows_; ++shift) {
      for (size_t r = 0; r < rows; ++r) {
        std::memcpy(x.data() + r * in_,
                    rows_.data() + (r + shift) % test_rows_ * in_, in_);
      }
      multiply(x.data(), y.data());
      for (size_t r = 0; r < rows; ++r) {
        if (std::memcmp(y.data() + r * width_,
                        right.data() + (r + shift) % test_rows_ * width_,
                        width_ * sizeof(int32_t)) != 0) {
          return false;
        }
      }
    }
    return true;
  }

 private:
  const size_t in_;
  const size_t width_;
  const size_t test_rows_;
  std::vector<int8_t> weights_;
  std::vector<uint8_t> rows_;  // u8[test rows, in]
  std::vector<int32_t> sums_;  // s32[test rows, width]
  std::vector<int32_t> rounded_sums_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_TRIALS_H_
