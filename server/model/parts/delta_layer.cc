#include "server/model/parts/delta_layer.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/pointwise/norm.h"
#include "server/base/status_macros.h"
#include "server/model/workspace.h"

namespace steadystate {
namespace {

constexpr float kL2Eps = 1e-6f;
// What sums are kept away from 0 by.
constexpr double kSmallestSum = 1e-6;

// y = x / sum |x|, in place.
void MagnitudeNormalize(size_t n, float* x) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += std::abs(static_cast<double>(x[i]));
  const auto factor = static_cast<float>(1.0 / std::max(sum, kSmallestSum));
  for (size_t i = 0; i < n; ++i) x[i] *= factor;
}

// y = x / sum x, in place.
void SumNormalizeSafely(size_t n, float* x) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]);
  if (std::abs(sum) < kSmallestSum) sum = std::copysign(kSmallestSum, sum);
  const auto factor = static_cast<float>(1.0 / sum);
  for (size_t i = 0; i < n; ++i) x[i] *= factor;
}

}  // namespace

absl::Status ReadDeltaOptions(const Config& config,
                              DeltaLayerOptions& options) {
  STEADYSTATE_ASSIGN_OR_RETURN(const bool conv,
                               config.Bool("use_short_conv", true));
  if (conv) {
    STEADYSTATE_ASSIGN_OR_RETURN(options.conv_taps,
                                 config.Size("conv_size", 4, {1, 64}));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(const bool negative,
                               config.Bool("allow_neg_eigval", false));
  options.beta_factor = negative ? 2 : 1;
  return absl::OkStatus();
}

absl::Status ReadValueHeads(const Config& config, size_t default_heads,
                            size_t default_width, double default_expand_v,
                            DeltaLayerOptions& options) {
  DeltaLayerOptions& o = options;
  STEADYSTATE_ASSIGN_OR_RETURN(
      o.H, config.Size("num_heads", default_heads, {1, 4096}));
  STEADYSTATE_ASSIGN_OR_RETURN(o.HV,
                               config.Size("num_v_heads", o.H, {1, 4096}));
  if (o.HV % o.H != 0) {
    return config.Invalid(
        "num_v_heads",
        absl::StrCat("it must be a multiple of num_heads, ", o.H));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(
      o.K, config.Size("head_dim", default_width, {1, 1 << 16}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const double expand,
      config.Number("expand_v", default_expand_v, {0, 64}));
  const double width = static_cast<double>(o.K) * expand;
  o.V = static_cast<size_t>(width);
  // As close as fla wants it, too.
  if (o.V == 0 || width - static_cast<double>(o.V) > 1e-5 * width) {
    return config.Invalid("expand_v",
                          absl::StrCat("times head_dim, ", o.K,
                                       ", it must be a positive whole number"));
  }
  return absl::OkStatus();
}

absl::Status DeltaLayer::AddPartsByHead(ProjectionStack& stack) {
  const DeltaLayerOptions& o = options_;
  const size_t sharing = o.HV / o.H;
  const size_t values = sharing * o.V;
  const size_t block = 2 * o.K + 2 * values;
  const absl::string_view qkvz = o.names.qkvz;
  const absl::string_view ba = o.names.ba;
  const RowsOfEach decays = {o.H, 2 * sharing, sharing, sharing};
  STEADYSTATE_ASSIGN_OR_RETURN(q_, stack.AddOfEach(qkvz, {o.H, block, 0, o.K}));
  STEADYSTATE_ASSIGN_OR_RETURN(k_,
                               stack.AddOfEach(qkvz, {o.H, block, o.K, o.K}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      v_, stack.AddOfEach(qkvz, {o.H, block, 2 * o.K, values}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      beta_, stack.AddOfEach(ba, {o.H, 2 * sharing, 0, sharing}));
  STEADYSTATE_ASSIGN_OR_RETURN(decay_up_.column, stack.AddOfEach(ba, decays));
  STEADYSTATE_ASSIGN_OR_RETURN(
      gate_up_.column,
      stack.AddOfEach(qkvz, {o.H, block, 2 * o.K + values, values}));
  return absl::OkStatus();
}

absl::Status DeltaLayer::AddParts(const MixerBuilder& from,
                                  ProjectionStack& stack) {
  const DeltaLayerOptions& o = options_;
  const size_t gate_heads = o.gates_per_key_head ? o.H : o.HV;
  const size_t sharing = o.HV / gate_heads;
  if (o.names.qkv.empty()) {
    STEADYSTATE_ASSIGN_OR_RETURN(q_, stack.Add("q_proj", o.H * o.K));
    STEADYSTATE_ASSIGN_OR_RETURN(k_, stack.Add("k_proj", o.H * o.K));
    STEADYSTATE_ASSIGN_OR_RETURN(v_, stack.Add("v_proj", o.HV * o.V));
  } else {
    STEADYSTATE_ASSIGN_OR_RETURN(
        q_, stack.Add(o.names.qkv, 2 * o.H * o.K + o.HV * o.V));
    k_ = q_ + o.H * o.K;
    v_ = k_ + o.H * o.K;
  }
  if (o.beta) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        beta_, stack.AddRepeated(o.names.beta, {gate_heads, 1, sharing}));
  }
  if (o.decay != Decay::kNone && !LowRankDecay()) {
    STEADYSTATE_ASSIGN_OR_RETURN(decay_up_.column,
                                 stack.Add(o.names.decay, factors()));
  }
  if (LowRankDecay()) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        decay_up_, TakeLowRank(from, o.names.decay_down, o.names.decay_up,
                               {gate_heads, o.K, sharing}, Bias::kNone, stack));
  }
  if (o.gate == DeltaLayerOptions::Gate::kFull) {
    STEADYSTATE_ASSIGN_OR_RETURN(gate_up_.column,
                                 stack.Add(o.names.gate, o.HV * o.V));
  }
  if (o.gate == DeltaLayerOptions::Gate::kLowRank) {
    // fla's rank is V; another one is as good.
    STEADYSTATE_ASSIGN_OR_RETURN(
        gate_up_, TakeLowRank(from, o.names.gate_down, o.names.gate_up,
                              {o.HV, o.V}, o.gate_bias, stack));
  }
  return absl::OkStatus();
}

absl::Status DeltaLayer::TakeProjections(const MixerBuilder& from) {
  const DeltaLayerOptions& o = options_;
  ProjectionStack stack(from.weights, D_);
  STEADYSTATE_RETURN_IF_ERROR(o.names.qkvz.empty() ? AddParts(from, stack)
                                                   : AddPartsByHead(stack));
  columns_ = stack.columns();
  STEADYSTATE_ASSIGN_OR_RETURN(fused_, stack.Pack(from.linears));
  STEADYSTATE_ASSIGN_OR_RETURN(
      out_,
      MakeProjection(from.weights, o.names.out, o.HV * o.V, D_, from.linears));
  return absl::OkStatus();
}

// Taps of q, k and v that are one tensor for a library come back from it in
// thirds, whatever their widths: transformers 5 saves those of Olmo Hybrid so.
bool DeltaLayer::ConvsAreThirds(const WeightScope& weights,
                                const ConvNames& thirds,
                                size_t channels) const {
  const DeltaLayerOptions& o = options_;
  if (o.H * o.K == o.HV * o.V || o.qk_activation != Activation::kSilu) {
    return false;
  }
  return std::ranges::all_of(thirds.pieces, [&](const std::string& piece) {
    const auto shape = weights.ShapeOf(absl::StrCat(piece, ".weight"));
    return shape.has_value() && !shape->empty() &&
           shape->front() * 3 == channels;
  });
}

absl::Status DeltaLayer::TakeConvs(const MixerBuilder& from) {
  const DeltaLayerOptions& o = options_;
  if (!o.conv_taps.has_value()) return absl::OkStatus();
  const size_t taps = *o.conv_taps;
  const size_t channels = 2 * o.H * o.K + o.HV * o.V;
  if (!o.names.qkv.empty() || !o.names.qkvz.empty()) {
    return convs_.Add(from, ConvNames(), q_, channels, taps, Activation::kSilu);
  }
  const ConvNames thirds = {.pieces = {"q_conv1d", "k_conv1d", "v_conv1d"}};
  if (ConvsAreThirds(from.weights, thirds, channels)) {
    return convs_.Add(from, thirds, q_, channels, taps, Activation::kSilu);
  }
  STEADYSTATE_RETURN_IF_ERROR(convs_.Add(from, ConvNames::Of("q"), q_,
                                         o.H * o.K, taps, o.qk_activation));
  STEADYSTATE_RETURN_IF_ERROR(convs_.Add(from, ConvNames::Of("k"), k_,
                                         o.H * o.K, taps, o.qk_activation));
  return convs_.Add(from, ConvNames::Of("v"), v_, o.HV * o.V, taps,
                    Activation::kSilu);
}

absl::StatusOr<std::unique_ptr<Mixer>> DeltaLayer::Make(
    const MixerBuilder& from, const DeltaLayerOptions& options) {
  auto layer = std::make_unique<DeltaLayer>();
  const DeltaLayerOptions& o = options;
  layer->options_ = o;
  layer->D_ = from.hidden_size;
  STEADYSTATE_RETURN_IF_ERROR(layer->TakeProjections(from));
  STEADYSTATE_RETURN_IF_ERROR(layer->TakeConvs(from));
  if (o.decay != Decay::kNone) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        layer->decay_,
        SoftplusDecay::Make(from, o.HV, o.decay == Decay::kKey ? o.K : 1,
                            o.decay_lower_bound,
                            o.gates_per_key_head ? o.HV / o.H : 1));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(
      layer->recurrence_,
      DeltaRecurrence::Make(from,
                            {.heads = o.HV,
                             .K = o.K,
                             .V = o.V,
                             .scale = 1.0f / std::sqrt(static_cast<float>(o.K)),
                             .decay = o.decay}));
  layer->output_ = {
      .heads = o.HV, .V = o.V, .eps = o.head_norm_eps.value_or(from.norm_eps)};
  if (o.gate != DeltaLayerOptions::Gate::kNone) {
    layer->output_.gate = o.gate_activation;
  }
  STEADYSTATE_ASSIGN_OR_RETURN(
      layer->output_.weight,
      from.weights.TakeFloats(absl::StrCat(o.names.norm, ".weight"), {o.V}));
  layer->PlanScratch(RowScratchPlan(from.scratch));
  return layer;
}

