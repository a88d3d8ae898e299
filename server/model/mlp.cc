#include "server/model/mlp.h"

#include <vector>

#include "server/base/status_macros.h"

namespace steadystate {

absl::StatusOr<Mlp> Mlp::Make(size_t hidden_size, size_t intermediate_size,
                              Activation activation, const WeightScope& weights,
                              LinearFactory& linears, ScratchSize& scratch) {
  const size_t D = hidden_size;
  const size_t I = intermediate_size;
  std::vector<WeightRows> parts;
  const auto add = [&](absl::string_view name, size_t rows) -> absl::Status {
    STEADYSTATE_ASSIGN_OR_RETURN(const TypedData data,
                                 weights.Take(name, {rows, D}));
    parts.push_back({data, rows});
    return absl::OkStatus();
  };
  const std::vector<size_t> stacked = {2 * I, D};
  if (!weights.Has("up_proj.weight") &&
      weights.ShapeOf("gate_proj.weight") == stacked) {
    STEADYSTATE_RETURN_IF_ERROR(add("gate_proj.weight", 2 * I));
  } else {
    STEADYSTATE_RETURN_IF_ERROR(add("gate_proj.weight", I));
    STEADYSTATE_RETURN_IF_ERROR(add("up_proj.weight", I));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(const TypedData down,
                               weights.Take("down_proj.weight", {D, I}));
  Mlp mlp;
  mlp.activation_ = activation;
  STEADYSTATE_ASSIGN_OR_RETURN(mlp.gate_up_, linears.Make(D, parts));
  STEADYSTATE_ASSIGN_OR_RETURN(mlp.down_, linears.Make(I, {{{down, D}}}));
  scratch.Need(2 * I, 0);
  return mlp;
}

void Mlp::Forward(size_t rows, const float* x, float* y,
                  Workspace::Buffers& buffers) const {
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
