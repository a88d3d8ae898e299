#ifndef STEADYSTATE_SERVER_MODEL_MLP_H_
#define STEADYSTATE_SERVER_MODEL_MLP_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/linear/linear.h"
#include "kernels/pointwise/activation.h"
#include "server/model/weight_store.h"
#include "server/model/workspace.h"

namespace steadystate {

// y = W_down (act(W_gate x) * (W_up x)). Immutable; thread-safe.
class Mlp {
 public:
  // Pulls gate_proj, up_proj and down_proj; also the older layout that has no
  // up_proj and both stacked in gate_proj, [2 I, D].
  static absl::StatusOr<Mlp> Make(size_t hidden_size, size_t intermediate_size,
                                  Activation activation,
                                  const WeightScope& weights,
                                  LinearFactory& linears, ScratchSize& scratch);

  //   x  f32[rows, D]  in      y  f32[rows, D]  overwritten
  void Forward(size_t rows, const float* x, float* y,
               Workspace::Buffers& buffers) const;

 private:
  Activation activation_ = Activation::kSilu;
  std::unique_ptr<Linear> gate_up_;  // D -> 2 I, gate first
  std::unique_ptr<Linear> down_;     // I -> D
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_MLP_H_
