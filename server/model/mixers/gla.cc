// Gated linear attention (Yang et al. 2023), as fla's model_type "gla":
//   q, k, v = W_q x, W_k x, W_v x     optionally conv + silu, then feature map
//   log a_t = max(logsigmoid(W_2 W_1 x + b) / 16, clamp_min)
//   S_t = diag(a_t) S_{t-1} + k_t v_t^T,   o_t = K^-1/2 S_t^T q_t
//   y   = W_o (RMSNorm(o, per head) * silu(W_g x))
// The token's own (k, v) is in o. H query heads share G key/value heads, H/G
// each; they then share decay and state too, which is kept once per kv head.
// The paper has no 1/16, no norm and a sigmoid gate; the rank of W_2 W_1 is 16
// in fla and read from the tensor's shape here.
#include "server/model/mixers/gla.h"

#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "kernels/pointwise/activation.h"
#include "server/base/status_macros.h"
#include "server/model/parts/causal_conv.h"
#include "server/model/parts/gated_recurrence.h"
#include "server/model/parts/head_output.h"
#include "server/model/parts/head_shape.h"
#include "server/model/parts/stacked_projection.h"
#include "server/model/workspace.h"

namespace steadystate {
namespace {

constexpr absl::string_view kUsedKeys[] = {
    "expand_k",    "expand_v",          "num_heads", "num_kv_heads",
    "feature_map", "use_short_conv",    "conv_size", "use_output_gate",
    "clamp_min",   "elementwise_affine"};
constexpr absl::string_view kInertKeys[] = {"use_gk", "use_gv",
                                            "share_conv_kernel"};
constexpr FixedKey kFixedKeys[] = {{"gate_logit_normalizer", "16"}};

constexpr float kTemperature = 16;

class Gla final : public Mixer {
 public:
  static absl::StatusOr<std::unique_ptr<Mixer>> Make(const MixerBuilder& from);

  void Forward(std::span<const Segment> segments, size_t rows, const float* x,
               float* y, Workspace& workspace) const override;

 private:
  absl::Status ReadOptions(const MixerBuilder& from);
  absl::Status TakeProjections(const MixerBuilder& from);
  absl::Status TakeConvs(const MixerBuilder& from);

