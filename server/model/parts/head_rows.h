#ifndef STEADYSTATE_SERVER_MODEL_PARTS_HEAD_ROWS_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_HEAD_ROWS_H_

#include <cstddef>

namespace steadystate {

// A vector per row of a batch and head, where it lies. A stride of 0 makes all
// rows, or all heads, share one; `sharing` consecutive heads share one.
struct HeadRows {
  const float* data = nullptr;
  size_t row_stride = 0;
  size_t head_stride = 0;
  size_t sharing = 1;

  const float* At(size_t row, size_t head) const {
    return data + row * row_stride + head / sharing * head_stride;
  }
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_HEAD_ROWS_H_
