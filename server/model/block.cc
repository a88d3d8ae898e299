#include "server/model/block.h"

#include <utility>

#include "kernels/pointwise/norm.h"
#include "server/base/status_macros.h"
#include "server/model/mixers/registry.h"
#include "server/model/mixers/softmax_attention.h"

namespace steadystate {
namespace {

absl::StatusOr<std::unique_ptr<Mixer>> MakeMixer(const ModelConfig& config,
                                                 const MixerBuilder& builder) {
  const auto& softmax = config.softmax[builder.layer];
  if (softmax.has_value()) return MakeSoftmaxAttention(*softmax, builder);
  return config.family->make(builder);
}

}  // namespace

absl::StatusOr<Block> Block::Make(const ModelConfig& config,
                                  const MixerBuilder& builder) {
  const size_t D = config.hidden_size;
  STEADYSTATE_ASSIGN_OR_RETURN(
      std::vector<float> mixer_norm,
      builder.weights.TakeFloats("attn_norm.weight", {D}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      std::vector<float> mlp_norm,
      builder.weights.TakeFloats("mlp_norm.weight", {D}));
  MixerBuilder mixer_builder = builder;
  mixer_builder.weights = builder.weights.Child("attn.");
  STEADYSTATE_ASSIGN_OR_RETURN(std::unique_ptr<Mixer> mixer,
                               MakeMixer(config, mixer_builder));
  STEADYSTATE_ASSIGN_OR_RETURN(
      Mlp mlp, Mlp::Make(D, config.intermediate_size, config.mlp_activation,
                         builder.weights.Child("mlp."), builder.linears,
                         builder.scratch));
  Block block(std::move(mixer), std::move(mlp));
  block.eps_ = config.norm_eps;
  block.mixer_norm_ = std::move(mixer_norm);
  block.mlp_norm_ = std::move(mlp_norm);
  return block;
}

void Block::Forward(std::span<const Segment> segments, size_t rows,
                    Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  const size_t D = mixer_norm_.size();
  float* residual = buffers.residual.data();
  float* normed = buffers.normed.data();
  float* mixed = buffers.mixed.data();
  buffers.ForRows(rows, D, [&](size_t row, size_t) {
    RmsNorm(D, residual + row * D, mixer_norm_.data(), eps_, normed + row * D);
  });
  mixer_->Forward(segments, rows, normed, mixed, workspace);
  buffers.ForRows(rows, 2 * D, [&](size_t row, size_t) {
    AddTo(D, mixed + row * D, residual + row * D);
    RmsNorm(D, residual + row * D, mlp_norm_.data(), eps_, normed + row * D);
  });
  mlp_.Forward(rows, normed, mixed, buffers);
  buffers.ForRows(rows, D, [&](size_t row, size_t) {
    AddTo(D, mixed + row * D, residual + row * D);
  });
}

}  // namespace steadystate
