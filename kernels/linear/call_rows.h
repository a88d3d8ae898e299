#ifndef STEADYSTATE_KERNELS_LINEAR_CALL_ROWS_H_
#define STEADYSTATE_KERNELS_LINEAR_CALL_ROWS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.h"
#include "kernels/linear/matrix_memory.h"
#include "kernels/linear/quantize.h"
#include "kernels/thread_pool.h"

namespace steadystate {

// The rows of x of one Linear::Run as its tiles read them: of the type that
// goes with the weights' (tile_matmul.h), RowBytes apart, with zeros after each
// and zero rows after the last. Rows that lie so already are read where they
// are. Memory is kept from call to call.
class InputRows {
 public:
  // The caller's matrix and what the tiles need of it.
  struct Request {
    DType dtype;  // of the weights: kF32, kBf16 or kI8
    size_t in;
    size_t rows;
    const float* x;  // f32[rows, in; stride]
    size_t stride;
    size_t first_partial;  // rows from here on stand in tiles with padding
    size_t padded_rows;    // rows that the tiles read, >= rows
    ByteRange range{};     // what rows become with kI8
  };

  // False if there is no memory for the copy. `request.x` must stay valid.
  bool Prepare(const Request& request, ThreadPool& pool);

  // Where the tile that starts at row r reads; r as in Request.
  const std::byte* At(size_t r) const;

  // With kI8: of each row, what its bytes less `zero` are multiples of.
  // f32[rows]
  const float* scales() const { return Scales(); }

 private:
  void CopyRow(size_t r);
  float* Scales() const { return reinterpret_cast<float*>(scales_.data()); }

  Request request_{};
  size_t first_copied_ = 0;  // rows before this one are read from x
  AlignedBytes copy_;        // [padded_rows - first_copied_, RowBytes]
  AlignedBytes scales_;
};

// What makes numbers of the sums of bytes (quantize.h).
struct ByteScales {
  const float* rows;     // f32[rows]
  const float* columns;  // f32[out]
  // s32[out]: what the rows' zero adds to each sum; null where it is 0
  const int32_t* offsets = nullptr;
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

#endif  // STEADYSTATE_KERNELS_LINEAR_CALL_ROWS_H_
