#include "server/model/parts/mlp.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/status_macros.h"
#include "server/model/workspace.h"

namespace steadystate {

absl::StatusOr<std::unique_ptr<Mixer>> Mlp::Make(size_t intermediate_size,
                                                 Activation activation,
                                                 const MixerBuilder& builder,
                                                 const MlpNames& names) {
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
  STEADYSTATE_ASSIGN_OR_RETURN(mlp->gate_up_, stack.Pack(builder.linears));
  STEADYSTATE_ASSIGN_OR_RETURN(
      mlp->down_,
      MakeProjection(weights, names.down, I, D, builder.linears, names.bias));
  builder.scratch.Need(2 * I, 0);
  return mlp;
}

void Mlp::Forward(std::span<const Segment>, size_t rows, const float* x,
                  float* y, Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  const size_t D = gate_up_->in();
  const size_t I = down_->in();
  float* gate_up = buffers.scratch.data();  // f32[rows, 2 I]
  buffers.Project(*gate_up_, rows, x, D, gate_up, 2 * I);
  buffers.ForRows(rows, 2 * I, [&](size_t row, size_t) {
    float* gate = gate_up + row * 2 * I;
    ActivateAndMultiply(activation_, I, gate, gate + I, gate);
  });
  buffers.Project(*down_, rows, gate_up, 2 * I, y, D);
}

}  // namespace steadystate
