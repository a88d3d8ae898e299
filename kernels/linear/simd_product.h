#ifndef STEADYSTATE_KERNELS_LINEAR_SIMD_PRODUCT_H_
#define STEADYSTATE_KERNELS_LINEAR_SIMD_PRODUCT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.h"

namespace steadystate {

// Weights for plain vectors, of CPUs for which oneDNN packs none. Columns lie
// in panels of 16, up to four of which are a block. Inputs are cut into slabs:
// a slab of each panel after the other, then the next slab. Within those, as
// many inputs of a column as fill 32 bits stand together: [inputs, 16] of f32,
// [inputs / 2, 16, 2] of bf16, [inputs / 4, 16, 4] of bytes. Zeros are beyond
// the last column and the last input.
inline constexpr size_t kSimdPanel = 16;
inline constexpr size_t kSimdBlockColumns = 64;
// Rows that meet a slab at once.
inline constexpr size_t kSimdBlockRows = 128;

// Inputs of a column that stand together.
constexpr size_t SimdTogether(DType weights) {
  return sizeof(float) / SizeOf(weights);
}
// Inputs of a column in memory.
constexpr size_t SimdInputs(DType weights, size_t in) {
  const size_t together = SimdTogether(weights);
  return (in + together - 1) / together * together;
}
// Inputs of a slab. Bytes are summed exactly, so theirs may be as long as those
// of f32 are in memory.
constexpr size_t SimdSlab(DType weights) {
  return weights == DType::kI8 ? 1024 : 256;
}
// Panels that `columns` columns take.
constexpr size_t SimdPanels(size_t columns) {
  return (columns + kSimdPanel - 1) / kSimdPanel;
}

// Lays a block of columns out so.
//   weights  kF32, kBf16 or kI8, the type of both
//   rows     [width, in]                           in
//   block    [SimdInputs, 16 * SimdPanels(width)]  out
// REQUIRES: 0 < width <= kSimdBlockColumns.
void PackSimdBlock(DType weights, size_t in, size_t width, const void* rows,
                   std::byte* block);

// Of what bf16 weights become for many rows: the panels that vectors hold at
// once, in f32.
inline constexpr size_t kSimdScratch = 2 * SimdSlab(DType::kBf16) * kSimdPanel;

// Some rows of X times one block of W.
struct SimdProduct {
  DType weights;  // kF32, kBf16 or kI8
  size_t rows;    // 1 to kSimdBlockRows
  size_t in;
  size_t panels;  // of the block
  // f32[rows, in; stride x_stride]; with kI8 bytes, as SplitSigns leaves them:
  // of each row at least 2 * SimdInputs
  const void* x;
  size_t x_stride;
  const int32_t* starts;   // s32[rows], what SplitSigns returned, with kI8
  const std::byte* block;  // as PackSimdBlock leaves it
  void* sums;      // f32[rows, kSimdBlockColumns], or s32 with kI8  overwritten
  float* scratch;  // f32[kSimdScratch], with kBf16
};

// Computes it, on the calling thread; what lies behind the block is fetched
// meanwhile. A row's bits are a function of the row and the block alone. With
// kI8 they are the exact sum. Else:
//   s <- fma(x_k, w_k, s), k ascending, from 0 in every slab
// and the slabs' sums are added in order. x is not rounded. (Where a CPU has no
// fused operations the product is.)
void MultiplySimd(const SimdProduct& product);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_SIMD_PRODUCT_H_
