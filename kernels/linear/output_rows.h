#ifndef STEADYSTATE_KERNELS_LINEAR_OUTPUT_ROWS_H_
#define STEADYSTATE_KERNELS_LINEAR_OUTPUT_ROWS_H_

#include <cstddef>
#include <cstdint>

namespace steadystate {

// What makes numbers of the sums of bytes (quantize.h).
struct ByteScales {
  const float* rows;       // f32[rows]
  const float* columns;    // f32[out]
  const int32_t* offsets;  // s32[out]: what the rows' zero adds to each sum
};

// The rows of y of one Linear::Run, which take up finished tiles.
struct OutputRows {
  const float* bias;  // f32[out] or null
  float* y;           // f32[rows, out; stride]
  size_t stride;
  const ByteScales* scales;  // null but for int8 weights

  // Writes `count` rows from `first_row` on, `width` columns from
  // `first_column` on.
  //   tile  f32[count, width; stride tile_stride], or s32 where there are
  //         scales  in
  void Store(size_t first_row, size_t count, size_t first_column, size_t width,
             const std::byte* tile, size_t tile_stride) const;
};

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_OUTPUT_ROWS_H_