  HeadShape shape_;
  size_t rank_ = 0;  // of the decay's projection
  bool gated_ = true;
  float floor_ = 0;  // of log decay
  std::optional<Activation> feature_map_;
  // Columns of the fused projection.
  size_t q_ = 0, k_ = 0, v_ = 0, gate_ = 0, inner_ = 0, columns_ = 0;
  std::unique_ptr<Linear> fused_;     // D -> columns_
  std::unique_ptr<Linear> decay_up_;  // rank -> G K
  std::unique_ptr<Linear> out_;       // H V -> D
  CausalConvs convs_;
  GatedRecurrence recurrence_;
  HeadOutput output_;
};

absl::Status Gla::ReadOptions(const MixerBuilder& from) {
  const Config& config = from.config;
  STEADYSTATE_ASSIGN_OR_RETURN(
      shape_,
      ReadHeadShape(from, {.num_heads = 4, .expand_k = 0.5, .expand_v = 1}));
  STEADYSTATE_ASSIGN_OR_RETURN(gated_, config.Bool("use_output_gate", true));
  STEADYSTATE_ASSIGN_OR_RETURN(const std::optional<double> floor,
                               config.OptionalNumber("clamp_min", {-1e9, 0}));
  floor_ = floor.has_value() ? static_cast<float>(*floor)
                             : -std::numeric_limits<float>::infinity();
  if (config.Has("feature_map")) {
    STEADYSTATE_ASSIGN_OR_RETURN(feature_map_,
                                 config.ActivationOf("feature_map", ""));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(const Activation act,
                               config.ActivationOf("hidden_act", "swish"));
  if (gated_ && act != Activation::kSilu) {
    return config.Unsupported("hidden_act",
                              "gla's output gate is supported with \"swish\"");
  }
  return absl::OkStatus();
}

absl::Status Gla::TakeProjections(const MixerBuilder& from) {
  const HeadShape& s = shape_;
  const auto inner = from.weights.ShapeOf("gk_proj.0.weight");
  const bool has_rank = inner.has_value() && inner->size() == 2;
  rank_ = has_rank ? (*inner)[0] : 16;
  ProjectionStack stack(from.weights, s.D);
  STEADYSTATE_ASSIGN_OR_RETURN(q_, stack.Add("q_proj", s.H * s.K));
  STEADYSTATE_ASSIGN_OR_RETURN(k_, stack.Add("k_proj", s.G * s.K));
  STEADYSTATE_ASSIGN_OR_RETURN(v_, stack.Add("v_proj", s.G * s.V));
  if (gated_) {
    STEADYSTATE_ASSIGN_OR_RETURN(gate_, stack.Add("g_proj", s.H * s.V));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(inner_, stack.Add("gk_proj.0", rank_));
  columns_ = stack.columns();
  STEADYSTATE_ASSIGN_OR_RETURN(fused_, stack.Pack(from.linears));
  STEADYSTATE_ASSIGN_OR_RETURN(
      decay_up_, MakeProjection(from.weights, "gk_proj.1", rank_, s.G * s.K,
                                from.linears, Bias::kYes));
  STEADYSTATE_ASSIGN_OR_RETURN(
      out_,
      MakeProjection(from.weights, "o_proj", s.H * s.V, s.D, from.linears));
  return absl::OkStatus();
}

absl::Status Gla::TakeConvs(const MixerBuilder& from) {
  const HeadShape& s = shape_;
  STEADYSTATE_ASSIGN_OR_RETURN(const bool conv,
                               from.config.Bool("use_short_conv", false));
  if (!conv) return absl::OkStatus();
  STEADYSTATE_ASSIGN_OR_RETURN(const size_t taps,
                               from.config.Size("conv_size", 4, {1, 64}));
  const Activation act = Activation::kSilu;
  STEADYSTATE_RETURN_IF_ERROR(convs_.Add(from, "q", q_, s.H * s.K, taps, act));
  STEADYSTATE_RETURN_IF_ERROR(convs_.Add(from, "k", k_, s.G * s.K, taps, act));
  return convs_.Add(from, "v", v_, s.G * s.V, taps, act);
}

absl::StatusOr<std::unique_ptr<Mixer>> Gla::Make(const MixerBuilder& from) {
  auto gla = std::make_unique<Gla>();
  STEADYSTATE_RETURN_IF_ERROR(gla->ReadOptions(from));
  STEADYSTATE_RETURN_IF_ERROR(gla->TakeProjections(from));
  const HeadShape& s = gla->shape_;
  STEADYSTATE_ASSIGN_OR_RETURN(
      gla->output_, MakeGatedNorm(from, s.H, s.V,
                                  gla->gated_ ? std::optional(Activation::kSilu)
                                              : std::nullopt));
  STEADYSTATE_ASSIGN_OR_RETURN(
      gla->recurrence_,
      GatedRecurrence::Make(from,
                            {.query_heads = s.H,
                             .state_heads = s.G,
                             .K = s.K,
                             .V = s.V,
                             .scale = 1.0f / std::sqrt(static_cast<float>(s.K)),
                             .decay = Decay::kKey}));
  STEADYSTATE_RETURN_IF_ERROR(gla->TakeConvs(from));
  from.scratch.Need(gla->columns_ + s.G * s.K + s.H * s.V, 0);
  return gla;
}

void Gla::Forward(std::span<const Segment> segments, size_t rows,
                  const float* x, float* y, Workspace& workspace) const {
  const HeadShape& s = shape_;
  Workspace::Buffers& buffers = workspace.buffers();
  const PhaseScope scope(buffers.phases, Phase::kRecurrence);
  float* fused = buffers.scratch.data();   // f32[rows, columns]
  float* decay = fused + rows * columns_;  // f32[rows, G K]
  float* out = decay + rows * s.G * s.K;   // f32[rows, H V]

  buffers.Project(*fused_, rows, x, s.D, fused, columns_);
  buffers.Project(*decay_up_, rows, fused + inner_, columns_, decay, s.G * s.K);
  convs_.Run(segments, fused, columns_, buffers);
  buffers.ForRows(rows, v_ + s.G * s.K, [&](size_t row, size_t) {
    float* qk = fused + row * columns_;
    if (feature_map_.has_value()) Activate(*feature_map_, v_, qk, qk);
    float* decay_row = decay + row * s.G * s.K;
    LogSigmoidDecay(s.G * s.K, decay_row, kTemperature, floor_, decay_row);
  });
  recurrence_.Run(segments,
                  {.q = {fused + q_, columns_, s.K},
                   .k = {fused + k_, columns_, s.K},
                   .v = {fused + v_, columns_, s.V},
                   .alpha = {decay, s.G * s.K, s.K}},
                  out, s.H * s.V, buffers);
  buffers.ForRows(rows, s.H * s.V, [&](size_t row, size_t) {
    output_.Apply(out + row * s.H * s.V, fused + row * columns_ + gate_);
  });
  buffers.Project(*out_, rows, out, s.H * s.V, y, s.D);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Mixer>> MakeGla(const MixerBuilder& builder) {
  return Gla::Make(builder);
}

KeyTable GlaKeys() {
  return {
      .used = kUsedKeys, .inert = kInertKeys, .must_be_default = kFixedKeys};
}

}  // namespace steadystate
