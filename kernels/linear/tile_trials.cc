#include "kernels/linear/tile_trials.h"

#include <cstdint>
#include <cstring>

#include "kernels/linear/trial_numbers.h"

namespace steadystate {
namespace {

// The fewer products there are, the fewer of their sums round: there the order
// shows in few rows. The same where there are few columns.
size_t TestRows(size_t in, size_t width) {
  if (in <= 16) return 128;
  return in <= 64 || width < 16 ? 64 : 16;
}

void Store(const std::vector<float>& values, DType dtype, void* to) {
  if (dtype == DType::kBf16) {
    ConvertToBf16(values.size(), values.data(), static_cast<uint16_t*>(to));
  } else {
    std::memcpy(to, values.data(), values.size() * sizeof(float));
  }
}

}  // namespace

TileTrials::TileTrials(size_t in, size_t width, DType dtype)
    : rows_(TestRows(in, width)),
      width_(width),
      row_bytes_(in * SizeOf(dtype)),
      weights_(width * row_bytes_),
      x_(rows_ * row_bytes_) {
  TellingNumbers numbers(in);
  std::vector<float> values(in);
  for (size_t j = 0; j < width; ++j) {
    numbers.FillColumn(values.data());
    Store(values, dtype, weights_.data() + j * row_bytes_);
  }
  // The last row stays zero, as padding is.
  for (size_t row = 0; row + 1 < rows_; ++row) {
    numbers.FillRow(values.data());
    Store(values, dtype, x_.data() + row * row_bytes_);
  }
}

void TileTrials::Arrange(size_t shift, size_t rows, unsigned char* x) const {
  for (size_t position = 0; position < rows; ++position) {
    const size_t row = (position + shift) % rows_;
    std::memcpy(x + position * row_bytes_, x_.data() + row * row_bytes_,
                row_bytes_);
  }
}

void TileTrials::Compare(size_t shift, const std::vector<float>& y,
                         std::vector<bool>& seen, TileTrial& trial) const {
  for (size_t position = 0; position < trial.rows; ++position) {
    const size_t row = (position + shift) % rows_;
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
