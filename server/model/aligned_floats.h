#ifndef STEADYSTATE_SERVER_MODEL_ALIGNED_FLOATS_H_
#define STEADYSTATE_SERVER_MODEL_ALIGNED_FLOATS_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>

namespace steadystate {

// An array of floats, 64-byte aligned, zero at first. Movable.
class AlignedFloats {
 public:
  AlignedFloats() = default;
  explicit AlignedFloats(size_t count)
      : floats_(static_cast<float*>(
            ::operator new(count * sizeof(float), kAlignment))) {
    std::fill_n(floats_.get(), count, 0.0f);
  }

  float* data() const { return floats_.get(); }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Delete {
    void operator()(float* floats) const {
      ::operator delete(floats, kAlignment);
    }
  };
  std::unique_ptr<float, Delete> floats_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_ALIGNED_FLOATS_H_
