// RWKV-6 (Peng et al. 2024), as fla's model_type "rwkv6". Time mixing, with
// d = x_before - x:
//   p = tanh(X_0 (x + d o mu)), five vectors, for r, w, k, v, g in this order
//   each projection reads x + d o (X_2i p_i + x_bias_i)
//   r, k, v, g = W x_i,   alpha = exp(-exp(W_2 tanh(W_1 x_w) + b))
//   o = (S + diag(bonus) k v^T)^T r,   then S <- diag(alpha) S + k v^T
//   y = W_o (LayerNorm(o, per head) silu(g))
// The state is read before the token's own (k, v) enters it, which the bonus
// makes up for. RWKV's own checkpoints order the five w, k, v, r, g; and their
// last norm has an eps of 64e-5, of which fla's config.json says nothing, so
// that it is norm_eps here as in fla.
#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/pointwise/activation.h"
#include "kernels/pointwise/decay.h"
#include "server/base/status_macros.h"
#include "server/model/mixers/mixers.h"
#include "server/model/parts/gated_recurrence.h"
#include "server/model/parts/heads.h"
#include "server/model/parts/projection.h"
#include "server/model/parts/rwkv_layer.h"
#include "server/model/parts/wide_weights.h"
#include "server/model/workspace.h"

namespace steadystate {
namespace {

constexpr absl::string_view kUsedKeys[] = {
    "num_heads", "expand_k",     "expand_v",   "norm_first",
    "norm_bias", "hidden_ratio", "hidden_act", "intermediate_size"};
// The ranks follow from the tensors' shapes.
constexpr absl::string_view kInertKeys[] = {
    "proj_low_rank_dim", "gate_low_rank_dim", "num_kv_heads"};

constexpr ChannelMixingNames kChannelMixing = {
    .key_share = "key.mu",
    .key = "key.linear",
    .receptance_share = "receptance.mu",
    .receptance = "receptance.linear"};

// What a token is projected to, in the order of the mixing's tensors.
enum Projection : size_t { kR, kW, kK, kV, kG, kProjections };

class Rwkv6 final : public Mixer {
 public:
  static absl::StatusOr<std::unique_ptr<Mixer>> Make(const MixerBuilder& from);

  void Forward(std::span<const Segment> segments, size_t rows, const float* x,
               float* y, Workspace& workspace) const override;

 private:
  // Scratch memory of a row, in floats.
  struct Places {
    RowSlice delta;                                // D
    RowSlice mixed;                                // D
    RowSlice low;                                  // 5 rank
    std::array<RowSlice, kProjections> projected;  // widths_[i]
    RowSlice decay, decay_low;                     // H K
    RowSlice out;                                  // H V
  };

  absl::Status TakeMixing(const MixerBuilder& from);
  absl::Status TakeProjections(const MixerBuilder& from);
  absl::Status TakeOutput(const MixerBuilder& from);
  void PlanScratch(RowScratchPlan plan);
  // Fills `projected`.
  void Project(size_t rows, const float* x, const RowScratch& b,
               Workspace::Buffers& buffers) const;
  // The decays of all rows, from the projection w.
  void Decay(size_t rows, const RowScratch& b,
             Workspace::Buffers& buffers) const;

