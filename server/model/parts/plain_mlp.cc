#include "server/model/parts/plain_mlp.h"

#include "server/base/status_macros.h"
#include "server/model/parts/projection.h"
#include "server/model/workspace.h"

namespace steadystate {

absl::StatusOr<std::unique_ptr<Mixer>> PlainMlp::Make(
    size_t intermediate_size, Activation activation, Bias bias,
    const MixerBuilder& builder) {
  const size_t D = builder.hidden_size;
  const size_t I = intermediate_size;
  auto mlp = std::make_unique<PlainMlp>();
  mlp->activation_ = activation;
  STEADYSTATE_ASSIGN_OR_RETURN(
      mlp->up_,
      MakeProjection(builder.weights, "up_proj", D, I, builder.linears, bias));
  STEADYSTATE_ASSIGN_OR_RETURN(
      mlp->down_, MakeProjection(builder.weights, "down_proj", I, D,
                                 builder.linears, bias));
  mlp->rows_ = RowScratchPlan(builder.scratch).Add(I);
  return mlp;
}

void PlainMlp::Forward(std::span<const Segment>, size_t rows, const float* x,
                       float* y, Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  const size_t D = up_->in();
  const size_t I = up_->out();
  float* const hidden = buffers.OfRows(rows)[rows_];
  buffers.Project(*up_, rows, x, D, hidden, I);
  buffers.ForRows(rows, I, [&](size_t row, size_t) {
    Activate(activation_, I, hidden + row * I, hidden + row * I);
  });
  buffers.Project(*down_, rows, hidden, I, y, D);
}

}  // namespace steadystate
