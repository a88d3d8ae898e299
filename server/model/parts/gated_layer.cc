#include "server/model/parts/gated_layer.h"

#include <cmath>
#include <limits>

#include "server/base/status_macros.h"

namespace steadystate {

absl::Status GatedLayer::ReadShapeAndGate(const MixerBuilder& from,
                                          const HeadShape::Defaults& defaults,
                                          Options& options) {
  const Config& config = from.config;
  STEADYSTATE_ASSIGN_OR_RETURN(options.shape, ReadHeadShape(from, defaults));
  STEADYSTATE_ASSIGN_OR_RETURN(options.gated,
                               config.Bool("use_output_gate", true));
  STEADYSTATE_ASSIGN_OR_RETURN(const Activation act,
                               config.ActivationOf("hidden_act", "swish"));
  if (options.gated && act != Activation::kSilu) {
    return config.Unsupported("hidden_act",
                              "the output gate is supported with \"swish\"");
  }
  return absl::OkStatus();
}

absl::Status GatedLayer::ReadConv(const MixerBuilder& from, bool default_conv,
                                  Options& options) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      const bool conv, from.config.Bool("use_short_conv", default_conv));
  STEADYSTATE_ASSIGN_OR_RETURN(const size_t taps,
                               from.config.Size("conv_size", 4, {1, 64}));
  options.conv_taps = conv ? taps : 0;
  return absl::OkStatus();
}

absl::Status GatedLayer::ReadFeatureMap(const MixerBuilder& from,
                                        Options& options) {
  if (!from.config.Has("feature_map")) return absl::OkStatus();
  STEADYSTATE_ASSIGN_OR_RETURN(options.feature_map,
                               from.config.ActivationOf("feature_map", ""));
  return absl::OkStatus();
}

absl::StatusOr<float> GatedLayer::ReadLogDecayFloor(const MixerBuilder& from) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      const std::optional<double> floor,
      from.config.OptionalNumber("clamp_min", {-1e9, 0}));
  return floor.has_value() ? static_cast<float>(*floor)
                           : -std::numeric_limits<float>::infinity();
}

absl::StatusOr<GatedLayer> GatedLayer::Make(const MixerBuilder& from,
                                            const Options& options,
                                            RowScratchPlan& plan) {
  GatedLayer made;
  made.options_ = options;
  STEADYSTATE_RETURN_IF_ERROR(made.TakeProjections(from));
  const std::optional<Activation> gate =
      options.gated ? std::optional(Activation::kSilu) : std::nullopt;
  STEADYSTATE_ASSIGN_OR_RETURN(
      made.output_,
      MakeGatedNorm(from, options.shape.H, options.shape.V, gate));
  STEADYSTATE_RETURN_IF_ERROR(made.MakeRecurrence(from));
  STEADYSTATE_RETURN_IF_ERROR(made.TakeConvs(from));
  made.fused_rows_ = plan.Add(made.columns_);
  made.out_rows_ = plan.Add(options.shape.H * options.shape.V);
  return made;
}

absl::Status GatedLayer::TakeProjections(const MixerBuilder& from) {
  const HeadShape& s = options_.shape;
  ProjectionStack stack(from.weights, s.D);
  STEADYSTATE_ASSIGN_OR_RETURN(q_, stack.Add("q_proj", s.H * s.K));
  STEADYSTATE_ASSIGN_OR_RETURN(k_, stack.Add("k_proj", s.G * s.K));
  STEADYSTATE_ASSIGN_OR_RETURN(v_, stack.Add("v_proj", s.G * s.V));
  if (options_.gated) {
    STEADYSTATE_ASSIGN_OR_RETURN(gate_, stack.Add("g_proj", s.H * s.V));
  }
  const absl::string_view decay = options_.decay_projection;
  if (options_.decay_low_rank) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        decay_,
        TakeLowRank(from, absl::StrCat(decay, ".0"), absl::StrCat(decay, ".1"),
                    {1, options_.decay_columns}, Bias::kYes, stack));
  } else if (!decay.empty()) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        decay_.column, stack.Add(decay, options_.decay_columns, Bias::kYes));
  }
  columns_ = stack.columns();
  STEADYSTATE_ASSIGN_OR_RETURN(fused_, stack.Pack(from.linears));
  STEADYSTATE_ASSIGN_OR_RETURN(
      out_,
      MakeProjection(from.weights, "o_proj", s.H * s.V, s.D, from.linears));
  return absl::OkStatus();
}

