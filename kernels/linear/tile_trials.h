#ifndef STEADYSTATE_KERNELS_LINEAR_TILE_TRIALS_H_
#define STEADYSTATE_KERNELS_LINEAR_TILE_TRIALS_H_

#include <cstddef>
#include <vector>

#include "kernels/dtype.h"
#include "kernels/linear/row_tiles.h"

namespace steadystate {

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
  //   x  dtype[rows, in]  in      y  f32[rows, width]  overwritten
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
  std::vector<unsigned char> x_;  // dtype[rows_, in]
};

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_TILE_TRIALS_H_
