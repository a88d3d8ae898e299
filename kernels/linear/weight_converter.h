#ifndef STEADYSTATE_KERNELS_LINEAR_WEIGHT_CONVERTER_H_
#define STEADYSTATE_KERNELS_LINEAR_WEIGHT_CONVERTER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/dtype.h"
#include "kernels/linear/weight_rows.h"

namespace steadystate {

// Rows of all parts together. INVALID_ARGUMENT if there is nothing to multiply
// or a dimension is beyond what oneDNN counts.
absl::StatusOr<size_t> CountRows(size_t in, std::span<const WeightRows> parts);

// Converts `count` rows of the stacked parts from row `first` on.
//   to  f32[count, in]  out
void GatherRows(size_t in, std::span<const WeightRows> parts, size_t first,
                size_t count, float* to);

// With int8 weights, of one block's columns.
struct ColumnScales {
  float* scales;  // f32[width]: what a column's bytes are multiples of
  int32_t* sums = nullptr;  // s32[width] or null: of a column's bytes
};

// Converts the rows of a projection, one block of columns after another. A
// thread has one of its own.
class WeightConverter {
 public:
  // `parts` outlive it. Throws std::bad_alloc, which Convert does not.
  //   widest  columns of a block, at most
  WeightConverter(DType dtype, size_t in, std::span<const WeightRows> parts,
                  size_t widest);

  // One for each thread.
  static std::vector<WeightConverter> Team(size_t threads, DType dtype,
                                           size_t in,
                                           std::span<const WeightRows> parts,
                                           size_t widest);

  // The columns [first, first + width), dtype[width, in], until the next call.
  // `columns` is written with int8 weights only.
  const void* Convert(size_t first, size_t width, ColumnScales columns);

 private:
  // Rounds values_ to bytes_.
  void Quantize(size_t width, ColumnScales columns);

  const DType dtype_;
  const size_t in_;
  const std::span<const WeightRows> parts_;
  // Untouched, and so not taken from the system, in threads without a task.
  std::unique_ptr<float[]> values_;     // f32[widest, in]
  std::unique_ptr<uint16_t[]> halves_;  // the same as bf16 ...
  std::unique_ptr<uint8_t[]> bytes_;    // ... or s8
};

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_WEIGHT_CONVERTER_H_
