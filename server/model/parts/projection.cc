#include "server/model/parts/projection.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/status_macros.h"
#include "server/model/parts/wide_weights.h"
#include "server/model/workspace.h"

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

absl::StatusOr<ProjectionStack::Stored> ProjectionStack::Take(
    absl::string_view name, size_t rows, Bias bias) {
  Stored stored;
  STEADYSTATE_ASSIGN_OR_RETURN(
      stored.matrix, weights_.Take(absl::StrCat(name, ".weight"), {rows, in_}));
  stored.bias.resize(rows);
  stored.wide = IsWide(name, rows);
  if (bias == Bias::kNone) return stored;
  biased_ = true;
  STEADYSTATE_ASSIGN_OR_RETURN(
      stored.bias, weights_.TakeFloats(absl::StrCat(name, ".bias"), {rows}));
  return stored;
}

void ProjectionStack::AddRows(const Stored& from, size_t first, size_t rows) {
  parts_.push_back({From(from.matrix, first * in_), rows, from.wide});
  const auto bias = from.bias.begin() + static_cast<ptrdiff_t>(first);
  bias_.insert(bias_.end(), bias, bias + static_cast<ptrdiff_t>(rows));
}

absl::StatusOr<size_t> ProjectionStack::AddRepeated(absl::string_view name,
                                                    RepeatedRows rows,
                                                    Bias bias) {
  STEADYSTATE_ASSIGN_OR_RETURN(const Stored stored,
                               Take(name, rows.heads * rows.rows, bias));
  // Each row once: as they lie there.
  if (rows.times == 1) rows = {1, rows.heads * rows.rows, 1};
  for (size_t head = 0; head < rows.heads * rows.times; ++head) {
    AddRows(stored, head / rows.times * rows.rows, rows.rows);
  }
  return std::exchange(columns_, bias_.size());
}

absl::StatusOr<size_t> ProjectionStack::AddOfEach(absl::string_view name,
                                                  const RowsOfEach& rows,
                                                  Bias bias) {
  STEADYSTATE_ASSIGN_OR_RETURN(Stored stored,
                               Take(name, rows.blocks * rows.block, bias));
  if (!rows.part.empty()) {
    stored.wide =
        IsWide(absl::StrCat(name, ".", rows.part), rows.blocks * rows.rows);
  }
  for (size_t block = 0; block < rows.blocks; ++block) {
    AddRows(stored, block * rows.block + rows.first, rows.rows);
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

void LowRank::Expand(size_t rows, const float* fused, size_t stride, float* y,
                     size_t y_stride, Workspace::Buffers& buffers) const {
  buffers.Project(*up, rows, fused + column, stride, y, y_stride);
}

absl::StatusOr<LowRank> TakeLowRank(const MixerBuilder& from,
                                    absl::string_view down,
                                    absl::string_view up, RepeatedRows out,
                                    Bias bias, ProjectionStack& stack) {
  LowRank taken;
  STEADYSTATE_ASSIGN_OR_RETURN(
      taken.rank,
      from.weights.OpenSize(absl::StrCat(down, ".weight"),
                            {WeightScope::kOpen, from.hidden_size}));
  STEADYSTATE_ASSIGN_OR_RETURN(taken.column, stack.Add(down, taken.rank));
  ProjectionStack up_stack(from.weights, taken.rank);
  STEADYSTATE_RETURN_IF_ERROR(up_stack.AddRepeated(up, out, bias).status());
  STEADYSTATE_ASSIGN_OR_RETURN(taken.up, up_stack.Pack(from.linears));
  return taken;
}

void ActivateGated(Activation activation, float limit, size_t n,
                   const float* gate, const float* up, float* y) {
  if (limit == 0) {
    ActivateAndMultiply(activation, n, gate, up, y);
    return;
  }
  Activate(activation, n, gate, y);
  for (size_t i = 0; i < n; ++i) {
    y[i] = std::min(y[i], limit) * std::clamp(up[i], -limit, limit);
  }
}

absl::StatusOr<std::unique_ptr<Mixer>> Mlp::Make(size_t intermediate_size,
                                                 Activation activation,
                                                 const MixerBuilder& builder,
                                                 const MlpNames& names,
                                                 const MlpScale& scale) {
  const size_t D = builder.hidden_size;
  const size_t I = intermediate_size;
  const WeightScope& weights = builder.weights;
  ProjectionStack stack(weights, D);
  const std::vector<size_t> stacked = {2 * I, D};
  if (!weights.Has(absl::StrCat(names.up, ".weight")) &&
      weights.ShapeOf(absl::StrCat(names.gate, ".weight")) == stacked) {
    STEADYSTATE_RETURN_IF_ERROR(
        stack.Add(names.gate, 2 * I, names.bias).status());
  } else {
    STEADYSTATE_RETURN_IF_ERROR(stack.Add(names.gate, I, names.bias).status());
    STEADYSTATE_RETURN_IF_ERROR(stack.Add(names.up, I, names.bias).status());
  }
  auto mlp = std::make_unique<Mlp>();
  mlp->activation_ = activation;
  mlp->scale_ = scale;
  STEADYSTATE_ASSIGN_OR_RETURN(mlp->gate_up_, stack.Pack(builder.linears));
  STEADYSTATE_ASSIGN_OR_RETURN(
      mlp->down_,
      MakeProjection(weights, names.down, I, D, builder.linears, names.bias));
  mlp->gate_up_rows_ = RowScratchPlan(builder.scratch).Add(2 * I);
  return mlp;
}

void Mlp::Forward(std::span<const Segment>, size_t rows, const float* x,
                  float* y, Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  const size_t D = gate_up_->in();
  const size_t I = down_->in();
  float* gate_up = buffers.OfRows(rows)[gate_up_rows_];
  buffers.Project(*gate_up_, rows, x, D, gate_up, 2 * I);
  buffers.ForRows(rows, 2 * I, [&](size_t row, size_t) {
    float* gate = gate_up + row * 2 * I;
    Scale(scale_.gate, I, gate);
    ActivateGated(activation_, scale_.limit, I, gate, gate + I, gate);
  });
  buffers.Project(*down_, rows, gate_up, 2 * I, y, D);
  if (scale_.down == 1) return;
  buffers.ForRows(
      rows, D, [&](size_t row, size_t) { Scale(scale_.down, D, y + row * D); });
}

}  // namespace steadystate
