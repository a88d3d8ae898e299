#include "tests/bench/projections.h"

#include <algorithm>
#include <utility>

#include "server/base/status_macros.h"
#include "tests/bench/random_bits.h"
#include "tests/bench/stopwatch.h"

namespace steadystate::bench {

absl::StatusOr<std::unique_ptr<ProjectionStack>> ProjectionStack::Create(
    DType dtype, size_t in, size_t out, size_t bytes) {
  STEADYSTATE_ASSIGN_OR_RETURN(const auto factory,
                               LinearFactory::Create(dtype));
  auto stack = std::make_unique<ProjectionStack>();
  stack->in_ = in;
  stack->out_ = out;
  std::vector<float> weights(in * out);
  for (size_t i = 0; i < weights.size(); ++i) {
    weights[i] = static_cast<float>(RandomBits(1, i) % 2001) * 1e-5f - 1e-2f;
  }
  const WeightRows part = {{weights.data(), DType::kF32}, out};
  const double each = static_cast<double>(in * out) * BytesPerWeight(dtype);
  const size_t count = std::max<size_t>(
      static_cast<size_t>(static_cast<double>(bytes) / each), 1);
  for (size_t i = 0; i < count; ++i) {
    STEADYSTATE_ASSIGN_OR_RETURN(auto linear, factory->Make(in, {&part, 1}));
    stack->linears_.push_back(std::move(linear));
  }
  stack->weight_bytes_ = static_cast<double>(count) * each;
  return stack;
}

double ProjectionStack::Time(size_t rows, RowClass row_class,
                             ThreadPool& pool) {
  x_.resize(rows * in_, 0.5f);
  y_.resize(rows * out_);
  return TimeOnce([&] {
    for (const std::unique_ptr<Linear>& linear : linears_) {
      linear->Run(rows, x_.data(), in_, y_.data(), out_, pool, scratch_,
                  row_class);
    }
  });
}

}  // namespace steadystate::bench
