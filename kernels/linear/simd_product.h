#ifndef STEADYSTATE_KERNELS_LINEAR_SIMD_PRODUCT_H_
#define STEADYSTATE_KERNELS_LINEAR_SIMD_PRODUCT_H_

#include <algorithm>
#include <cstddef>

#include "kernels/dtype.h"

namespace steadystate {

// Weights for plain vectors, of CPUs for which oneDNN packs none. Columns lie
// in panels of 16, up to four of which are a block. Inputs are cut into slabs:
// a slab of each panel after the other, then the next slab. Within those, bf16
// of two inputs stand together: [inputs / 2, 16, 2], and f32 alone: [inputs,
// 16]. Zeros are beyond the last column and the last input.
inline constexpr size_t kSimdPanel = 16;
inline constexpr size_t kSimdBlockColumns = 64;
inline constexpr size_t kSimdSlab = 256;
// Rows that meet a slab at once.
inline constexpr size_t kSimdBlockRows = 128;

// Inputs of a column in memory.
constexpr size_t SimdInputs(DType weights, size_t in) {
  return weights == DType::kF32 ? in : in + in % 2;
}
// Panels that `columns` columns take.
constexpr size_t SimdPanels(size_t columns) {
  return (columns + kSimdPanel - 1) / kSimdPanel;
}

// Lays a block of columns out so.
//   weights  kF32 or kBf16, the type of both
//   rows     [width, in]                           in
//   block    [SimdInputs, 16 * SimdPanels(width)]  out
// REQUIRES: 0 < width <= kSimdBlockColumns.
void PackSimdBlock(DType weights, size_t in, size_t width, const void* rows,
                   std::byte* block);

// Of what bf16 weights become for many rows: the panels that vectors hold at
// once, in f32.
inline constexpr size_t kSimdScratch = 2 * kSimdSlab * kSimdPanel;

// Some rows of X times one block of W.
struct SimdProduct {
  DType weights;  // kF32 or kBf16
  size_t rows;    // 1 to kSimdBlockRows
  size_t in;
  size_t panels;   // of the block
  const float* x;  // f32[rows, in; stride x_stride]
  size_t x_stride;
  const std::byte* block;  // as PackSimdBlock leaves it
  float* sums;             // f32[rows, kSimdBlockColumns]  overwritten
  float* scratch;          // f32[kSimdScratch]
};

// Computes it, on the calling thread; what lies behind the block is fetched
// meanwhile. A row's bits are a function of the row and the block alone:
//   s <- fma(x_k, w_k, s), k ascending, from 0 in every slab
// and the slabs' sums are added in order. x is not rounded. (Where a CPU has no
// fused operations the product is.)
void MultiplySimd(const SimdProduct& product);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_SIMD_PRODUCT_H_
