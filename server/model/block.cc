#include "server/model/block.h"

#include <algorithm>

#include "kernels/pointwise/activation.h"
#include "server/base/status_macros.h"
#include "server/model/mixers/registry.h"
#include "server/model/mixers/softmax_attention.h"
#include "server/model/mlp.h"
#include "server/model/workspace.h"

namespace steadystate {

absl::StatusOr<std::unique_ptr<Mixer>> MakeTokenMixer(
    const ModelConfig& config, const MixerBuilder& builder) {
  const auto& softmax = config.softmax[builder.layer];
  if (softmax.has_value()) return MakeSoftmaxAttention(*softmax, builder);
  return config.family->make(builder);
}

absl::StatusOr<std::vector<ResidualStep>> MakeMixerAndMlp(
    const ModelConfig& config, const MixerBuilder& builder) {
  const size_t D = config.hidden_size;
  std::vector<ResidualStep> steps(2);
  STEADYSTATE_ASSIGN_OR_RETURN(
      steps[0].norm, Norm::Make(config.norm, builder.weights, "attn_norm", D));
  STEADYSTATE_ASSIGN_OR_RETURN(
      steps[1].norm, Norm::Make(config.norm, builder.weights, "mlp_norm", D));
  STEADYSTATE_ASSIGN_OR_RETURN(steps[0].mixer,
                               MakeTokenMixer(config, builder.Child("attn.")));
  STEADYSTATE_ASSIGN_OR_RETURN(
      steps[1].mixer, Mlp::Make(config.intermediate_size, config.mlp_activation,
                                builder.Child("mlp.")));
  return steps;
}

absl::StatusOr<Block> Block::Make(const ModelConfig& config,
                                  const MixerBuilder& builder) {
  const auto make_layer = config.family->make_layer != nullptr
                              ? config.family->make_layer
                              : MakeMixerAndMlp;
  STEADYSTATE_ASSIGN_OR_RETURN(std::vector<ResidualStep> steps,
                               make_layer(config, builder));
  return Block(std::move(steps));
}

void Block::Forward(std::span<const Segment> segments, size_t rows,
                    float* residual, Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  float* normed = buffers.normed.data();
  float* mixed = buffers.mixed.data();
  const size_t D = steps_.front().norm.size();
  for (size_t i = 0; i < steps_.size(); ++i) {
    const ResidualStep& step = steps_[i];
    buffers.ForRows(rows, 2 * D, [&](size_t row, size_t) {
      if (i > 0) AddTo(D, mixed + row * D, residual + row * D);
      step.norm.Apply(residual + row * D, normed + row * D);
    });
    step.mixer->Forward(segments, rows, normed, mixed, workspace);
  }
  buffers.ForRows(rows, D, [&](size_t row, size_t) {
    AddTo(D, mixed + row * D, residual + row * D);
  });
}

// A later step with a state would have to absorb what the first one puts out
// for the whole sequence.
bool Block::bidirectional() const {
  return steps_.front().mixer->bidirectional() &&
         std::all_of(
             steps_.begin() + 1, steps_.end(),
             [](const ResidualStep& step) { return step.mixer->per_token(); });
}

void Block::Absorb(std::span<const Segment> segments, size_t rows,
                   const float* residual, Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  float* normed = buffers.normed.data();
  const ResidualStep& first = steps_.front();
  const size_t D = first.norm.size();
  buffers.ForRows(rows, D, [&](size_t row, size_t) {
    first.norm.Apply(residual + row * D, normed + row * D);
  });
  first.mixer->Forward(segments, rows, normed, buffers.mixed.data(), workspace);
}

}  // namespace steadystate
