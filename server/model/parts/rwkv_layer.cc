#include "server/model/parts/rwkv_layer.h"

#include <algorithm>
#include <optional>

#include "server/base/status_macros.h"
#include "server/model/parts/projection.h"
#include "server/model/workspace.h"

namespace steadystate {

absl::StatusOr<TokenShift> TokenShift::Make(const MixerBuilder& builder,
                                            absl::string_view slot) {
  TokenShift shift;
  shift.D_ = builder.hidden_size;
  STEADYSTATE_ASSIGN_OR_RETURN(
      shift.last_, builder.state.AddFixed(builder.layer, slot, {shift.D_}));
  return shift;
}

void TokenShift::Run(std::span<const Segment> segments, const float* x,
                     float* delta, Workspace::Buffers& buffers) const {
  buffers.pool.ParallelFor(segments.size(), [&](size_t i, size_t) {
    const Segment& segment = segments[i];
    float* last = last_.In(segment.state);
    const float* before = last;
    for (size_t t = 0; t < segment.rows; ++t) {
      const size_t at = (segment.first_row + t) * D_;
      for (size_t j = 0; j < D_; ++j) delta[at + j] = before[j] - x[at + j];
      before = x + at;
    }
    std::copy_n(before, D_, last);
  });
}

void MixInShift(size_t n, const float* x, const float* delta,
                const float* share, float* y) {
  for (size_t i = 0; i < n; ++i) y[i] = x[i] + delta[i] * share[i];
}

void MixInShifts(size_t rows, const float* x, const float* delta,
                 std::span<const float> share, float* y,
                 Workspace::Buffers& buffers) {
  const size_t D = share.size();
  buffers.ForRows(rows, D, [&](size_t row, size_t) {
    const size_t at = row * D;
    MixInShift(D, x + at, delta + at, share.data(), y + at);
  });
}

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
  RowScratchPlan plan(builder.scratch);
  mixing->at_ = {.delta = plan.Add(D),
                 .mixed = plan.Add(D),
                 .gate = plan.Add(D),
                 .key = plan.Add(width)};
  return mixing;
}

void ChannelMixing::Forward(std::span<const Segment> segments, size_t rows,
                            const float* x, float* y,
                            Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  const size_t I = key_->out();
  const RowScratch scratch = buffers.OfRows(rows);
  float* delta = scratch[at_.delta];
  float* mixed = scratch[at_.mixed];
  float* gate = scratch[at_.gate];
  float* key = scratch[at_.key];

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

namespace {

// The width of the channel mixing: stated, or hidden_ratio times D, rounded up
// to a multiple of 32.
absl::StatusOr<size_t> ReadWidth(const MixerBuilder& builder,
                                 double default_ratio) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      const double ratio,
      builder.config.Number("hidden_ratio", default_ratio, {0.01, 64}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const std::optional<size_t> stated,
      builder.config.OptionalSize("intermediate_size", {1, 1 << 20}));
  const double wanted = static_cast<double>(builder.hidden_size) * ratio;
  return stated.value_or((static_cast<size_t>(wanted) + 31) / 32 * 32);
}

}  // namespace

ModelFrame RwkvFrame() {
  return {.channel_norm = "ffn_norm",
          .channel_mixer = "ffn.",
          .norm = NormStyle::Kind::kLayer};
}

absl::Status ReadRwkvConfig(const Config& config, ModelConfig& model) {
  STEADYSTATE_ASSIGN_OR_RETURN(const bool bias, config.Bool("norm_bias", true));
  model.norm.bias = bias;
  model.layer_norm.bias = bias;
  STEADYSTATE_ASSIGN_OR_RETURN(const bool norm_first,
                               config.Bool("norm_first", true));
  if (norm_first) model.input_norm = "layers.0.pre_norm";
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Mixer>> MakeRwkvChannelMixing(
    const MixerBuilder& builder, const ChannelMixingNames& names,
    double default_ratio) {
  STEADYSTATE_ASSIGN_OR_RETURN(const size_t width,
                               ReadWidth(builder, default_ratio));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const Activation act,
      builder.config.ActivationOf("hidden_act", "sqrelu"));
  return ChannelMixing::Make(width, act, builder, names);
}

}  // namespace steadystate
