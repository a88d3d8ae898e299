// HGRN (Qin et al. 2023), as fla's model_type "hgrn": a state of one number for
// each channel.
//   i = W_i x,  f = W_f x            optionally convolved before
//   a_t = l + (1 - l) sigmoid(f)     l: the layer's lower bound
//   h_t = a_t o h_{t-1} + (1 - a_t) o silu(i)
//   y   = W_o (RMSNorm(h) * silu(W_g x))
// The norm is over all channels. The convolution has no activation. It is the
// general recurrence with keys and queries of width 1 that are always 1.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/pointwise/activation.h"
#include "kernels/pointwise/decay.h"
#include "server/base/status_macros.h"
#include "server/model/mixers/mixers.h"
#include "server/model/parts/causal_conv.h"
#include "server/model/parts/gated_recurrence.h"
#include "server/model/parts/heads.h"
#include "server/model/parts/projection.h"
#include "server/model/workspace.h"

namespace steadystate {
namespace {

constexpr absl::string_view kHgrnUsed[] = {"expand_ratio", "use_short_conv",
                                           "conv_size", "use_lower_bound",
                                           "elementwise_affine"};

// Channels that one task advances; heads mean nothing here.
constexpr size_t kMostChannels = 256;

constexpr float kOne = 1.0f;

// The least decay of each channel of a layer of HGRN and HGRN-2: with B the
// softmax over the layers of model.lower_bounds, [L, channels], it is
// B_1 + .. + B_n for layer n, so that layer 0 has none. Zeros if
// use_lower_bound is false.
absl::StatusOr<std::vector<float>> TakeLowerBound(const MixerBuilder& from,
                                                  size_t channels) {
  std::vector<float> least(channels, 0.0f);
  STEADYSTATE_ASSIGN_OR_RETURN(const bool bounded,
                               from.config.Bool("use_lower_bound", true));
  if (!bounded) return least;
  STEADYSTATE_ASSIGN_OR_RETURN(
      const std::vector<float> bounds,
      from.model.TakeFloats("lower_bounds", {from.layers, channels}));
  for (size_t c = 0; c < channels; ++c) {
    double largest = bounds[c];
    for (size_t n = 0; n < from.layers; ++n) {
      largest = std::max<double>(largest, bounds[n * channels + c]);
    }
    double all = 0;
    double share = 0;
    for (size_t n = 0; n < from.layers; ++n) {
      const double weight =
          std::exp(static_cast<double>(bounds[n * channels + c]) - largest);
      all += weight;
      if (n > 0 && n <= from.layer) share += weight;
    }
    least[c] = static_cast<float>(share / all);
  }
  return least;
}

class Hgrn final : public Mixer {
 public:
  static absl::StatusOr<std::unique_ptr<Mixer>> Make(const MixerBuilder& from);

  void Forward(std::span<const Segment> segments, size_t rows, const float* x,
               float* y, Workspace& workspace) const override;

