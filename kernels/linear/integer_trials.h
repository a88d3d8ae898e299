#ifndef STEADYSTATE_KERNELS_LINEAR_INTEGER_TRIALS_H_
#define STEADYSTATE_KERNELS_LINEAR_INTEGER_TRIALS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace steadystate {

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

#endif  // STEADYSTATE_KERNELS_LINEAR_INTEGER_TRIALS_H_
