#ifndef STEADYSTATE_KERNELS_LINEAR_WEIGHT_ROWS_H_
#define STEADYSTATE_KERNELS_LINEAR_WEIGHT_ROWS_H_

#include <cstddef>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/dtype.h"

namespace steadystate {

// Part of a weight matrix as stored in a checkpoint: [rows, in], row-major.
// Several parts stacked make one projection, so that matrices with the same
// input (q, k, v, gates) cost one pass over the input.
struct WeightRows {
  TypedData data;
  size_t rows = 0;
};

// Rows of all parts together. INVALID_ARGUMENT if there is nothing to multiply
// or a dimension is beyond what oneDNN counts.
absl::StatusOr<size_t> CountRows(size_t in, std::span<const WeightRows> parts);

// Converts `count` rows of the stacked parts from row `first` on.
//   to  f32[count, in]  out
void GatherRows(size_t in, std::span<const WeightRows> parts, size_t first,
                size_t count, float* to);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_WEIGHT_ROWS_H_
