#ifndef STEADYSTATE_KERNELS_LINEAR_INT4_MATRIX_H_
#define STEADYSTATE_KERNELS_LINEAR_INT4_MATRIX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/linear/int4_product.h"
#include "kernels/linear/matrix_call.h"
#include "kernels/linear/matrix_memory.h"
#include "kernels/linear/weight_rows.h"
#include "kernels/thread_pool.h"

namespace steadystate {

// y = x W^T (+ b) with W in groups of 4 bits (int4_product.h), 4.5 with their
// scales. Columns that are to be kept wide have two such planes: the second has
// what the first leaves, so that together they have 8 bits; their products are
// added, those of the first plane first.
//
// Batch-invariant, as Linear is; and with the same bits on all SIMD targets.
// Immutable after Pack; thread-safe given distinct scratch and pools.
class Int4Matrix {
 public:
  // What Run works with; grows to the largest call.
  struct Scratch {
    // Rows of Int4Inputs in tiles of kInt4BlockRows, the last one of fewer,
    // each [groups, rows of the tile].
    AlignedBytes rows;
    AlignedBytes sums;  // f32[workers, kInt4BlockRows, kInt4BlockColumns]
  };

  // Rounds and packs the stacked parts, 64 columns a task. Null if memory for
  // them cannot be had; throws std::bad_alloc for other memory.
  // REQUIRES: what CountRows has found good.
  static std::unique_ptr<Int4Matrix> Pack(size_t in,
                                          std::span<const WeightRows> parts,
                                          WeightArena& arena, ThreadPool& pool);

  // False if there is no memory for the scratch.
  bool Run(const MatrixCall& call, ThreadPool& pool, Scratch& scratch) const;

  size_t bytes() const { return bytes_; }  // of the packed weights

 private:
  // Up to kInt4BlockColumns columns of one kind.
  struct Block {
    size_t first_column;
    size_t width;
    bool wide;
    std::byte* planes;  // one, or two if wide

    size_t panels() const { return (width + kInt4Panel - 1) / kInt4Panel; }
  };

  Int4Matrix(size_t in, std::span<const WeightRows> parts);
  // Of one plane of a block, and of all of them.
  size_t PlaneBytes(const Block& block) const;
  size_t BlockBytes(const Block& block) const;
  // Rounds values f32[width, in] to the block's planes.
  void PackBlock(const Block& block, const float* values) const;
  void RoundRows(const MatrixCall& call, ThreadPool& pool,
                 Int4Inputs* rows) const;
  // Some rows times one block.
  void RunBlock(const MatrixCall& call, const Block& block,
                const Int4Inputs* rows, const RowRange& range,
                float* sums) const;

  size_t in_;
  size_t groups_;
  std::vector<Block> blocks_;
  size_t bytes_ = 0;
  std::shared_ptr<std::byte> memory_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_INT4_MATRIX_H_