void DeltaLayer::PlanScratch(RowScratchPlan plan) {
  const DeltaLayerOptions& o = options_;
  at_.fused = plan.Add(columns_);
  if (decay_up_.up != nullptr) at_.decay = plan.Add(o.HV * o.K);
  if (gate_up_.up != nullptr) at_.gate = plan.Add(o.HV * o.V);
  at_.out = plan.Add(o.HV * o.V);
  at_.low = plan.Add(factors());
}

DeltaLayer::Parts DeltaLayer::PartsOf(const RowScratch& scratch) const {
  const DeltaLayerOptions& o = options_;
  float* const fused = scratch[at_.fused];
  Parts parts = {.fused = fused,
                 .decay = fused + decay_up_.column,
                 .gate = fused + gate_up_.column,
                 .out = scratch[at_.out],
                 .low = scratch[at_.low],
                 .decay_stride = columns_,
                 .gate_stride = columns_};
  if (decay_up_.up != nullptr) {
    parts.decay = scratch[at_.decay];
    parts.decay_stride = o.HV * o.K;
  }
  if (gate_up_.up != nullptr) {
    parts.gate = scratch[at_.gate];
    parts.gate_stride = o.HV * o.V;
  }
  return parts;
}

void DeltaLayer::Prepare(float* fused, float* decay, float* low) const {
  const DeltaLayerOptions& o = options_;
  if (!o.conv_taps.has_value()) {
    const size_t qk = 2 * o.H * o.K;
    Activate(o.qk_activation, qk, fused + q_, fused + q_);
    Activate(Activation::kSilu, o.HV * o.V, fused + v_, fused + v_);
  }
  for (size_t head = 0; head < 2 * o.H; ++head) {
    float* x = fused + q_ + head * o.K;
    switch (o.qk_norm) {
      case DeltaLayerOptions::QkNorm::kL2:
        L2Normalize(o.K, x, kL2Eps, x);
        break;
      case DeltaLayerOptions::QkNorm::kSum:
        SumNormalizeSafely(o.K, x);
        break;
      case DeltaLayerOptions::QkNorm::kMagnitudes:
        MagnitudeNormalize(o.K, x);
        break;
    }
  }
  if (o.beta) {
    float* beta = fused + beta_;
    Activate(Activation::kSigmoid, o.HV, beta, beta);
    for (size_t i = 0; i < o.HV; ++i) beta[i] *= o.beta_factor;
  }
  if (o.decay != Decay::kNone) decay_.Apply(decay, low);
}

