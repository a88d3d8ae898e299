#ifndef STEADYSTATE_SERVER_MODEL_WORKSPACE_H_
#define STEADYSTATE_SERVER_MODEL_WORKSPACE_H_

#include <algorithm>
#include <cstddef>

#include "kernels/linear/linear.h"
#include "kernels/thread_pool.h"
#include "server/model/aligned_floats.h"
#include "server/model/model.h"
#include "server/model/phase_timer.h"

namespace steadystate {

// Scratch memory that the layers of a model ask for while it is loaded. Layers
// run one after the other, so the largest demand decides.
struct ScratchSize {
  size_t row_floats = 0;     // for each row of a batch
  size_t worker_floats = 0;  // for each worker thread
  size_t carry_floats = 0;   // for each row, from layer to layer

  void Need(size_t for_each_row, size_t for_each_worker) {
    row_floats = std::max(row_floats, for_each_row);
    worker_floats = std::max(worker_floats, for_each_worker);
  }
};

// The buffers of one forward pass. Confined to the compute thread, but for the
// tasks that it hands to the pool.
struct Workspace::Buffers {
  Buffers(size_t hidden_size, const ScratchSize& sizes, size_t rows,
          ThreadPool& threads);

  ThreadPool& pool;
  const size_t max_rows;
  const size_t worker_floats;
  LinearScratch linear;
  RowClass row_class = RowClass::kDecode;  // of the rows of this forward pass
  PhaseTimer phases;
  AlignedFloats residual;  // f32[max_rows, D]
  AlignedFloats normed;    // f32[max_rows, D]
  AlignedFloats mixed;     // f32[max_rows, D]: what a mixer or MLP puts out
  AlignedFloats scratch;   // f32[max_rows, row_floats]: inside mixer or MLP
  AlignedFloats workers;   // f32[threads, worker_floats]
  // f32[max_rows, carry_floats]: what a layer leaves for later layers of the
  // same token.
  AlignedFloats carry;

  // Of one worker, f32[worker_floats].
  float* OfWorker(size_t worker) const {
    return workers.data() + worker * worker_floats;
  }

  // Linear::Run, counted as projection.
  void Project(const Linear& linear_map, size_t rows, const float* x,
               size_t x_stride, float* y, size_t y_stride);

  // Calls each(row, worker) for every row: on this thread alone if there is
  // little to do, else on all. A row's result may depend on the row only.
  // `floats_per_row` says how much work a row is.
  template <typename Each>
  void ForRows(size_t rows, size_t floats_per_row, const Each& each) {
    // Waking the team costs some microseconds: the time of about this much.
    constexpr size_t kWorthSharing = size_t{1} << 15;
    if (rows == 1 || rows * floats_per_row < kWorthSharing) {
      for (size_t row = 0; row < rows; ++row) each(row, size_t{0});
      return;
    }
    const size_t block = (rows + 4 * pool.size() - 1) / (4 * pool.size());
    pool.ParallelFor((rows + block - 1) / block, [&](size_t i, size_t worker) {
      const size_t end = std::min(rows, (i + 1) * block);
      for (size_t row = i * block; row < end; ++row) each(row, worker);
    });
  }
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_WORKSPACE_H_
