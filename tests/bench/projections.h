#ifndef STEADYSTATE_TESTS_BENCH_PROJECTIONS_H_
#define STEADYSTATE_TESTS_BENCH_PROJECTIONS_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/dtype.h"
#include "kernels/linear/linear.h"
#include "kernels/thread_pool.h"

namespace steadystate::bench {

// Projections of one shape, more of them than caches hold, so that weights
// stream as they do in a model.
class ProjectionStack {
 public:
  // As many as take up `bytes`, at least one. Errors as LinearFactory's.
  static absl::StatusOr<std::unique_ptr<ProjectionStack>> Create(DType dtype,
                                                                 size_t in,
                                                                 size_t out,
                                                                 size_t bytes);

  size_t count() const { return linears_.size(); }
  double weight_bytes() const { return weight_bytes_; }

  // Multiplies `rows` rows by each of them; returns seconds.
  double Time(size_t rows, RowClass row_class, ThreadPool& pool);

 private:
  size_t in_ = 0;
  size_t out_ = 0;
  double weight_bytes_ = 0;  // of all
  std::vector<std::unique_ptr<Linear>> linears_;
  LinearScratch scratch_;
  std::vector<float> x_;
  std::vector<float> y_;
};

}  // namespace steadystate::bench

#endif  // STEADYSTATE_TESTS_BENCH_PROJECTIONS_H_
