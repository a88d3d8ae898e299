#include "server/model/parts/mamba2_layer.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/pointwise/activation.h"
#include "kernels/pointwise/decay.h"
#include "server/base/status_macros.h"
#include "server/model/workspace.h"

namespace steadystate {

absl::Status ReadStepLimit(const Config& config, absl::string_view key,
                           Mamba2Options& options) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  STEADYSTATE_ASSIGN_OR_RETURN(const auto stated,
                               config.NumberList(key, {0, kInfinity}, 2));
  const std::vector<double> limit =
      stated.value_or(std::vector<double>{0, kInfinity});
  if (limit.size() != 2 || limit[0] > limit[1]) {
    return config.Invalid(key, "it must be a lower and an upper bound");
  }
  options.dt_min = static_cast<float>(limit[0]);
  options.dt_max = static_cast<float>(limit[1]);
  return absl::OkStatus();
}

namespace {

// E / heads; a file may say so, or "auto".
absl::Status CheckHeadWidth(const Config& config, size_t width,
                            absl::string_view channels) {
  constexpr absl::string_view kKey = "mamba_d_head";
  const absl::StatusOr<std::string> word = config.String(kKey, "auto");
  if (word.ok() && *word == "auto") return absl::OkStatus();
  STEADYSTATE_ASSIGN_OR_RETURN(const size_t stated,
                               config.Size(kKey, width, {1, 1 << 20}));
  if (stated == width) return absl::OkStatus();
  return config.Invalid(kKey, absl::StrCat("it must be \"auto\" or ", channels,
                                           " / mamba_n_heads, ", width));
}

}  // namespace

absl::Status ReadMamba2Shape(const Config& config, size_t E,
                             absl::string_view channels,
                             Mamba2Options& options) {
  constexpr Bounds kHeads = {1, 65536};
  STEADYSTATE_ASSIGN_OR_RETURN(options.H,
                               config.Size("mamba_n_heads", 128, kHeads));
  if (E % options.H != 0) {
    return config.Invalid("mamba_n_heads",
                          absl::StrCat("it must divide ", channels, ", ", E));
  }
  options.P = E / options.H;
  STEADYSTATE_RETURN_IF_ERROR(CheckHeadWidth(config, options.P, channels));
  STEADYSTATE_ASSIGN_OR_RETURN(options.N,
                               config.Size("mamba_d_state", 256, {1, 1 << 20}));
  STEADYSTATE_ASSIGN_OR_RETURN(options.G,
                               config.Size("mamba_n_groups", 1, kHeads));
  if (options.H % options.G != 0) {
    return config.Invalid(
        "mamba_n_groups",
        absl::StrCat("it must divide mamba_n_heads, ", options.H));
  }
  STEADYSTATE_RETURN_IF_ERROR(
      ReadStepLimit(config, "time_step_limit", options));
  STEADYSTATE_ASSIGN_OR_RETURN(options.conv_taps,
                               config.Size("mamba_d_conv", 4, {1, 64}));
  return absl::OkStatus();
}

absl::StatusOr<Mamba2Options> ReadMamba2Options(const MixerBuilder& from) {
  const Config& config = from.config;
  Mamba2Options options;
  STEADYSTATE_ASSIGN_OR_RETURN(const size_t expand,
                               config.Size("mamba_expand", 2, {1, 64}));
  STEADYSTATE_RETURN_IF_ERROR(ReadMamba2Shape(config, expand * from.hidden_size,
                                              "mamba_expand times hidden_size",
                                              options));
  STEADYSTATE_ASSIGN_OR_RETURN(const bool conv_bias,
                               config.Bool("mamba_conv_bias", true));
  STEADYSTATE_ASSIGN_OR_RETURN(const bool bias,
                               config.Bool("mamba_proj_bias", false));
  options.conv_bias = conv_bias ? Bias::kYes : Bias::kNone;
  options.in_bias = options.out_bias = bias ? Bias::kYes : Bias::kNone;
  return options;
}

absl::StatusOr<std::unique_ptr<Mixer>> Mamba2Layer::Make(
    const MixerBuilder& from, const Mamba2Options& options) {
  auto made = std::make_unique<Mamba2Layer>();
  made->options_ = options;
  made->D_ = from.hidden_size;
  made->E_ = options.H * options.P;
  STEADYSTATE_RETURN_IF_ERROR(made->TakeProjections(from));
  STEADYSTATE_RETURN_IF_ERROR(made->TakeGates(from));
  STEADYSTATE_RETURN_IF_ERROR(made->MakeOutput(from));
  STEADYSTATE_ASSIGN_OR_RETURN(
      made->recurrence_,
      GatedRecurrence::Make(from, {.query_heads = options.H,
                                   .state_heads = options.H,
                                   .K = options.N,
                                   .V = options.P,
                                   .decay = Decay::kScalar}));
  RowScratchPlan plan(from.scratch);
  made->at_ = {.fused = plan.Add(made->columns_),
               .decay = plan.Add(options.H),
               .low = plan.Add(options.H),
               .v = plan.Add(made->E_),
               .out = plan.Add(made->E_)};
  return made;
}

