#include "kernels/linear/tile_trials.h"

#include <cstring>

namespace steadystate {

float TrialNumbers::Next() {
  state_ = state_ * 6364136223846793005u + 1442695040888963407u;
  return static_cast<float>(static_cast<int32_t>(state_ >> 32)) * 0x1p-31f;
}

void TrialNumbers::Fill(size_t n, DType dtype, void* to) {
  std::vector<float> values(n);
  for (float& value : values) value = Next();
  if (dtype == DType::kBf16) {
    ConvertToBf16(n, values.data(), static_cast<uint16_t*>(to));
  } else {
    std::memcpy(to, values.data(), n * sizeof(float));
  }
}

TileTrials::TileTrials(size_t in, size_t width, DType dtype)
    : width_(width),
      row_bytes_(in * SizeOf(dtype)),
      // The last row stays zero, as padding is.
      rows_(kRows * row_bytes_) {
  TrialNumbers().Fill((kRows - 1) * in, dtype, rows_.data());
}

void TileTrials::Arrange(size_t shift, size_t rows, unsigned char* x) const {
  for (size_t position = 0; position < rows; ++position) {
    const size_t row = (position + shift) % kRows;
    std::memcpy(x + position * row_bytes_, rows_.data() + row * row_bytes_,
                row_bytes_);
  }
}

void TileTrials::Compare(size_t shift, const std::vector<float>& y,
                         std::vector<bool>& seen, TileTrial& trial) const {
  for (size_t position = 0; position < trial.rows; ++position) {
    const size_t row = (position + shift) % kRows;
    const float* got = y.data() + position * width_;
    float* first = trial.results.data() + row * width_;
    if (!seen[row]) {
      std::memcpy(first, got, width_ * sizeof(float));
      seen[row] = true;
    } else if (std::memcmp(first, got, width_ * sizeof(float)) != 0) {
      trial.position_free = false;
    }
  }
}

}  // namespace steadystate
