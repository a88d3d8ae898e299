#include "server/model/embedding.h"

#include <cstring>

namespace steadystate {

Embedding::Embedding(TypedData table, size_t vocab_size, size_t hidden_size,
                     DType weights)
    : hidden_size_(hidden_size),
      dtype_(weights == DType::kBf16 ? DType::kBf16 : table.dtype),
      bytes_(vocab_size * hidden_size * SizeOf(dtype_)) {
  if (table.dtype == dtype_) {
    std::memcpy(bytes_.data(), table.data, bytes_.size());
    return;
  }
  std::vector<float> row(hidden_size);
  auto* to = reinterpret_cast<uint16_t*>(bytes_.data());
  for (size_t token = 0; token < vocab_size; ++token) {
    ConvertToF32(table, token * hidden_size, hidden_size, row.data());
    ConvertToBf16(hidden_size, row.data(), to + token * hidden_size);
  }
}

void Embedding::Row(int32_t token, float* to) const {
  ConvertToF32(table(), static_cast<size_t>(token) * hidden_size_, hidden_size_,
               to);
}

}  // namespace steadystate
