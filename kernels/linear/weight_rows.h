#ifndef STEADYSTATE_KERNELS_LINEAR_WEIGHT_ROWS_H_
#define STEADYSTATE_KERNELS_LINEAR_WEIGHT_ROWS_H_

#include <cstddef>

#include "kernels/dtype.h"

namespace steadystate {

// Part of a weight matrix as stored in a checkpoint: [rows, in], row-major.
// Several parts stacked make one projection, so that matrices with the same
// input (q, k, v, gates) cost one pass over the input.
struct WeightRows {
  TypedData data;
  size_t rows = 0;
  // With int4 weights these have 8 bits; else it means nothing.
  bool wide = false;
};

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_WEIGHT_ROWS_H_
