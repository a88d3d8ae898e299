#ifndef STEADYSTATE_KERNELS_LINEAR_SIMD_MATRIX_H_
#define STEADYSTATE_KERNELS_LINEAR_SIMD_MATRIX_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "kernels/dtype.h"
#include "kernels/linear/call_rows.h"
#include "kernels/linear/matrix_call.h"
#include "kernels/linear/matrix_memory.h"
#include "kernels/linear/weight_rows.h"
#include "kernels/thread_pool.h"

namespace steadystate {

// y = x W^T (+ b) by plain vectors (simd_product.h), with W in f32, bf16 or
// int8, for CPUs for which oneDNN packs no such weights. With bf16 weights x is
// rounded to bf16 first. With int8 weights each column of W^T has a scale, and
// each row of x one of its own; sums of bytes are exact.
//
// Batch-invariant, as Linear is. Immutable after Pack; thread-safe given
// distinct scratch and pools.
class SimdMatrix {
 public:
  // What Run works with; grows to the largest call.
  struct Scratch {
    AlignedBytes workers;  // of each: sums and scratch of SimdProduct
    // As SimdProduct takes them: with bf16 weights f32[rows, in], with int8
    // bytes[rows, 2 * RoundUpToLine(in)].
    AlignedBytes rows;
    AlignedBytes scales;  // f32[rows], with int8 weights
    AlignedBytes starts;  // s32[rows], with int8 weights
  };

  // Packs the stacked parts, 64 columns a task. Null if memory for them cannot
  // be had; throws std::bad_alloc for other memory.
  // REQUIRES: kF32, kBf16 or kI8, and what CountRows has found good.
  static std::unique_ptr<SimdMatrix> Pack(DType weights, size_t in,
                                          std::span<const WeightRows> parts,
                                          WeightArena& arena, ThreadPool& pool);

  // False if there is no memory for the scratch.
  bool Run(const MatrixCall& call, ThreadPool& pool, Scratch& scratch) const;

  size_t bytes() const { return bytes_; }  // of the packed weights

 private:
  // Up to kSimdBlockColumns columns.
  struct Block {
    size_t first_column;
    size_t width;
    std::byte* weights;
  };

  // x as SimdProduct takes it.
  struct Rows {
    const void* x;
    size_t stride;
    const int32_t* starts;  // with int8 weights
    ByteScales scales;      // with int8 weights
  };

  SimdMatrix(DType weights, size_t in, size_t out);
  size_t BlockBytes(const Block& block) const;
  // Fills memory_.
  void PackBlocks(std::span<const WeightRows> parts, ThreadPool& pool);
  // Rounds the rows of a call where that is to be. Null x if there is no memory
  // for them.
  Rows ReadyRows(const MatrixCall& call, ThreadPool& pool,
                 Scratch& scratch) const;
  Rows ReadyBytes(const MatrixCall& call, ThreadPool& pool,
                  Scratch& scratch) const;
  // Some rows times one block.
  void RunBlock(const MatrixCall& call, const Rows& rows, const Block& block,
                const RowRange& range, float* worker) const;

  const DType weights_;
  const size_t in_;
  std::vector<Block> blocks_;
  std::vector<float> scales_;  // f32[out], with int8 weights
  size_t bytes_ = 0;
  std::shared_ptr<std::byte> memory_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_SIMD_MATRIX_H_
