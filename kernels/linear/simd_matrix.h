#ifndef STEADYSTATE_KERNELS_LINEAR_SIMD_MATRIX_H_
#define STEADYSTATE_KERNELS_LINEAR_SIMD_MATRIX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/dtype.h"
#include "kernels/linear/matrix_call.h"
#include "kernels/linear/matrix_memory.h"
#include "kernels/linear/weight_rows.h"
#include "kernels/thread_pool.h"

namespace steadystate {

// y = x W^T (+ b) by plain vectors (simd_product.h), with W in f32, bf16 or
// int8, for CPUs for which oneDNN packs no such weights.
//
// f32 and bf16 weights meet x as it is. With int8 weights each column of W^T
// has a scale (its largest magnitude / 127), as has each row of x; their bytes
// are multiplied and added without any rounding, and the sum times both scales
// is y. A row of x with infinities or NaN gives NaN.
//
// Batch-invariant, as Linear is. Immutable after Pack; thread-safe given
// distinct scratch and pools.
class SimdMatrix {
 public:
  // What Run works with; grows to the largest call.
  struct Scratch {
    AlignedBytes rows;     // as SimdProduct wants them
    AlignedBytes scales;   // f32[rows], with int8 weights
    AlignedBytes workers;  // of each: sums and scratch of SimdProduct
  };

  // Packs the stacked parts, 64 columns after 64. Null if memory cannot be had.
  // REQUIRES: what CountRows has found good; with int8 at most 65536 inputs.
  static std::unique_ptr<SimdMatrix> Pack(DType weights, size_t in,
                                          std::span<const WeightRows> parts,
                                          WeightArena& arena);

  // False if there is no memory for the scratch.
  bool Run(const MatrixCall& call, ThreadPool& pool, Scratch& scratch) const;

  size_t bytes() const { return bytes_; }  // of the packed weights

 private:
  // Up to kSimdBlockColumns columns.
  struct Block {
    size_t first_column;
    size_t width;
    const std::byte* weights;
  };
  // The rows of a call as blocks meet them.
  struct Rows {
    const std::byte* x;
    size_t stride;        // bytes
    const float* scales;  // with int8 weights
  };

  SimdMatrix(DType weights, size_t in, size_t out);
  size_t BlockBytes(const Block& block) const;
  bool PackBlocks(std::span<const WeightRows> parts, WeightArena& arena);
  // Readies the rows, in scratch unless they can be read where they are. False
  // if there is no memory.
  bool Prepare(const MatrixCall& call, ThreadPool& pool, Scratch& scratch,
               Rows& rows) const;
  // Writes a row of x to `to`; returns its scale.
  float WriteRow(const float* x, std::byte* to) const;
  // Some rows times one block.
  void RunBlock(const MatrixCall& call, const Block& block, const Rows& rows,
                const RowRange& range, std::byte* worker) const;

  const DType weights_;
  const size_t in_;
  std::vector<Block> blocks_;
  // With int8 weights:
  std::vector<float> scales_;     // f32[out]
  std::vector<int32_t> offsets_;  // s32[out] of zeros: bytes are signed
  size_t bytes_ = 0;
  std::shared_ptr<std::byte> memory_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_SIMD_MATRIX_H_