absl::Status GatedLayer::TakeConvs(const MixerBuilder& from) {
  const HeadShape& s = options_.shape;
  const size_t taps = options_.conv_taps;
  if (taps == 0) return absl::OkStatus();
  const Activation act = Activation::kSilu;
  STEADYSTATE_RETURN_IF_ERROR(
      convs_.Add(from, ConvNames::Of("q"), q_, s.H * s.K, taps, act));
  STEADYSTATE_RETURN_IF_ERROR(
      convs_.Add(from, ConvNames::Of("k"), k_, s.G * s.K, taps, act));
  return convs_.Add(from, ConvNames::Of("v"), v_, s.G * s.V, taps, act);
}

absl::Status GatedLayer::MakeRecurrence(const MixerBuilder& from) {
  const HeadShape& s = options_.shape;
  STEADYSTATE_ASSIGN_OR_RETURN(
      recurrence_,
      GatedRecurrence::Make(
          from, {.query_heads = s.H,
                 .state_heads = options_.state_per_query_head ? s.H : s.G,
                 .K = s.K,
                 .V = s.V,
                 .scale = 1.0f / std::sqrt(static_cast<float>(s.K)),
                 .decay = options_.decay,
                 .constants = options_.constants}));
  return absl::OkStatus();
}

GatedLayer::Rows GatedLayer::Project(std::span<const Segment> segments,
                                     size_t rows, const float* x,
                                     Workspace::Buffers& buffers) const {
  const RowScratch scratch = buffers.OfRows(rows);
  float* fused = scratch[fused_rows_];
  buffers.Project(*fused_, rows, x, options_.shape.D, fused, columns_);
  convs_.Run(segments, fused, columns_, buffers);
  if (options_.feature_map.has_value()) {
    buffers.ForRows(rows, v_, [&](size_t row, size_t) {
      float* qk = fused + row * columns_;
      Activate(*options_.feature_map, v_, qk, qk);
    });
  }
  return {.q = fused + q_,
          .k = fused + k_,
          .v = fused + v_,
          .gate = fused + gate_,
          .decay = fused + decay_.column,
          .out = scratch[out_rows_],
          .stride = columns_};
}

void GatedLayer::ProjectDecay(size_t rows, float* decay, size_t stride,
                              Workspace::Buffers& buffers) const {
  decay_.Expand(rows, buffers.OfRows(rows)[fused_rows_], columns_, decay,
                stride, buffers);
}

void GatedLayer::Finish(std::span<const Segment> segments, size_t rows,
                        const Rows& in, const Decays& decays, float* y,
                        Workspace::Buffers& buffers) const {
  const HeadShape& s = options_.shape;
  const size_t sharing = options_.state_per_query_head ? s.H / s.G : 1;
  recurrence_.Run(segments,
                  {.q = {in.q, in.stride, s.K},
                   .k = {in.k, in.stride, s.K, sharing},
                   .v = {in.v, in.stride, s.V, sharing},
                   .alpha = decays.alpha,
                   .alpha_low = decays.low},
                  in.out, s.H * s.V, buffers);
  buffers.ForRows(rows, s.H * s.V, [&](size_t row, size_t) {
    output_.Apply(in.out + row * s.H * s.V, in.gate + row * in.stride);
  });
  buffers.Project(*out_, rows, in.out, s.H * s.V, y, s.D);
}

}  // namespace steadystate
