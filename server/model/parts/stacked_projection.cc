#include "server/model/parts/stacked_projection.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

// Elements from `first` on.
TypedData From(TypedData data, size_t first) {
  const auto* bytes = static_cast<const std::byte*>(data.data);
  return {bytes + first * SizeOf(data.dtype), data.dtype};
}

}  // namespace

absl::StatusOr<size_t> ProjectionStack::Add(absl::string_view name, size_t rows,
                                            Bias bias) {
  return AddRepeated(name, {1, rows, 1}, bias);
}

absl::StatusOr<size_t> ProjectionStack::AddRepeated(absl::string_view name,
                                                    RepeatedRows rows,
                                                    Bias bias) {
  const size_t stored = rows.heads * rows.rows;
  STEADYSTATE_ASSIGN_OR_RETURN(
      const TypedData data,
      weights_.Take(absl::StrCat(name, ".weight"), {stored, in_}));
  std::vector<float> values(stored, 0.0f);
  if (bias == Bias::kYes) {
    biased_ = true;
    STEADYSTATE_ASSIGN_OR_RETURN(
        values, weights_.TakeFloats(absl::StrCat(name, ".bias"), {stored}));
  }
  // Each row once: as they lie there.
  if (rows.times == 1) rows = {1, stored, 1};
  for (size_t block = 0; block < rows.heads * rows.times; ++block) {
    const size_t row = block / rows.times * rows.rows;
    const auto from = values.begin() + static_cast<ptrdiff_t>(row);
    parts_.push_back({From(data, row * in_), rows.rows});
    bias_.insert(bias_.end(), from, from + static_cast<ptrdiff_t>(rows.rows));
  }
  return std::exchange(columns_, bias_.size());
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
