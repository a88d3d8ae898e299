#ifndef STEADYSTATE_KERNELS_LINEAR_COLUMN_BLOCKS_H_
#define STEADYSTATE_KERNELS_LINEAR_COLUMN_BLOCKS_H_

#include <algorithm>
#include <cstddef>

#include "kernels/dtype.h"

namespace steadystate {

// Columns per block of an [out, in] weight matrix, the last block excepted: a
// function of the shape alone, neither of threads nor of time. Wide enough to
// keep oneDNN busy, narrow enough to give every thread some blocks and to stay
// in the second-level cache while the row tiles pass by.
constexpr size_t ColumnsPerBlock(size_t in, size_t out, DType dtype) {
  constexpr size_t kGrain = 64;
  constexpr size_t kMaxGrains = 4;
  constexpr size_t kWantedBlocks = 8;
  constexpr size_t kBlockBytes = size_t{512} << 10;
  const size_t fitting = kBlockBytes / (kGrain * in * SizeOf(dtype));
  const size_t sharing = out / (kGrain * kWantedBlocks);
  const size_t grains = std::min({fitting, sharing, kMaxGrains});
  return std::max<size_t>(grains, 1) * kGrain;
}

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_COLUMN_BLOCKS_H_
