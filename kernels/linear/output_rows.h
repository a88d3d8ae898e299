#ifndef STEADYSTATE_KERNELS_LINEAR_OUTPUT_ROWS_H_
#define STEADYSTATE_KERNELS_LINEAR_OUTPUT_ROWS_H_

#include <cstddef>

namespace steadystate {

// The rows of y of one Linear::Run, which take up finished tiles.
struct OutputRows {
  const float* bias;  // f32[out] or null
  float* y;           // f32[rows, out; stride]
  size_t stride;

  // Writes `count` rows from `first_row` on, `width` columns from
  // `first_column` on.
  //   tile  f32[count, width]  in
  void Store(size_t first_row, size_t count, size_t first_column, size_t width,
             const float* tile) const;
};

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_OUTPUT_ROWS_H_
