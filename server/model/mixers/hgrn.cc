// HGRN (Qin et al. 2023), as fla's model_type "hgrn": a state of one number for
// each channel.
//   i = W_i x,  f = W_f x            optionally convolved before
//   a_t = l + (1 - l) sigmoid(f)     l: the layer's lower bound (lower_bound.h)
//   h_t = a_t o h_{t-1} + (1 - a_t) o silu(i)
//   y   = W_o (RMSNorm(h) * silu(W_g x))
// The norm is over all channels. The convolution has no activation. It is the
// general recurrence with keys and queries of width 1 that are always 1.
#include <memory>
#include <numeric>
#include <vector>

#include "kernels/pointwise/activation.h"
#include "kernels/pointwise/decay.h"
#include "server/base/status_macros.h"
#include "server/model/mixers/mixers.h"
#include "server/model/parts/causal_conv.h"
#include "server/model/parts/gated_recurrence.h"
#include "server/model/parts/head_output.h"
#include "server/model/parts/lower_bound.h"
#include "server/model/parts/stacked_projection.h"
#include "server/model/workspace.h"

namespace steadystate {
namespace {

constexpr absl::string_view kUsedKeys[] = {"expand_ratio", "use_short_conv",
                                           "conv_size", "use_lower_bound",
                                           "elementwise_affine"};

// Channels that one task advances; heads mean nothing here.
constexpr size_t kMostChannels = 256;

constexpr float kOne = 1.0f;

class Hgrn final : public Mixer {
 public:
  static absl::StatusOr<std::unique_ptr<Mixer>> Make(const MixerBuilder& from);

  void Forward(std::span<const Segment> segments, size_t rows, const float* x,
               float* y, Workspace& workspace) const override;

 private:
  absl::Status TakeProjections(const MixerBuilder& from);
  absl::Status TakeConvs(const MixerBuilder& from);
  absl::Status MakeRecurrence(const MixerBuilder& from);
  absl::Status MakeOutput(const MixerBuilder& from);

  size_t D_ = 0;
  size_t E_ = 0;  // channels
  size_t V_ = 0;  // of them in one task
  // Columns of the fused projection.
  size_t i_ = 0, f_ = 0, gate_ = 0, columns_ = 0;
  std::unique_ptr<Linear> fused_;  // D -> columns_
  std::unique_ptr<Linear> out_;    // E -> D
  CausalConvs convs_;
  std::vector<float> lower_bound_;  // f32[E]
  GatedRecurrence recurrence_;
  HeadOutput output_;
};

absl::Status Hgrn::TakeProjections(const MixerBuilder& from) {
  ProjectionStack stack(from.weights, D_);
  STEADYSTATE_ASSIGN_OR_RETURN(i_, stack.Add("i_proj", E_));
  STEADYSTATE_ASSIGN_OR_RETURN(f_, stack.Add("f_proj", E_));
  STEADYSTATE_ASSIGN_OR_RETURN(gate_, stack.Add("g_proj", E_));
  columns_ = stack.columns();
  STEADYSTATE_ASSIGN_OR_RETURN(fused_, stack.Pack(from.linears));
  STEADYSTATE_ASSIGN_OR_RETURN(
      out_, MakeProjection(from.weights, "o_proj", E_, D_, from.linears));
  return absl::OkStatus();
}

absl::Status Hgrn::TakeConvs(const MixerBuilder& from) {
  STEADYSTATE_ASSIGN_OR_RETURN(const bool conv,
                               from.config.Bool("use_short_conv", false));
  STEADYSTATE_ASSIGN_OR_RETURN(const size_t taps,
                               from.config.Size("conv_size", 4, {1, 64}));
  if (!conv) return absl::OkStatus();
  const Activation act = Activation::kIdentity;
  STEADYSTATE_RETURN_IF_ERROR(convs_.Add(from, "i", i_, E_, taps, act));
  return convs_.Add(from, "f", f_, E_, taps, act);
}

absl::Status Hgrn::MakeRecurrence(const MixerBuilder& from) {
  V_ = std::gcd(E_, kMostChannels);
  STEADYSTATE_ASSIGN_OR_RETURN(
      recurrence_, GatedRecurrence::Make(from, {.query_heads = E_ / V_,
                                                .state_heads = E_ / V_,
                                                .K = 1,
                                                .V = V_,
                                                .decay = Decay::kValue}));
  return absl::OkStatus();
}

absl::Status Hgrn::MakeOutput(const MixerBuilder& from) {
  output_ = {
      .heads = 1, .V = E_, .eps = from.norm_eps, .gate = Activation::kSilu};
  STEADYSTATE_ASSIGN_OR_RETURN(const bool affine,
                               from.config.Bool("elementwise_affine", true));
  if (!affine) return absl::OkStatus();
  STEADYSTATE_ASSIGN_OR_RETURN(output_.weight,
                               from.weights.TakeFloats("g_norm.weight", {E_}));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Mixer>> Hgrn::Make(const MixerBuilder& from) {
  auto made = std::make_unique<Hgrn>();
  made->D_ = from.hidden_size;
  STEADYSTATE_ASSIGN_OR_RETURN(const size_t ratio,
                               from.config.Size("expand_ratio", 1, {1, 64}));
  made->E_ = made->D_ * ratio;
  STEADYSTATE_RETURN_IF_ERROR(made->TakeProjections(from));
  STEADYSTATE_ASSIGN_OR_RETURN(made->lower_bound_,
                               TakeLowerBound(from, made->E_));
  STEADYSTATE_RETURN_IF_ERROR(made->MakeRecurrence(from));
  STEADYSTATE_RETURN_IF_ERROR(made->TakeConvs(from));
  STEADYSTATE_RETURN_IF_ERROR(made->MakeOutput(from));
  from.scratch.Need(made->columns_ + 2 * made->E_, 0);
  return made;
}

void Hgrn::Forward(std::span<const Segment> segments, size_t rows,
                   const float* x, float* y, Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  const PhaseScope scope(buffers.phases, Phase::kRecurrence);
  float* fused = buffers.scratch.data();  // f32[rows, columns]
  // f32[rows, E]: 1 - a, then what a lacks
  float* rest = fused + rows * columns_;
  float* out = rest + rows * E_;  // f32[rows, E]

  buffers.Project(*fused_, rows, x, D_, fused, columns_);
  convs_.Run(segments, fused, columns_, buffers);
  buffers.ForRows(rows, 2 * E_, [&](size_t row, size_t) {
    float* i = fused + row * columns_ + i_;
    float* f = fused + row * columns_ + f_;
    float* r = rest + row * E_;
    FlooredSigmoidDecay(E_, f, lower_bound_.data(), f, r);
    ActivateAndMultiply(Activation::kSilu, E_, i, r, i);
    LackOfDecay(E_, f, r, r);
  });
  recurrence_.Run(segments,
                  {.q = {&kOne, 0, 0},
                   .k = {&kOne, 0, 0},
                   .v = {fused + i_, columns_, V_},
                   .beta = {fused + f_, columns_, V_},
                   .beta_low = {rest, E_, V_}},
                  out, E_, buffers);
  buffers.ForRows(rows, E_, [&](size_t row, size_t) {
    output_.Apply(out + row * E_, fused + row * columns_ + gate_);
  });
  buffers.Project(*out_, rows, out, E_, y, D_);
}

}  // namespace

Family HgrnFamily() {
  return {.model_type = "hgrn",
          .source = "hgrn.cc",
          .keys = {.used = kUsedKeys, .inert = {}, .must_be_default = {}},
          .make_token_mixer = Hgrn::Make};
}

}  // namespace steadystate
