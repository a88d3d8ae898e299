#ifndef STEADYSTATE_TESTS_KERNELS_STATE_PACKED_MATRIX_H_
#define STEADYSTATE_TESTS_KERNELS_STATE_PACKED_MATRIX_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/state/packed_matrix.h"
#include "kernels/state/rounding_noise.h"

namespace steadystate {

// A matrix that is kept in 16 bits between two calls.
struct PackedMatrix {
  enum class Type { kBf16, kInt16 };

  PackedMatrix(Type with_type, size_t with_rows, size_t with_columns)
      : type(with_type),
        rows(with_rows),
        columns(with_columns),
        bf16(rows * columns),
        int16(rows * columns),
        exponents(rows * Int16Groups(columns)),
        row_noise(rows),
        column_noise(columns) {}

  std::vector<float> Unpack() const {
    std::vector<float> values(rows * columns);
    UnpackTo(values.data());
    return values;
  }

  void UnpackTo(float* values) const {
    if (type == Type::kBf16) {
      UnpackBf16(rows * columns, bf16.data(), values);
    } else {
      UnpackInt16(rows, columns, int16.data(), exponents.data(), values);
    }
  }

  void Pack(const float* values, uint64_t position) {
    const RoundingNoise noise = NoiseAt(position);
    if (type == Type::kBf16) {
      PackBf16(rows, columns, values, noise, bf16.data());
    } else {
      PackInt16(rows, columns, values, noise, int16.data(), exponents.data());
    }
  }

  // Valid until the next call.
  RoundingNoise NoiseAt(uint64_t position) {
    return MakeRoundingNoise(
        {.position = position, .offset = 4096},
        type == Type::kBf16 ? kBf16NoiseBits : kInt16NoiseBits, rows, columns,
        row_noise.data(), column_noise.data());
  }

  Type type;
  size_t rows;
  size_t columns;
  std::vector<uint16_t> bf16;  // of these two, the one of the type is used
  std::vector<int16_t> int16;
  std::vector<uint8_t> exponents;
  std::vector<uint32_t> row_noise;
  std::vector<uint32_t> column_noise;
};

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_KERNELS_STATE_PACKED_MATRIX_H_
