#ifndef STEADYSTATE_KERNELS_LINEAR_MATRIX_MEMORY_H_
#define STEADYSTATE_KERNELS_LINEAR_MATRIX_MEMORY_H_

#include <cstddef>
#include <memory>

#include "kernels/dtype.h"

namespace steadystate {

// Up to the next multiple of a cache line.
constexpr size_t RoundUpToLine(size_t bytes) {
  constexpr size_t kLine = 64;
  return (bytes + kLine - 1) / kLine * kLine;
}

// Bytes from one row of X to the next where it is multiplied by such weights.
// Rows of bf16 are cache lines, with zeros after the last input: AMX reads
// whole lines, and weights of zero do not keep out what is NaN or infinite
// behind it.
constexpr size_t RowBytes(DType weights, size_t in) {
  const size_t bytes = in * SizeOf(weights);
  return weights == DType::kBf16 ? RoundUpToLine(bytes) : bytes;
}

// Uninitialised memory for matrices: aligned to cache lines, in huge pages
// when it is large and the system grants them.
class AlignedBytes {
 public:
  static constexpr size_t kAlignment = 64;

  // Discards the contents and provides at least `bytes`. False, and empty, if
  // the memory cannot be had.
  bool Allocate(size_t bytes);
  // Nothing, if there are at least as many; else the same.
  bool Grow(size_t bytes) { return size_ >= bytes || Allocate(bytes); }

  size_t size() const { return size_; }
  std::byte* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  size_t size_ = 0;
};

// Memory for the packed weights of one model: cut from chunks that grow with
// the model, so that matrices too small for huge pages of their own lie in
// shared ones. Thread-compatible.
class WeightArena {
 public:
  // Uninitialised memory, aligned to cache lines, which lives as long as the
  // result, whether or not the arena does. Null if it cannot be had.
  std::shared_ptr<std::byte> Allocate(size_t bytes);

 private:
  std::shared_ptr<AlignedBytes> chunk_;
  size_t used_ = 0;                      // of the chunk
  size_t next_chunk_ = size_t{1} << 20;  // bytes
};

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_MATRIX_MEMORY_H_
