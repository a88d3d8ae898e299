#ifndef STEADYSTATE_KERNELS_LINEAR_LINEAR_H_
#define STEADYSTATE_KERNELS_LINEAR_LINEAR_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/dtype.h"
#include "kernels/linear/tiling.h"
#include "kernels/linear/weight_rows.h"
#include "kernels/thread_pool.h"

namespace steadystate {

// Scratch memory of Linear::Run. One per compute thread that calls Run; grows
// to the largest call and is then reused without allocation.
class LinearScratch {
 public:
  LinearScratch();
  ~LinearScratch();
  LinearScratch(LinearScratch&&) noexcept;
  LinearScratch& operator=(LinearScratch&&) noexcept;

 private:
  friend class Linear;
  struct Buffers;
  std::unique_ptr<Buffers> buffers_;
};

// y = x W^T (+ b) with weights packed once.
//
// Batch-invariant: a row of y is a function of that row of x, of its class and
// of the weights, bit for bit, whatever `rows` is, wherever the row stands and
// however many threads run. Rows are computed in tiles by oneDNN, or by panels
// in a loop of our own; which of them give equal bits on this machine is
// established by comparison when the first projection of a shape is created
// (LinearFactory), and only those are used. Columns are cut into fixed blocks,
// one task each.
//
// Where oneDNN has no AVX-512 for f32 weights, nor VNNI for int8, or no
// instructions for bf16, plain vectors take its place (simd_matrix.h), in one
// order of sums.
//
// With bf16 weights x is rounded to bf16 first; sums are f32. With int8 weights
// each column of W^T has a scale (its largest magnitude / 127), as has each row
// of x; their bytes are multiplied and added without any rounding, and the sum
// times both scales is y. A row of x with infinities or NaN gives NaN.
//
// With int4 weights each 32 weights of a column have a scale, as have 32 inputs
// of a row (int4_product.h): oneDNN has no part in it. Parts that are to be
// wide have 8 bits; a projection all of whose parts are is one of int8 weights.
//
// Immutable after creation; thread-safe given distinct scratch and pools.
class Linear {
 public:
  ~Linear();
  size_t in() const;
  size_t out() const;

  //   x  f32[rows, in; stride x_stride]   in
  //   y  f32[rows, out; stride y_stride]  overwritten
  // REQUIRES: x and y do not overlap; rows >= 0.
  void Run(size_t rows, const float* x, size_t x_stride, float* y,
           size_t y_stride, ThreadPool& pool, LinearScratch& scratch,
           RowClass row_class = RowClass::kDecode) const;

 private:
  friend class LinearFactory;
  struct Packed;
  explicit Linear(std::unique_ptr<Packed> packed);
  std::unique_ptr<Packed> packed_;
};

// How the projections of one model are computed on this machine.
struct LinearReport {
  std::string weight_dtype;    // "f32", "bf16", "int8" or "int4"
  std::string isa;             // oneDNN's effective instruction set
  std::string onednn_version;  // "2.6.3"
  struct Shape {
    size_t in = 0, block = 0;  // K and columns of one block
    // Row tiles in use, ascending; bit-equal to each other within a class.
    std::vector<size_t> decode_tiles, prefill_tiles;
    // oneDNN's name, "brg:avx512_core_bf16", after "panels+" if our own loop
    // takes calls of few rows, or all; "int4_groups" with int4 weights, whose
    // one size of tile is the most rows that meet a block at once.
    std::string implementation;
  };
  std::vector<Shape> shapes;
};

// Makes the projections of one model; keeps what they share (primitives and the
// verified tile sizes of each shape). Not thread-safe. Must outlive nothing:
// Linears share ownership of what they need.
class LinearFactory {
 public:
  // `weights` is kF32, kBf16, kI8 or kI4. `threads`, at least one, pack them,
  // that of Make's caller included; bits do not depend on how many.
  static absl::StatusOr<std::unique_ptr<LinearFactory>> Create(
      DType weights, size_t threads = 1);

  ~LinearFactory();

  // Packs the stacked parts (out = sum of rows). `bias` is empty or f32[out].
  // INVALID_ARGUMENT for empty shapes and for more than 65536 inputs to int8
  // weights (and int4's, if all parts are wide), RESOURCE_EXHAUSTED if memory
  // for the packed weights cannot be had, INTERNAL if oneDNN refuses.
  absl::StatusOr<std::unique_ptr<Linear>> Make(
      size_t in, std::span<const WeightRows> parts,
      std::span<const float> bias = {});

  const LinearReport& report() const;

 private:
  struct Shared;
  explicit LinearFactory(std::shared_ptr<Shared> shared);
  std::shared_ptr<Shared> shared_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_LINEAR_H_
