#ifndef STEADYSTATE_KERNELS_LINEAR_ALIGNED_BYTES_H_
#define STEADYSTATE_KERNELS_LINEAR_ALIGNED_BYTES_H_

#include <cstddef>
#include <memory>

namespace steadystate {

// Uninitialised memory for matrices: aligned to cache lines, in huge pages
// when it is large and the system grants them.
class AlignedBytes {
 public:
  static constexpr size_t kAlignment = 64;

  // Discards the contents and provides at least `bytes`. False, and empty, if
  // the memory cannot be had.
  bool Allocate(size_t bytes);

  size_t size() const { return size_; }
  std::byte* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  size_t size_ = 0;
};

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_ALIGNED_BYTES_H_
