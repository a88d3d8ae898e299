#include "kernels/linear/output_rows.h"

#include <cstring>

#include "kernels/linear/quantize.h"

namespace steadystate {

void OutputRows::Store(size_t first_row, size_t count, size_t first_column,
                       size_t width, const std::byte* tile,
                       size_t tile_stride) const {
  const float* add = bias == nullptr ? nullptr : bias + first_column;
  for (size_t r = 0; r < count; ++r) {
    const std::byte* from = tile + r * tile_stride * sizeof(float);
    float* to = y + (first_row + r) * stride + first_column;
    if (scales != nullptr) {
      DequantizeRow(width, reinterpret_cast<const int32_t*>(from),
                    scales->offsets + first_column, scales->rows[first_row + r],
                    scales->columns + first_column, add, to);
    } else if (add == nullptr) {
      std::memcpy(to, from, width * sizeof(float));
    } else {
      const auto* sums = reinterpret_cast<const float*>(from);
      for (size_t j = 0; j < width; ++j) to[j] = sums[j] + add[j];
    }
  }
}

}  // namespace steadystate
