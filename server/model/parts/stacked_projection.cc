#include "server/model/parts/stacked_projection.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/base/status_macros.h"

namespace steadystate {

absl::StatusOr<size_t> ProjectionStack::Add(absl::string_view name, size_t rows,
                                            Bias bias) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      const TypedData data,
      weights_.Take(absl::StrCat(name, ".weight"), {rows, in_}));
  parts_.push_back({data, rows});
  const size_t first = columns_;
  columns_ += rows;
  bias_.resize(columns_, 0.0f);
  if (bias == Bias::kYes) {
    biased_ = true;
    STEADYSTATE_ASSIGN_OR_RETURN(
        const std::vector<float> values,
        weights_.TakeFloats(absl::StrCat(name, ".bias"), {rows}));
    std::copy(values.begin(), values.end(),
              bias_.begin() + static_cast<ptrdiff_t>(first));
  }
  return first;
}

absl::StatusOr<std::unique_ptr<Linear>> ProjectionStack::Pack(
    LinearFactory& linears) const {
  return linears.Make(
      in_, parts_,
      biased_ ? std::span<const float>(bias_) : std::span<const float>());
}

absl::StatusOr<std::unique_ptr<Linear>> MakeProjection(
    const WeightScope& weights, absl::string_view name, size_t in, size_t out,
    LinearFactory& linears, Bias bias) {
  ProjectionStack stack(weights, in);
  STEADYSTATE_RETURN_IF_ERROR(stack.Add(name, out, bias).status());
  return stack.Pack(linears);
}

}  // namespace steadystate