absl::Status Mamba2Layer::TakeProjections(const MixerBuilder& from) {
  const size_t keys = options_.G * options_.N;
  x_at_ = E_;
  B_at_ = x_at_ + E_;
  C_at_ = B_at_ + keys;
  dt_at_ = C_at_ + keys;
  columns_ = dt_at_ + options_.H;
  ProjectionStack stack(from.weights, D_);
  STEADYSTATE_RETURN_IF_ERROR(
      stack
          .AddOfEach("in_proj",
                     {.blocks = 1, .block = columns_, .rows = dt_at_},
                     options_.in_bias)
          .status());
  STEADYSTATE_RETURN_IF_ERROR(stack
                                  .AddOfEach("in_proj",
                                             {.blocks = 1,
                                              .block = columns_,
                                              .first = dt_at_,
                                              .rows = options_.H,
                                              .part = "dt"},
                                             options_.in_bias)
                                  .status());
  STEADYSTATE_ASSIGN_OR_RETURN(in_, stack.Pack(from.linears));
  STEADYSTATE_ASSIGN_OR_RETURN(
      out_, MakeProjection(from.weights, "out_proj", E_, D_, from.linears,
                           options_.out_bias));
  SetScale();
  return conv_.Add(from, ConvNames(), x_at_, dt_at_ - x_at_, options_.conv_taps,
                   Activation::kSilu, options_.conv_bias);
}

void Mamba2Layer::SetScale() {
  const Mamba2Options::Scale& scale = options_.scale;
  const std::pair<size_t, float> parts[] = {{x_at_, scale.z},
                                            {B_at_, scale.x},
                                            {C_at_, scale.B},
                                            {dt_at_, scale.C},
                                            {columns_, scale.dt}};
  for (const auto& [end, factor] : parts) scale_.resize(end, factor);
  if (std::ranges::all_of(scale_, [](float f) { return f == 1; })) {
    scale_.clear();
  }
}

absl::Status Mamba2Layer::TakeGates(const MixerBuilder& from) {
  STEADYSTATE_ASSIGN_OR_RETURN(decay_,
                               SoftplusDecay::Make(from, options_.H, 1));
  const size_t width = options_.skip_per_channel ? E_ : options_.H;
  STEADYSTATE_ASSIGN_OR_RETURN(const std::vector<float> skip,
                               from.weights.TakeFloats("D", {width}));
  skip_.resize(E_);
  for (size_t e = 0; e < E_; ++e) skip_[e] = skip[e / (E_ / width)];
  return absl::OkStatus();
}

absl::Status Mamba2Layer::MakeOutput(const MixerBuilder& from) {
  const bool normed = options_.norm != Mamba2Options::Norm::kNone;
  const size_t groups =
      options_.norm == Mamba2Options::Norm::kAll ? 1 : options_.G;
  output_ = {
      .heads = groups,
      .V = E_ / groups,
      .norm = normed ? HeadOutput::NormKind::kRms : HeadOutput::NormKind::kNone,
      .eps = from.norm_eps,
      .gate = Activation::kSilu,
      .gate_first = options_.gate_first};
  if (!normed) return absl::OkStatus();
  STEADYSTATE_ASSIGN_OR_RETURN(output_.weight,
                               from.weights.TakeFloats("norm.weight", {E_}));
  return absl::OkStatus();
}

void Mamba2Layer::Discretize(float* dt, const float* x, float* decay,
                             float* low, float* v) const {
  const size_t P = options_.P;
  decay_.ToSteps(dt);
  for (size_t h = 0; h < options_.H; ++h) {
    dt[h] = std::clamp(dt[h], options_.dt_min, options_.dt_max);
    for (size_t p = 0; p < P; ++p) v[h * P + p] = dt[h] * x[h * P + p];
  }
  decay_.Fade(dt, decay, low);
}

void Mamba2Layer::Forward(std::span<const Segment> segments, size_t rows,
                          const float* x, float* y,
                          Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  const PhaseScope scope(buffers.phases, Phase::kRecurrence);
  const RowScratch scratch = buffers.OfRows(rows);
  float* fused = scratch[at_.fused];
  float* decay = scratch[at_.decay];
  float* low = scratch[at_.low];
  float* v = scratch[at_.v];
  float* out = scratch[at_.out];

  const size_t H = options_.H;
  buffers.Project(*in_, rows, x, D_, fused, columns_);
  if (!scale_.empty()) {
    buffers.ForRows(rows, columns_, [&](size_t row, size_t) {
      float* const to = fused + row * columns_;
      for (size_t i = 0; i < columns_; ++i) to[i] *= scale_[i];
    });
  }
  conv_.Run(segments, fused, columns_, buffers);
  buffers.ForRows(rows, E_, [&](size_t row, size_t) {
    float* from = fused + row * columns_;
    Discretize(from + dt_at_, from + x_at_, decay + row * H, low + row * H,
               v + row * E_);
  });
  const size_t sharing = H / options_.G;
  recurrence_.Run(segments,
                  {.q = {fused + C_at_, columns_, options_.N, sharing},
                   .k = {fused + B_at_, columns_, options_.N, sharing},
                   .v = {v, E_, options_.P},
                   .alpha = {decay, H, 1},
                   .alpha_low = {low, H, 1}},
                  out, E_, buffers);
  buffers.ForRows(rows, 3 * E_, [&](size_t row, size_t) {
    const float* from = fused + row * columns_;
    float* o = out + row * E_;
    for (size_t e = 0; e < E_; ++e) o[e] += skip_[e] * from[x_at_ + e];
    output_.Apply(o, from);
  });
  buffers.Project(*out_, rows, out, E_, y, D_);
}

}  // namespace steadystate
