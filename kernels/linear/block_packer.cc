#include "kernels/linear/block_packer.h"

#include <numeric>

#include "kernels/linear/quantize.h"

namespace steadystate {

absl::StatusOr<TileMatmul::Weights> BlockPacker::Pack(const BlockShape& shape,
                                                      size_t first, void* place,
                                                      ColumnScales columns) {
  values_.resize(shape.width * in_);
  GatherRows(in_, parts_, first, shape.width, values_.data());
  switch (dtype_) {
    case DType::kBf16:
      halves_.resize(values_.size());
      ConvertToBf16(values_.size(), values_.data(), halves_.data());
      return shape.matmul->Pack(halves_.data(), place);
    case DType::kI8:
      Quantize(shape.width, columns);
      return shape.matmul->Pack(bytes_.data(), place);
    default:
      return shape.matmul->Pack(values_.data(), place);
  }
}

void BlockPacker::Quantize(size_t width, ColumnScales columns) {
  bytes_.resize(values_.size());
  for (size_t j = 0; j < width; ++j) {
    uint8_t* const to = bytes_.data() + j * in_;
    columns.scales[j] = QuantizeRow(in_, values_.data() + j * in_,
                                    {.limit = 127, .zero = 0}, to);
    const auto* const bytes = reinterpret_cast<const int8_t*>(to);
    columns.sums[j] = std::accumulate(bytes, bytes + in_, int32_t{0});
  }
}

}  // namespace steadystate
