#ifndef STEADYSTATE_KERNELS_LINEAR_TILE_TRIALS_H_
#define STEADYSTATE_KERNELS_LINEAR_TILE_TRIALS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/dtype.h"
#include "kernels/linear/row_tiles.h"

namespace steadystate {

// Random numbers in [-1, 1), the same in every process, as f32 or bf16.
class TrialNumbers {
 public:
  //   to  dtype[n]  out
  void Fill(size_t n, DType dtype, void* to);

 private:
  float Next();
  uint64_t state_ = 1;
};

// The test rows, and the trial of one tile size with them.
class TileTrials {
 public:
  // Rows of `in` elements of `dtype`, results of `width` f32 each.
  TileTrials(size_t in, size_t width, DType dtype);

  // Lets multiply(x, y) compute tiles of `rows` rows until every test row has
  // met every position.
  //   x  dtype[rows, in]  in      y  f32[rows, width]  overwritten
  template <typename Multiply>
  TileTrial Try(size_t rows, const Multiply& multiply) const {
    TileTrial trial{rows, true, std::vector<float>(kRows * width_)};
    std::vector<unsigned char> x(rows * row_bytes_);
    std::vector<float> y(rows * width_);
    std::vector<bool> seen(kRows, false);
    for (size_t shift = 0; shift < kRows; ++shift) {
      Arrange(shift, rows, x.data());
      multiply(x.data(), y.data());
      Compare(shift, y, seen, trial);
    }
    return trial;
  }

 private:
  static constexpr size_t kRows = 8;

  // Puts test row (position + shift) mod kRows at each position.
  void Arrange(size_t shift, size_t rows, unsigned char* x) const;
  // Keeps what a row gave first and compares it with what it gives now.
  void Compare(size_t shift, const std::vector<float>& y,
               std::vector<bool>& seen, TileTrial& trial) const;

  const size_t width_;
  const size_t row_bytes_;
  std::vector<unsigned char> rows_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_TILE_TRIALS_H_
