#include "kernels/linear/call_rows.h"

#include <cstdint>
#include <cstring>

#include "kernels/linear/matrix_call.h"

namespace steadystate {
bool InputRows::Prepare(const Request& request, ThreadPool& pool) {
  request_ = request;
  const bool readable_in_place =
      request.dtype == DType::kF32 &&
      (request.stride == request.in || request.rows == 1);
  first_copied_ = readable_in_place ? request.first_partial : 0;
  const size_t row_bytes = RowBytes(request.dtype, request.in);
  const size_t bytes = (request.padded_rows - first_copied_) * row_bytes;
  if (bytes > copy_.size() && !copy_.Allocate(bytes)) return false;
  const size_t scale_bytes = request.rows * sizeof(float);
  if (request.dtype == DType::kI8 && scale_bytes > scales_.size() &&
      !scales_.Allocate(scale_bytes)) {
    return false;
  }

  const size_t count = request.rows - first_copied_;
  ForEachRow(count, request.in, pool,
             [this](size_t r) { CopyRow(first_copied_ + r); });
  const size_t padding_bytes = (request.padded_rows - request.rows) * row_bytes;
  if (padding_bytes != 0) {
    std::memset(copy_.data() + count * row_bytes, 0, padding_bytes);
  }
  return true;
}

const std::byte* InputRows::At(size_t r) const {
  if (r < first_copied_) {
    return reinterpret_cast<const std::byte*>(request_.x + r * request_.in);
  }
  return copy_.data() +
         (r - first_copied_) * RowBytes(request_.dtype, request_.in);
}

void InputRows::CopyRow(size_t r) {
  const size_t in = request_.in;
  const size_t used_bytes = in * SizeOf(request_.dtype);
  const size_t row_bytes = RowBytes(request_.dtype, in);
  const float* from = request_.x + r * request_.stride;
  std::byte* to = copy_.data() + (r - first_copied_) * row_bytes;
  if (request_.dtype == DType::kBf16) {
    ConvertToBf16(in, from, reinterpret_cast<uint16_t*>(to));
  } else if (request_.dtype == DType::kI8) {
    Scales()[r] =
        QuantizeRow(in, from, request_.range, reinterpret_cast<uint8_t*>(to));
  } else {
    std::memcpy(to, from, used_bytes);
  }
  std::memset(to + used_bytes, 0, row_bytes - used_bytes);
}

void OutputRows::Store(size_t first_row, size_t count, size_t first_column,
                       size_t width, const std::byte* tile,
                       size_t tile_stride) const {
  const float* add = bias == nullptr ? nullptr : bias + first_column;
  const int32_t* offsets = nullptr;
  if (scales != nullptr && scales->offsets != nullptr) {
    offsets = scales->offsets + first_column;
  }
  for (size_t r = 0; r < count; ++r) {
    const std::byte* from = tile + r * tile_stride * sizeof(float);
    float* to = y + (first_row + r) * stride + first_column;
    if (scales != nullptr) {
      DequantizeRow(width, reinterpret_cast<const int32_t*>(from), offsets,
                    scales->rows[first_row + r], scales->columns + first_column,
                    add, to);
    } else if (add == nullptr) {
      std::memcpy(to, from, width * sizeof(float));
    } else {
      const auto* sums = reinterpret_cast<const float*>(from);
      for (size_t j = 0; j < width; ++j) to[j] = sums[j] + add[j];
    }
  }
}

}  // namespace steadystate
