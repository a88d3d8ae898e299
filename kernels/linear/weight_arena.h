#ifndef STEADYSTATE_KERNELS_LINEAR_WEIGHT_ARENA_H_
#define STEADYSTATE_KERNELS_LINEAR_WEIGHT_ARENA_H_

#include <cstddef>
#include <memory>

#include "kernels/linear/aligned_bytes.h"

namespace steadystate {

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

#endif  // STEADYSTATE_KERNELS_LINEAR_WEIGHT_ARENA_H_
