#ifndef STEADYSTATE_SERVER_MODEL_SCRATCH_PLAN_H_
#define STEADYSTATE_SERVER_MODEL_SCRATCH_PLAN_H_

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace steadystate {

// How scratch memory is cut up. What a mixer or a part of one needs in a
// forward pass it adds to a plan when it is made, and keeps the slices that it
// gets for that; in a forward pass a slice says where its memory lies. So
// nobody counts: what was not planned cannot be had, and the memory is as large
// as the largest plan, for layers, and the parts of a layer that have plans of
// their own, run one after the other.

// The largest demands of all plans so far, while a model is loaded.
struct ScratchSize {
  size_t row_floats = 0;     // for each row of a batch
  size_t worker_floats = 0;  // for each worker thread
  size_t carry_floats = 0;   // for each row, from layer to layer
};

// Some floats for each row of a batch.
class RowSlice {
 public:
  RowSlice() = default;

 private:
  friend class RowScratchPlan;
  friend class RowScratch;
  explicit RowSlice(size_t first) : first_(first) {}
  size_t first_ = 0;  // floats of a row that lie before these
};

// What the rows of batches need. All slices of a plan are there at once: a
// mixer hands its plan to its parts.
class RowScratchPlan {
 public:
  // The plan's demand counts in `size`, which outlives the plan.
  explicit RowScratchPlan(ScratchSize& size) : size_(size) {}

  // f32[rows, width], whatever the number of rows.
  RowSlice Add(size_t width) {
    const RowSlice slice(std::exchange(floats_, floats_ + width));
    size_.row_floats = std::max(size_.row_floats, floats_);
    return slice;
  }

 private:
  ScratchSize& size_;
  size_t floats_ = 0;
};

// The memory of the rows of one batch.
class RowScratch {
 public:
  RowScratch(float* data, size_t rows) : data_(data), rows_(rows) {}

  // f32[rows, width], contiguous; nothing is said of what it holds. REQUIRES:
  // the slice is of a plan that counted in the size of this memory.
  float* operator[](RowSlice slice) const {
    return data_ + rows_ * slice.first_;
  }

 private:
  float* const data_;
  const size_t rows_;
};

// Some Elements for each worker thread.
template <typename Element>
class WorkerSlice {
 public:
  WorkerSlice() = default;

 private:
  friend class WorkerScratchPlan;
  friend class WorkerScratch;
  explicit WorkerSlice(size_t first) : first_(first) {}
  size_t first_ = 0;  // floats before these
};

// What each worker needs. All slices of a plan are there at once; those of two
// plans may lie in the same place.
class WorkerScratchPlan {
 public:
  // The plan's demand counts in `size`, which outlives the plan.
  explicit WorkerScratchPlan(ScratchSize& size) : size_(size) {}

  // Element[count], in whole cache lines.
  template <typename Element = float>
  WorkerSlice<Element> Add(size_t count) {
    static_assert(std::is_trivial_v<Element>);
    static_assert(sizeof(Element) % sizeof(float) == 0);
    const size_t floats = count * sizeof(Element) / sizeof(float);
    const size_t lines = (floats + kLineFloats - 1) / kLineFloats;
    const WorkerSlice<Element> slice(
        std::exchange(floats_, floats_ + lines * kLineFloats));
    size_.worker_floats = std::max(size_.worker_floats, floats_);
    return slice;
  }

 private:
  static constexpr size_t kLineFloats = 64 / sizeof(float);

  ScratchSize& size_;
  size_t floats_ = 0;
};

// The memory of one worker.
class WorkerScratch {
 public:
  explicit WorkerScratch(float* data) : data_(data) {}

  // Element[count]; nothing is said of what it holds. REQUIRES: as RowScratch.
  template <typename Element>
  Element* operator[](WorkerSlice<Element> slice) const {
    return reinterpret_cast<Element*>(data_ + slice.first_);
  }

 private:
  float* data_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_SCRATCH_PLAN_H_