void DeltaLayer::Forward(std::span<const Segment> segments, size_t rows,
                         const float* x, float* y, Workspace& workspace) const {
  const DeltaLayerOptions& o = options_;
  Workspace::Buffers& buffers = workspace.buffers();
  const PhaseScope scope(buffers.phases, Phase::kRecurrence);
  const Parts p = PartsOf(buffers.OfRows(rows));
  const size_t width = o.HV * o.V;

  buffers.Project(*fused_, rows, x, D_, p.fused, columns_);
  if (decay_up_.up != nullptr) {
    decay_up_.Expand(rows, p.fused, columns_, p.decay, p.decay_stride, buffers);
  }
  if (gate_up_.up != nullptr) {
    gate_up_.Expand(rows, p.fused, columns_, p.gate, p.gate_stride, buffers);
  }
  convs_.Run(segments, p.fused, columns_, buffers);
  buffers.ForRows(rows, columns_, [&](size_t row, size_t) {
    Prepare(p.fused + row * columns_, p.decay + row * p.decay_stride,
            p.low + row * factors());
  });
  const size_t group = o.HV / o.H;
  HeadRows beta = {p.fused + beta_, columns_, 1};
  if (!o.beta) beta = {&o.beta_factor, 0, 0};
  const size_t of_head = o.decay == Decay::kKey ? o.K : 1;
  const DeltaRecurrence::DeltaRule inputs = {
      .q = {p.fused + q_, columns_, o.K, group},
      .k = {p.fused + k_, columns_, o.K, group},
      .v = {p.fused + v_, columns_, o.V},
      .beta = beta,
      .alpha = {p.decay, p.decay_stride, of_head},
      .alpha_low = {p.low, factors(), of_head}};
  recurrence_.Run(segments, inputs, p.out, width, buffers);
  buffers.ForRows(rows, width, [&](size_t row, size_t) {
    output_.Apply(p.out + row * width, p.gate + row * p.gate_stride);
  });
  buffers.Project(*out_, rows, p.out, width, y, D_);
}

}  // namespace steadystate
