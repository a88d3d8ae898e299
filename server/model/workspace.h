#ifndef STEADYSTATE_SERVER_MODEL_WORKSPACE_H_
#define STEADYSTATE_SERVER_MODEL_WORKSPACE_H_

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "absl/time/time.h"
#include "kernels/linear/linear.h"
#include "kernels/thread_pool.h"
#include "server/model/scratch_plan.h"

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

// Time spent in the parts of Forward and Head since the last TakePhases.
struct PhaseTimes {
  absl::Duration projection;  // matrix products
  absl::Duration recurrence;  // mixers, without their projections
  absl::Duration other;       // norms, activations, embedding
};

enum class Phase : uint8_t { kOther, kProjection, kRecurrence };

// Adds up the time spent in each phase: one clock reading per change.
// Thread-compatible.
class PhaseTimer {
 public:
  // Begins to measure; what passed since the last Enter does not count.
  void Start() {
    since_ = std::chrono::steady_clock::now();
    current_ = Phase::kOther;
  }

  // Enters `next` and returns the phase that was left.
  Phase Enter(Phase next) {
    const auto now = std::chrono::steady_clock::now();
    spent_[static_cast<size_t>(current_)] += now - since_;
    since_ = now;
    return std::exchange(current_, next);
  }

  // What was measured since the last Take.
  PhaseTimes Take() {
    const PhaseTimes times = {.projection = Spent(Phase::kProjection),
                              .recurrence = Spent(Phase::kRecurrence),
                              .other = Spent(Phase::kOther)};
    spent_ = {};
    return times;
  }

 private:
  absl::Duration Spent(Phase phase) const {
    return absl::FromChrono(spent_[static_cast<size_t>(phase)]);
  }

  std::chrono::steady_clock::time_point since_;
  Phase current_ = Phase::kOther;
  std::array<std::chrono::nanoseconds, 3> spent_{};
};

// Counts the length of a scope towards a phase.
class PhaseScope {
 public:
  PhaseScope(PhaseTimer& timer, Phase phase)
      : timer_(timer), outer_(timer.Enter(phase)) {}
  ~PhaseScope() { timer_.Enter(outer_); }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  PhaseTimer& timer_;
  const Phase outer_;
};

// Everything a compute thread needs beside the model: its worker threads and
// scratch memory for batches of up to max_rows rows. Allocates when it is made,
// and a little when a thread first meets a shape of matrix product; not
// afterwards. Model::MakeWorkspace makes it. Thread-compatible.
class Workspace {
 public:
  // The buffers of one forward pass. Confined to the compute thread, but for
  // the tasks that it hands to the pool.
  struct Buffers {
    Buffers(size_t hidden_size, const ScratchSize& sizes, size_t rows,
            ThreadPool& threads)
        : pool(threads),
          max_rows(rows),
          worker_floats(sizes.worker_floats),
          residual(rows * hidden_size),
          normed(rows * hidden_size),
          mixed(rows * hidden_size),
          scratch(rows * sizes.row_floats),
          workers(threads.size() * worker_floats),
          carry(rows * sizes.carry_floats) {}

    ThreadPool& pool;
    const size_t max_rows;
    const size_t worker_floats;
    LinearScratch linear;
    RowClass row_class = RowClass::kDecode;  // of the rows of this forward pass
    PhaseTimer phases;
    AlignedFloats residual;  // f32[max_rows, D]
    AlignedFloats normed;    // f32[max_rows, D]
    AlignedFloats mixed;     // f32[max_rows, D]: what a mixer or MLP puts out
    AlignedFloats scratch;   // f32[max_rows, row_floats]: see OfRows
    AlignedFloats workers;   // f32[threads, worker_floats]: see OfWorker
    // f32[max_rows, carry_floats]: what a layer leaves for later layers of the
    // same token.
    AlignedFloats carry;

    // The scratch memory of a batch. REQUIRES: rows <= max_rows.
    RowScratch OfRows(size_t rows) const { return {scratch.data(), rows}; }

    // That of one worker.
    WorkerScratch OfWorker(size_t worker) const {
      return WorkerScratch(workers.data() + worker * worker_floats);
    }

    // Linear::Run, counted as projection.
    void Project(const Linear& linear_map, size_t rows, const float* x,
                 size_t x_stride, float* y, size_t y_stride) {
      const PhaseScope scope(phases, Phase::kProjection);
      linear_map.Run(rows, x, x_stride, y, y_stride, pool, linear, row_class);
    }

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
      const size_t share = (rows + 4 * pool.size() - 1) / (4 * pool.size());
      pool.ParallelFor((rows + share - 1) / share,
                       [&](size_t i, size_t worker) {
                         const size_t end = std::min(rows, (i + 1) * share);
                         for (size_t row = i * share; row < end; ++row)
                           each(row, worker);
                       });
    }
  };

  // REQUIRES: max_rows >= 1. The pool outlives the workspace.
  Workspace(size_t hidden_size, const ScratchSize& sizes, size_t max_rows,
            ThreadPool& pool)
      : buffers_(hidden_size, sizes, max_rows, pool) {}

  size_t max_rows() const { return buffers_.max_rows; }
  PhaseTimes TakePhases() { return buffers_.phases.Take(); }

  // f32[max_rows, D]: the residual stream of a pass that goes layer by layer.
  // Forward uses it, too.
  float* residual() { return buffers_.residual.data(); }

  // For server/model only: the buffers of the forward pass.
  Buffers& buffers() { return buffers_; }

 private:
  Buffers buffers_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_WORKSPACE_H_
