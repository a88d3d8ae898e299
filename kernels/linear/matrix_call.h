#ifndef STEADYSTATE_KERNELS_LINEAR_MATRIX_CALL_H_
#define STEADYSTATE_KERNELS_LINEAR_MATRIX_CALL_H_

#include <algorithm>
#include <cstddef>

#include "kernels/thread_pool.h"

namespace steadystate {

// The matrices of y = x W^T + b.
struct MatrixCall {
  size_t rows;
  const float* x;  // f32[rows, in; x_stride]
  size_t x_stride;
  const float* bias;  // f32[out] or null
  float* y;           // f32[rows, out; y_stride]  overwritten
  size_t y_stride;
};

// Some rows of a call.
struct RowRange {
  size_t first;
  size_t count;
};

// Shares rows that are readied among the threads, if they are many elements:
// ready(r) for each row r.
template <typename Ready>
void ForEachRow(size_t rows, size_t in, ThreadPool& pool, const Ready& ready) {
  // About the work that waking the threads costs.
  constexpr size_t kParallelElements = size_t{1} << 15;
  constexpr size_t kRowsPerTask = 8;
  if (rows * in < kParallelElements) {
    for (size_t r = 0; r < rows; ++r) ready(r);
    return;
  }
  const size_t tasks = (rows + kRowsPerTask - 1) / kRowsPerTask;
  pool.ParallelFor(tasks, [&](size_t task, size_t) {
    const size_t end = std::min(rows, (task + 1) * kRowsPerTask);
    for (size_t r = task * kRowsPerTask; r < end; ++r) ready(r);
  });
}

// Shares the blocks of columns of a matrix of `bytes` bytes among the threads;
// where they are few, the rows too: run(block, range, worker) for each block
// and each of some ranges that are all rows together.
template <typename Run>
void ForEachBlock(size_t blocks, size_t bytes, size_t rows, ThreadPool& pool,
                  const Run& run) {
  // About so much of W is one task, unless there were too few for all threads.
  constexpr size_t kTaskBytes = size_t{128} << 10;
  constexpr size_t kTasksPerThread = 4;
  // Rows with which a task is worth its while.
  constexpr size_t kFewestBandRows = 8;
  const size_t wanted = pool.size() == 1 ? 1 : kTasksPerThread * pool.size();
  const size_t parts =
      std::clamp<size_t>(bytes / kTaskBytes, std::min(wanted, blocks), blocks);
  const size_t most_bands = std::max<size_t>(rows / kFewestBandRows, 1);
  const size_t bands = std::clamp<size_t>(wanted / parts, 1, most_bands);
  pool.ParallelFor(parts * bands, [&](size_t task, size_t worker) {
    const size_t part = task / bands;
    const size_t band = task % bands;
    const size_t first = band * rows / bands;
    const RowRange range = {first, (band + 1) * rows / bands - first};
    const size_t end = (part + 1) * blocks / parts;
    for (size_t i = part * blocks / parts; i < end; ++i) run(i, range, worker);
  });
}

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_MATRIX_CALL_H_