  HeadShape shape_;
  size_t rank_ = 0;  // of the mixing
  std::array<size_t, kProjections> widths_{};
  TokenShift shift_;
  std::vector<float> share_;                                  // f32[D], mu
  std::unique_ptr<Linear> mix_down_;                          // D -> 5 rank
  std::array<std::unique_ptr<Linear>, kProjections> mix_up_;  // rank -> D
  std::array<std::unique_ptr<Linear>, kProjections>
      projections_;              // D -> widths_[i]
  LowRank decay_;                // behind projections_[kW], -> H K
  std::unique_ptr<Linear> out_;  // H V -> D
  std::vector<float> bonus_;     // f32[H, K]
  GatedRecurrence recurrence_;
  HeadOutput output_;
  Places at_;
};

absl::Status Rwkv6::TakeMixing(const MixerBuilder& from) {
  const WeightScope& weights = from.weights;
  const size_t D = shape_.D;
  STEADYSTATE_ASSIGN_OR_RETURN(
      const size_t stacked,
      weights.OpenSize("x_proj.0.linear.weight", {WeightScope::kOpen, D}));
  rank_ = stacked / kProjections;
  if (rank_ * kProjections != stacked) {
    return absl::InvalidArgumentError(
        absl::StrCat("layer ", from.layer, ": x_proj.0.linear.weight has ",
                     stacked, " rows; they must be as many for each of the ",
                     size_t{kProjections}, " mixes"));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(
      mix_down_,
      MakeProjection(weights, "x_proj.0.linear", D, stacked, from.linears));
  STEADYSTATE_ASSIGN_OR_RETURN(share_, weights.TakeFloats("x_proj.0.mu", {D}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const std::vector<float> up,
      weights.TakeFloats("x_proj.2.weight", {D, stacked}));
  STEADYSTATE_ASSIGN_OR_RETURN(const std::vector<float> bias,
                               weights.TakeFloats("x_bias", {kProjections, D}));
  // Each of the five has columns of its own.
  std::vector<float> columns(D * rank_);
  for (size_t i = 0; i < kProjections; ++i) {
    for (size_t row = 0; row < D; ++row) {
      std::copy_n(up.data() + row * stacked + i * rank_, rank_,
                  columns.data() + row * rank_);
    }
    const WeightRows matrix = {
        {columns.data(), DType::kF32}, D, IsWide("x_proj.2", D)};
    STEADYSTATE_ASSIGN_OR_RETURN(
        mix_up_[i],
        from.linears.Make(rank_, {{matrix}}, {bias.data() + i * D, D}));
  }
  return absl::OkStatus();
}

absl::Status Rwkv6::TakeProjections(const MixerBuilder& from) {
  const HeadShape& s = shape_;
  ProjectionStack decay(from.weights, s.D);
  STEADYSTATE_ASSIGN_OR_RETURN(
      decay_, TakeLowRank(from, "w_proj.linear.lora.0", "w_proj.linear.lora.2",
                          {1, s.H * s.K}, Bias::kYes, decay));
  STEADYSTATE_ASSIGN_OR_RETURN(projections_[kW], decay.Pack(from.linears));
  widths_ = {s.H * s.K, decay_.rank, s.H * s.K, s.H * s.V, s.H * s.V};
  constexpr std::array<absl::string_view, kProjections> kNames = {
      "r_proj.linear", "", "k_proj.linear", "v_proj.linear", "g_proj.linear"};
  for (const Projection i : {kR, kK, kV, kG}) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        projections_[i],
        MakeProjection(from.weights, kNames[i], s.D, widths_[i], from.linears));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(
      out_,
      MakeProjection(from.weights, "o_proj", s.H * s.V, s.D, from.linears));
  STEADYSTATE_ASSIGN_OR_RETURN(bonus_,
                               from.weights.TakeFloats("bonus", {s.H, s.K}));
  return absl::OkStatus();
}

absl::Status Rwkv6::TakeOutput(const MixerBuilder& from) {
  const size_t width = shape_.H * shape_.V;
  output_ = {.heads = shape_.H,
             .V = shape_.V,
             .norm = HeadOutput::NormKind::kLayer,
             .eps = from.norm_eps,
             .gate = Activation::kSilu};
  STEADYSTATE_ASSIGN_OR_RETURN(
      output_.weight, from.weights.TakeFloats("g_norm.weight", {width}));
  STEADYSTATE_ASSIGN_OR_RETURN(output_.bias,
                               from.weights.TakeFloats("g_norm.bias", {width}));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Mixer>> Rwkv6::Make(const MixerBuilder& from) {
  auto rwkv = std::make_unique<Rwkv6>();
  STEADYSTATE_ASSIGN_OR_RETURN(
      rwkv->shape_, ReadHeadShape(from, {.num_heads = 4,
                                         .expand_k = 0.5,
                                         .grouped = false,
                                         .query = "r_proj.linear.weight"}));
  STEADYSTATE_RETURN_IF_ERROR(rwkv->TakeMixing(from));
  STEADYSTATE_RETURN_IF_ERROR(rwkv->TakeProjections(from));
  STEADYSTATE_RETURN_IF_ERROR(rwkv->TakeOutput(from));
  STEADYSTATE_ASSIGN_OR_RETURN(rwkv->shift_, TokenShift::Make(from, "shift"));
  const HeadShape& s = rwkv->shape_;
  STEADYSTATE_ASSIGN_OR_RETURN(
      rwkv->recurrence_, GatedRecurrence::Make(from, {.query_heads = s.H,
                                                      .state_heads = s.H,
                                                      .K = s.K,
                                                      .V = s.V,
                                                      .decay = Decay::kKey,
                                                      .bonus = true}));
  rwkv->PlanScratch(RowScratchPlan(from.scratch));
  return rwkv;
}

void Rwkv6::PlanScratch(RowScratchPlan plan) {
  const HeadShape& s = shape_;
  at_.delta = plan.Add(s.D);
  at_.mixed = plan.Add(s.D);
  at_.low = plan.Add(kProjections * rank_);
  for (size_t i = 0; i < kProjections; ++i) {
    at_.projected[i] = plan.Add(widths_[i]);
  }
  at_.decay = plan.Add(s.H * s.K);
  at_.decay_low = plan.Add(s.H * s.K);
  at_.out = plan.Add(s.H * s.V);
}

void Rwkv6::Project(size_t rows, const float* x, const RowScratch& b,
                    Workspace::Buffers& buffers) const {
  const size_t D = shape_.D;
  const size_t stacked = kProjections * rank_;
  MixInShifts(rows, x, b[at_.delta], share_, b[at_.mixed], buffers);
  buffers.Project(*mix_down_, rows, b[at_.mixed], D, b[at_.low], stacked);
  buffers.ForRows(rows, stacked, [&](size_t row, size_t) {
    float* low = b[at_.low] + row * stacked;
    Activate(Activation::kTanh, stacked, low, low);
  });
  for (size_t i = 0; i < kProjections; ++i) {
    buffers.Project(*mix_up_[i], rows, b[at_.low] + i * rank_, stacked,
                    b[at_.mixed], D);
    buffers.ForRows(rows, D, [&](size_t row, size_t) {
      const size_t at = row * D;
      MixInShift(D, x + at, b[at_.delta] + at, b[at_.mixed] + at,
                 b[at_.mixed] + at);
    });
    buffers.Project(*projections_[i], rows, b[at_.mixed], D,
                    b[at_.projected[i]], widths_[i]);
  }
}

void Rwkv6::Decay(size_t rows, const RowScratch& b,
                  Workspace::Buffers& buffers) const {
  const size_t rank = widths_[kW];
  const size_t width = shape_.H * shape_.K;
  buffers.ForRows(rows, rank, [&](size_t row, size_t) {
    float* low = b[at_.projected[kW]] + row * rank;
    Activate(Activation::kTanh, rank, low, low);
  });
  decay_.Expand(rows, b[at_.projected[kW]], rank, b[at_.decay], width, buffers);
  buffers.ForRows(rows, width, [&](size_t row, size_t) {
    float* decay = b[at_.decay] + row * width;
    Activate(Activation::kExp, width, decay, decay);
    for (size_t i = 0; i < width; ++i) decay[i] = -decay[i];
    SplitDecay(width, decay, decay, b[at_.decay_low] + row * width);
  });
}

void Rwkv6::Forward(std::span<const Segment> segments, size_t rows,
                    const float* x, float* y, Workspace& workspace) const {
  const HeadShape& s = shape_;
  Workspace::Buffers& buffers = workspace.buffers();
  const PhaseScope scope(buffers.phases, Phase::kRecurrence);
  const RowScratch b = buffers.OfRows(rows);
  const size_t keys = s.H * s.K;
  const size_t values = s.H * s.V;

  shift_.Run(segments, x, b[at_.delta], buffers);
  Project(rows, x, b, buffers);
  Decay(rows, b, buffers);
  recurrence_.Run(segments,
                  {.q = {b[at_.projected[kR]], keys, s.K},
                   .k = {b[at_.projected[kK]], keys, s.K},
                   .v = {b[at_.projected[kV]], values, s.V},
                   .alpha = {b[at_.decay], keys, s.K},
                   .alpha_low = {b[at_.decay_low], keys, s.K},
                   .bonus = {bonus_.data(), 0, s.K}},
                  b[at_.out], values, buffers);
  buffers.ForRows(rows, values, [&](size_t row, size_t) {
    output_.Apply(b[at_.out] + row * values,
                  b[at_.projected[kG]] + row * values);
  });
  buffers.Project(*out_, rows, b[at_.out], values, y, s.D);
}

absl::StatusOr<std::unique_ptr<Mixer>> MakeChannelMixing(
    const MixerBuilder& builder) {
  return MakeRwkvChannelMixing(builder, kChannelMixing, 3.5);
}

}  // namespace

Family Rwkv6Family() {
  return {
      .model_type = "rwkv6",
      .source = "rwkv6.cc",
      .keys = {.used = kUsedKeys, .inert = kInertKeys, .must_be_default = {}},
      .frame = RwkvFrame(),
      .defaults = {.norm_eps = 1e-5},
      .layer = {.channels = ChannelMixer::kFamily},
      .read_config = ReadRwkvConfig,
      .make_token_mixer = Rwkv6::Make,
      .make_channel_mixer = MakeChannelMixing};
}

}  // namespace steadystate