 private:
  // Scratch memory of a row, in floats.
  struct Places {
    RowSlice fused;  // columns
    RowSlice rest;   // E: 1 - a, then what a lacks
    RowSlice out;    // E
  };

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
  Places at_;
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
  STEADYSTATE_RETURN_IF_ERROR(
      convs_.Add(from, ConvNames::Of("i"), i_, E_, taps, act));
  return convs_.Add(from, ConvNames::Of("f"), f_, E_, taps, act);
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
  RowScratchPlan plan(from.scratch);
  made->at_ = {.fused = plan.Add(made->columns_),
               .rest = plan.Add(made->E_),
               .out = plan.Add(made->E_)};
  return made;
}

void Hgrn::Forward(std::span<const Segment> segments, size_t rows,
                   const float* x, float* y, Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  const PhaseScope scope(buffers.phases, Phase::kRecurrence);
  const RowScratch scratch = buffers.OfRows(rows);
  float* fused = scratch[at_.fused];
  float* rest = scratch[at_.rest];
  float* out = scratch[at_.out];

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

// HGRN-2 (Qin et al. 2024), as fla's model_type "hgrn2":
//   q = silu(W_q x),  f = W_f x,  v = W_i x     optionally convolved before
//   a_t = l + (1 - l) sigmoid(f)                l: the layer's lower bound
//   S_t = diag(a_t) S_{t-1} + (1 - a_t) v_t^T,   o_t = K^-1/2 S_t^T q_t
//   y   = W_o RMSNorm(o)
// The norm is over all heads at once, and its eps is 1e-5 whatever norm_eps
// says. The convolution has no activation.

constexpr absl::string_view kHgrn2Used[] = {
    "num_heads", "expand_ratio",    "use_short_conv",
    "conv_size", "use_lower_bound", "elementwise_affine"};

constexpr absl::string_view kHgrn2Inert[] = {"share_conv_kernel"};

constexpr float kOutputNormEps = 1e-5f;

class Hgrn2 final : public Mixer {
 public:
  static absl::StatusOr<std::unique_ptr<Mixer>> Make(const MixerBuilder& from);

  void Forward(std::span<const Segment> segments, size_t rows, const float* x,
               float* y, Workspace& workspace) const override;

 private:
  // Scratch memory of a row, in floats.
  struct Places {
    RowSlice fused;  // columns
    RowSlice k;      // H K
    RowSlice low;    // H K: what decays lack
    RowSlice out;    // D
  };

  absl::Status ReadShape(const MixerBuilder& from);
  absl::Status TakeProjections(const MixerBuilder& from);
  absl::Status TakeConvs(const MixerBuilder& from);
  absl::Status MakeOutput(const MixerBuilder& from);

  size_t D_ = 0, H_ = 0;
  size_t K_ = 0, V_ = 0;  // width of keys and values of a head
  // Columns of the fused projection.
  size_t q_ = 0, f_ = 0, v_ = 0, columns_ = 0;
  std::unique_ptr<Linear> fused_;  // D -> columns_
  std::unique_ptr<Linear> out_;    // D -> D
  CausalConvs convs_;
  std::vector<float> lower_bound_;  // f32[H K]
  GatedRecurrence recurrence_;
  HeadOutput output_;
  Places at_;
};

// expand_ratio is the width of keys, 128 where the file is silent; null leaves
// it to num_heads, which counts for nothing otherwise.
absl::Status Hgrn2::ReadShape(const MixerBuilder& from) {
  const Config& config = from.config;
  D_ = from.hidden_size;
  const Bounds widths = {1, static_cast<double>(D_)};
  STEADYSTATE_ASSIGN_OR_RETURN(const auto ratio,
                               config.SizeList("expand_ratio", widths, 1));
  STEADYSTATE_ASSIGN_OR_RETURN(const std::optional<size_t> heads,
                               config.OptionalSize("num_heads", widths));
  if (ratio.has_value() && ratio->empty()) {
    if (!heads.has_value()) {
      return config.Invalid("num_heads",
                            "without expand_ratio it must be a whole number");
    }
    K_ = D_ / *heads;
  } else {
    K_ = ratio.has_value() ? ratio->front() : 128;
  }
  H_ = D_ / K_;
  if (H_ == 0 || D_ % K_ != 0) {
    return config.Invalid("expand_ratio",
                          absl::StrCat("the width of keys, ", K_,
                                       ", must divide hidden_size, ", D_));
  }
  V_ = D_ / H_;
  return absl::OkStatus();
}

absl::Status Hgrn2::TakeProjections(const MixerBuilder& from) {
  ProjectionStack stack(from.weights, D_);
  STEADYSTATE_ASSIGN_OR_RETURN(q_, stack.Add("q_proj", H_ * K_));
  STEADYSTATE_ASSIGN_OR_RETURN(f_, stack.Add("f_proj", H_ * K_));
  STEADYSTATE_ASSIGN_OR_RETURN(v_, stack.Add("i_proj", D_));
  columns_ = stack.columns();
  STEADYSTATE_ASSIGN_OR_RETURN(fused_, stack.Pack(from.linears));
  STEADYSTATE_ASSIGN_OR_RETURN(
      out_, MakeProjection(from.weights, "o_proj", D_, D_, from.linears));
  return absl::OkStatus();
}

absl::Status Hgrn2::TakeConvs(const MixerBuilder& from) {
  STEADYSTATE_ASSIGN_OR_RETURN(const bool conv,
                               from.config.Bool("use_short_conv", false));
  STEADYSTATE_ASSIGN_OR_RETURN(const size_t taps,
                               from.config.Size("conv_size", 4, {1, 64}));
  if (!conv) return absl::OkStatus();
  const Activation act = Activation::kIdentity;
  STEADYSTATE_RETURN_IF_ERROR(
      convs_.Add(from, ConvNames::Of("q"), q_, H_ * K_, taps, act));
  STEADYSTATE_RETURN_IF_ERROR(
      convs_.Add(from, ConvNames::Of("f"), f_, H_ * K_, taps, act));
  return convs_.Add(from, ConvNames::Of("i"), v_, D_, taps, act);
}

absl::Status Hgrn2::MakeOutput(const MixerBuilder& from) {
  output_ = {.heads = 1, .V = D_, .eps = kOutputNormEps};
  STEADYSTATE_ASSIGN_OR_RETURN(const bool affine,
                               from.config.Bool("elementwise_affine", true));
  if (affine) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        output_.weight, from.weights.TakeFloats("g_norm.weight", {D_}));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Mixer>> Hgrn2::Make(const MixerBuilder& from) {
  auto made = std::make_unique<Hgrn2>();
  STEADYSTATE_RETURN_IF_ERROR(made->ReadShape(from));
  STEADYSTATE_RETURN_IF_ERROR(made->TakeProjections(from));
  STEADYSTATE_ASSIGN_OR_RETURN(made->lower_bound_,
                               TakeLowerBound(from, made->H_ * made->K_));
  STEADYSTATE_RETURN_IF_ERROR(made->MakeOutput(from));
  STEADYSTATE_ASSIGN_OR_RETURN(
      made->recurrence_,
      GatedRecurrence::Make(
          from, {.query_heads = made->H_,
                 .state_heads = made->H_,
                 .K = made->K_,
                 .V = made->V_,
                 .scale = 1.0f / std::sqrt(static_cast<float>(made->K_)),
                 .decay = Decay::kKey}));
  STEADYSTATE_RETURN_IF_ERROR(made->TakeConvs(from));
  RowScratchPlan plan(from.scratch);
  made->at_ = {.fused = plan.Add(made->columns_),
               .k = plan.Add(made->H_ * made->K_),
               .low = plan.Add(made->H_ * made->K_),
               .out = plan.Add(made->D_)};
  return made;
}

void Hgrn2::Forward(std::span<const Segment> segments, size_t rows,
                    const float* x, float* y, Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  const PhaseScope scope(buffers.phases, Phase::kRecurrence);
  const size_t channels = H_ * K_;
  const RowScratch scratch = buffers.OfRows(rows);
  float* fused = scratch[at_.fused];
  float* k = scratch[at_.k];
  float* low = scratch[at_.low];
  float* out = scratch[at_.out];

  buffers.Project(*fused_, rows, x, D_, fused, columns_);
  convs_.Run(segments, fused, columns_, buffers);
  buffers.ForRows(rows, 2 * channels, [&](size_t row, size_t) {
    float* q = fused + row * columns_ + q_;
    float* f = fused + row * columns_ + f_;
    Activate(Activation::kSilu, channels, q, q);
    FlooredSigmoidDecay(channels, f, lower_bound_.data(), f,
                        k + row * channels);
    LackOfDecay(channels, f, k + row * channels, low + row * channels);
  });
  recurrence_.Run(segments,
                  {.q = {fused + q_, columns_, K_},
                   .k = {k, channels, K_},
                   .v = {fused + v_, columns_, V_},
                   .alpha = {fused + f_, columns_, K_},
                   .alpha_low = {low, channels, K_}},
                  out, D_, buffers);
  buffers.ForRows(rows, D_, [&](size_t row, size_t) {
    output_.Apply(out + row * D_, nullptr);
  });
  buffers.Project(*out_, rows, out, D_, y, D_);
}

}  // namespace

Family HgrnFamily() {
  return {.model_type = "hgrn",
          .source = "hgrn.cc",
          .keys = {.used = kHgrnUsed, .inert = {}, .must_be_default = {}},
          .make_token_mixer = Hgrn::Make};
}

Family Hgrn2Family() {
  return {
      .model_type = "hgrn2",
      .source = "hgrn.cc",
      .keys = {.used = kHgrn2Used, .inert = kHgrn2Inert, .must_be_default = {}},
      .make_token_mixer = Hgrn2::Make};
}

}  // namespace steadystate
