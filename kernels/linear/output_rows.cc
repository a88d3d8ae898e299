#include "kernels/linear/output_rows.h"

#include <cstring>

namespace steadystate {

void OutputRows::Store(size_t first_row, size_t count, size_t first_column,
                       size_t width, const float* tile) const {
  for (size_t r = 0; r < count; ++r) {
    const float* from = tile + r * width;
    float* to = y + (first_row + r) * stride + first_column;
    if (bias == nullptr) {
      std::memcpy(to, from, width * sizeof(float));
    } else {
      const float* add = bias + first_column;
      for (size_t j = 0; j < width; ++j) to[j] = from[j] + add[j];
    }
  }
}

}  // namespace steadystate
