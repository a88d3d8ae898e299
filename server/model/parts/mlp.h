#ifndef STEADYSTATE_SERVER_MODEL_PARTS_MLP_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_MLP_H_

#include <cstddef>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/linear/linear.h"
#include "kernels/pointwise/activation.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/parts/stacked_projection.h"

namespace steadystate {

// What a checkpoint calls the matrices of an MLP, without ".weight", and
// whether each has a bias.
struct MlpNames {
  absl::string_view gate = "gate_proj";
  absl::string_view up = "up_proj";
  absl::string_view down = "down_proj";
  Bias bias = Bias::kNone;
};

// y = W_down (act(W_gate x) * (W_up x)), plus biases, for each token by itself:
// no state.
class Mlp final : public Mixer {
 public:
  // Pulls the three matrices; also the older layout that has no up_proj and
  // both stacked in gate_proj, [2 I, D].
  static absl::StatusOr<std::unique_ptr<Mixer>> Make(
      size_t intermediate_size, Activation activation,
      const MixerBuilder& builder, const MlpNames& names = {});

  void Forward(std::span<const Segment> segments, size_t rows, const float* x,
               float* y, Workspace& workspace) const override;
  bool per_token() const override { return true; }

 private:
  Activation activation_ = Activation::kSilu;
  std::unique_ptr<Linear> gate_up_;  // D -> 2 I, gate first
  std::unique_ptr<Linear> down_;     // I -> D
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_MLP_H_
