#include "server/model/parts/channel_mixing.h"

#include "server/base/status_macros.h"
#include "server/model/parts/stacked_projection.h"
#include "server/model/workspace.h"

namespace steadystate {

absl::StatusOr<std::unique_ptr<Mixer>> ChannelMixing::Make(
    size_t width, Activation activation, const MixerBuilder& builder,
    const ChannelMixingNames& names) {
  const size_t D = builder.hidden_size;
  const WeightScope& weights = builder.weights;
  auto mixing = std::make_unique<ChannelMixing>();
  mixing->D_ = D;
  mixing->activation_ = activation;
  STEADYSTATE_ASSIGN_OR_RETURN(mixing->shift_,
                               TokenShift::Make(builder, "ffn_shift"));
  STEADYSTATE_ASSIGN_OR_RETURN(mixing->key_share_,
                               weights.TakeFloats(names.key_share, {D}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      mixing->key_,
      MakeProjection(weights, names.key, D, width, builder.linears));
  STEADYSTATE_ASSIGN_OR_RETURN(
      mixing->value_,
      MakeProjection(weights, names.value, width, D, builder.linears));
  if (!names.receptance.empty()) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        mixing->receptance_share_,
        weights.TakeFloats(names.receptance_share, {D}));
    STEADYSTATE_ASSIGN_OR_RETURN(
        mixing->receptance_,
        MakeProjection(weights, names.receptance, D, D, builder.linears));
  }
  builder.scratch.Need(3 * D + width, 0);
  return mixing;
}

void ChannelMixing::Forward(std::span<const Segment> segments, size_t rows,
                            const float* x, float* y,
                            Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  const size_t I = key_->out();
  float* delta = buffers.scratch.data();  // f32[rows, D]
  float* mixed = delta + rows * D_;       // f32[rows, D]
  float* gate = mixed + rows * D_;        // f32[rows, D]
  float* key = gate + rows * D_;          // f32[rows, width]

  shift_.Run(segments, x, delta, buffers);
  MixInShifts(rows, x, delta, key_share_, mixed, buffers);
  buffers.Project(*key_, rows, mixed, D_, key, I);
  buffers.ForRows(rows, I, [&](size_t row, size_t) {
    Activate(activation_, I, key + row * I, key + row * I);
  });
  buffers.Project(*value_, rows, key, I, y, D_);
  if (receptance_ == nullptr) return;
  MixInShifts(rows, x, delta, receptance_share_, mixed, buffers);
  buffers.Project(*receptance_, rows, mixed, D_, gate, D_);
  buffers.ForRows(rows, D_, [&](size_t row, size_t) {
    float* to = y + row * D_;
    ActivateAndMultiply(Activation::kSigmoid, D_, gate + row * D_, to, to);
  });
}

}  // namespace steadystate
