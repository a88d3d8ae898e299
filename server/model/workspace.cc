#include "server/model/workspace.h"

namespace steadystate {

Workspace::Buffers::Buffers(size_t hidden_size, const ScratchSize& sizes,
                            size_t rows, ThreadPool& threads)
    : pool(threads),
      max_rows(rows),
      // Workers write at the same time: whole cache lines for each.
      worker_floats((sizes.worker_floats + 15) / 16 * 16),
      residual(rows * hidden_size),
      normed(rows * hidden_size),
      mixed(rows * hidden_size),
      scratch(rows * sizes.row_floats),
      workers(threads.size() * worker_floats),
      carry(rows * sizes.carry_floats) {}

void Workspace::Buffers::Project(const Linear& linear_map, size_t rows,
                                 const float* x, size_t x_stride, float* y,
                                 size_t y_stride) {
  const PhaseScope scope(phases, Phase::kProjection);
  linear_map.Run(rows, x, x_stride, y, y_stride, pool, linear, row_class);
}

}  // namespace steadystate
