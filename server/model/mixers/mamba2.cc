// Mamba-2 (Dao and Gu 2024), as model_type "mamba2" of transformers and fla:
//   z, x, B, C, dt = W_in u;  [x, B, C] <- silu(conv([x, B, C]))
//   dt_h = clamp(softplus(dt_h + dt_bias_h)),  a_h = exp(-exp(A_log_h) dt_h)
//   S_h <- a_h S_h + B_g (dt_h x_h)^T,  y_h = S_h^T C_g + D_h x_h
//   out = W_out RMSNorm(y * silu(z))
// The token's own input is in y. H heads share G groups of keys B and queries
// C, H / G consecutive heads each; x is the value, in units of dt. The norm is
// over each group's channels by themselves, as mamba_ssm, fla since 0.5.0 and
// transformers since 5.23.0 have it; before, both took all channels together,
// but not where they train with mamba_ssm's kernels. "norm_scope", "group" or
// "full", says which; without it transformers_version does.
// fla's files may say more: norm_before_gate (RMSNorm(y) * silu(z)), rmsnorm
// false (y * silu(z)) and D_has_hdim (D per channel). Transformers' may bear
// norm_before_gate, too, but there it changes nothing.
#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/pointwise/activation.h"
#include "kernels/pointwise/decay.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/config.h"
#include "server/model/mixers/mixers.h"
#include "server/model/parts/causal_conv.h"
#include "server/model/parts/decay_gate.h"
#include "server/model/parts/gated_recurrence.h"
#include "server/model/parts/heads.h"
#include "server/model/parts/mamba_layer.h"
#include "server/model/parts/projection.h"
#include "server/model/workspace.h"

namespace steadystate {
namespace {

constexpr absl::string_view kUsedKeys[] = {
    "num_heads",  "head_dim",        "state_size",      "n_groups",
    "expand",     "conv_kernel",     "use_bias",        "use_conv_bias",
    "hidden_act", "time_step_limit", "dt_limit",        "rmsnorm",
    "norm_scope", "D_has_hdim",      "norm_before_gate"};
// How weights are initialised, and how a library computes.
constexpr absl::string_view kInertKeys[] = {"A_init_range",
                                            "chunk_size",
                                            "conv_init",
                                            "dt_init_floor",
                                            "dt_max",
                                            "dt_min",
                                            "rescale_prenorm_residual",
                                            "residual_in_fp32",
                                            "rms_norm",
                                            "time_step_floor",
                                            "time_step_max",
                                            "time_step_min",
                                            "time_step_rank"};
constexpr FixedKey kFixedKeys[] = {{"attn", "null"}};

constexpr double kMaxHeads = 65536;
constexpr LibraryVersion kFirstWithGroups = {.major = 5, .minor = 23};

// What a config.json says of the norm.
struct NormReading {
  bool full = false;    // over all channels
  bool stated = false;  // by itself: norm_scope
};

absl::StatusOr<NormReading> ReadNorm(const Config& config) {
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string scope,
                               config.String("norm_scope", ""));
  if (!scope.empty() && scope != "group" && scope != "full") {
    return config.Invalid("norm_scope", "it must be \"group\" or \"full\"");
  }
  if (!scope.empty()) return NormReading{scope == "full", true};
  // Keys that fla has since 0.5.0.
  for (const absl::string_view key : {"rmsnorm", "D_has_hdim", "dt_limit"}) {
    if (config.Has(key)) return NormReading{false, true};
  }
  const std::optional<LibraryVersion> version = TransformersVersion(config);
  return NormReading{version.has_value() && *version < kFirstWithGroups, false};
}

absl::StatusOr<size_t> ReadGroups(const Config& config, double heads) {
  return config.Size("n_groups", IsMambaOfFla(config) ? 1 : 8, {1, heads});
}

class Mamba2 final : public Mixer {
 public:
  static absl::StatusOr<std::unique_ptr<Mixer>> Make(const MixerBuilder& from);

  void Forward(std::span<const Segment> segments, size_t rows, const float* x,
               float* y, Workspace& workspace) const override;

 private:
  // Scratch memory of a row, in floats.
  struct Places {
    RowSlice fused;  // columns
    RowSlice decay;  // H
    RowSlice low;    // H
    RowSlice v;      // E
    RowSlice out;    // E
  };

  absl::Status ReadShape(const MixerBuilder& from);
  absl::Status ReadStepLimit(const Config& config);
  absl::Status TakeProjections(const MixerBuilder& from);
  absl::Status TakeGates(const MixerBuilder& from);
  absl::Status MakeOutput(const MixerBuilder& from);
  // One row's dt into steps of time, its decays, of which `low` is what floats
  // lack, and its values.
  void Discretize(float* dt, const float* x, float* decay, float* low,
                  float* v) const;

  size_t D_ = 0;  // hidden_size
  size_t E_ = 0;  // channels, H P
  size_t H_ = 0;  // heads
  size_t P_ = 0;  // value width of a head
  size_t N_ = 0;  // key width of a group
  size_t G_ = 0;  // groups, divides H
  float dt_min_ = 0;
  float dt_max_ = 0;
  // Columns of the input projection; z is the first.
  size_t x_at_ = 0, B_at_ = 0, C_at_ = 0, dt_at_ = 0, columns_ = 0;
  std::unique_ptr<Linear> in_;   // D -> columns_
  std::unique_ptr<Linear> out_;  // E -> D
  CausalConvs conv_;
  GatedRecurrence recurrence_;
  HeadOutput output_;
  SoftplusDecay decay_;      // by steps of time
  std::vector<float> skip_;  // D of the formula, f32[E]
  Places at_;
};

absl::Status Mamba2::ReadShape(const MixerBuilder& from) {
  const Config& config = from.config;
  D_ = from.hidden_size;
  STEADYSTATE_ASSIGN_OR_RETURN(E_, ReadMambaWidth(from));
  STEADYSTATE_ASSIGN_OR_RETURN(P_, config.Size("head_dim", 64, {1, 65536}));
  STEADYSTATE_ASSIGN_OR_RETURN(N_, config.Size("state_size", 128, {1, 65536}));
  if (E_ % P_ != 0) {
    return config.Invalid(
        "head_dim",
        absl::StrCat("it must divide expand times hidden_size, ", E_));
  }
  H_ = E_ / P_;
  const auto heads = static_cast<double>(H_);
  STEADYSTATE_ASSIGN_OR_RETURN(const size_t stated,
                               config.Size("num_heads", H_, {1, kMaxHeads}));
  if (stated != H_) {
    return config.Invalid(
        "num_heads",
        absl::StrCat("it must be expand times hidden_size / head_dim, ", H_));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(G_, ReadGroups(config, heads));
  if (H_ % G_ != 0) {
    return config.Invalid("n_groups",
                          absl::StrCat("it must divide num_heads, ", H_));
  }
  return ReadStepLimit(config);
}

// fla calls it dt_limit.
absl::Status Mamba2::ReadStepLimit(const Config& config) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const absl::string_view key =
      config.Has("dt_limit") ? "dt_limit" : "time_step_limit";
  STEADYSTATE_ASSIGN_OR_RETURN(const auto stated,
                               config.NumberList(key, {0, kInfinity}, 2));
  const std::vector<double> limit =
      stated.value_or(std::vector<double>{0, kInfinity});
  if (limit.size() != 2 || limit[0] > limit[1]) {
    return config.Invalid(key, "it must be a lower and an upper bound");
  }
  dt_min_ = static_cast<float>(limit[0]);
  dt_max_ = static_cast<float>(limit[1]);
  return absl::OkStatus();
}

absl::Status Mamba2::TakeProjections(const MixerBuilder& from) {
  x_at_ = E_;
  B_at_ = x_at_ + E_;
  C_at_ = B_at_ + G_ * N_;
  dt_at_ = C_at_ + G_ * N_;
  columns_ = dt_at_ + H_;
  STEADYSTATE_ASSIGN_OR_RETURN(const Bias bias, ReadMambaBias(from));
  STEADYSTATE_ASSIGN_OR_RETURN(
      in_, MakeProjection(from.weights, "in_proj", D_, columns_, from.linears,
                          bias));
  STEADYSTATE_ASSIGN_OR_RETURN(
      out_,
      MakeProjection(from.weights, "out_proj", E_, D_, from.linears, bias));
  return AddMambaConv(from, x_at_, dt_at_ - x_at_, conv_);
}

absl::Status Mamba2::TakeGates(const MixerBuilder& from) {
  const WeightScope& weights = from.weights;
  STEADYSTATE_ASSIGN_OR_RETURN(decay_, SoftplusDecay::Make(from, H_, 1));
  STEADYSTATE_ASSIGN_OR_RETURN(const bool per_channel,
                               from.config.Bool("D_has_hdim", false));
  const size_t width = per_channel ? E_ : H_;
  STEADYSTATE_ASSIGN_OR_RETURN(const std::vector<float> skip,
                               weights.TakeFloats("D", {width}));
  skip_.resize(E_);
  for (size_t e = 0; e < E_; ++e) skip_[e] = skip[e / (E_ / width)];
  return absl::OkStatus();
}

absl::Status Mamba2::MakeOutput(const MixerBuilder& from) {
  const Config& config = from.config;
  STEADYSTATE_ASSIGN_OR_RETURN(const NormReading norm, ReadNorm(config));
  STEADYSTATE_ASSIGN_OR_RETURN(const bool normed, config.Bool("rmsnorm", true));
  STEADYSTATE_ASSIGN_OR_RETURN(const bool norm_first,
                               config.Bool("norm_before_gate", false));
  const size_t groups = norm.full ? 1 : G_;
  output_ = {
      .heads = groups,
      .V = E_ / groups,
      .norm = normed ? HeadOutput::NormKind::kRms : HeadOutput::NormKind::kNone,
      .eps = from.norm_eps,
      .gate = Activation::kSilu,
      .gate_first = !(norm_first && IsMambaOfFla(config))};
  if (normed) {
    STEADYSTATE_ASSIGN_OR_RETURN(output_.weight,
                                 from.weights.TakeFloats("norm.weight", {E_}));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Mixer>> Mamba2::Make(const MixerBuilder& from) {
  auto made = std::make_unique<Mamba2>();
  STEADYSTATE_RETURN_IF_ERROR(made->ReadShape(from));
  STEADYSTATE_RETURN_IF_ERROR(made->TakeProjections(from));
  STEADYSTATE_RETURN_IF_ERROR(made->TakeGates(from));
  STEADYSTATE_RETURN_IF_ERROR(made->MakeOutput(from));
  STEADYSTATE_ASSIGN_OR_RETURN(
      made->recurrence_,
      GatedRecurrence::Make(from, {.query_heads = made->H_,
                                   .state_heads = made->H_,
                                   .K = made->N_,
                                   .V = made->P_,
                                   .decay = Decay::kScalar}));
  RowScratchPlan plan(from.scratch);
  made->at_ = {.fused = plan.Add(made->columns_),
               .decay = plan.Add(made->H_),
               .low = plan.Add(made->H_),
               .v = plan.Add(made->E_),
               .out = plan.Add(made->E_)};
  return made;
}

void Mamba2::Discretize(float* dt, const float* x, float* decay, float* low,
                        float* v) const {
  decay_.ToSteps(dt);
  for (size_t h = 0; h < H_; ++h) {
    dt[h] = std::clamp(dt[h], dt_min_, dt_max_);
    for (size_t p = 0; p < P_; ++p) v[h * P_ + p] = dt[h] * x[h * P_ + p];
  }
  decay_.Fade(dt, decay, low);
}

void Mamba2::Forward(std::span<const Segment> segments, size_t rows,
                     const float* x, float* y, Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  const PhaseScope scope(buffers.phases, Phase::kRecurrence);
  const RowScratch scratch = buffers.OfRows(rows);
  float* fused = scratch[at_.fused];
  float* decay = scratch[at_.decay];
  float* low = scratch[at_.low];
  float* v = scratch[at_.v];
  float* out = scratch[at_.out];

  buffers.Project(*in_, rows, x, D_, fused, columns_);
  conv_.Run(segments, fused, columns_, buffers);
  buffers.ForRows(rows, E_, [&](size_t row, size_t) {
    float* from = fused + row * columns_;
    Discretize(from + dt_at_, from + x_at_, decay + row * H_, low + row * H_,
               v + row * E_);
  });
  const size_t sharing = H_ / G_;
  recurrence_.Run(segments,
                  {.q = {fused + C_at_, columns_, N_, sharing},
                   .k = {fused + B_at_, columns_, N_, sharing},
                   .v = {v, E_, P_},
                   .alpha = {decay, H_, 1},
                   .alpha_low = {low, H_, 1}},
                  out, E_, buffers);
  buffers.ForRows(rows, 3 * E_, [&](size_t row, size_t) {
    const float* from = fused + row * columns_;
    float* o = out + row * E_;
    for (size_t e = 0; e < E_; ++e) o[e] += skip_[e] * from[x_at_ + e];
    output_.Apply(o, from);
  });
  buffers.Project(*out_, rows, out, E_, y, D_);
}

// Says over what the norm is taken where versions of the libraries differ.
absl::Status ReadConfig(const Config& config, ModelConfig& model) {
  STEADYSTATE_ASSIGN_OR_RETURN(const size_t groups,
                               ReadGroups(config, kMaxHeads));
  STEADYSTATE_ASSIGN_OR_RETURN(const NormReading norm, ReadNorm(config));
  if (groups == 1 || norm.stated) return absl::OkStatus();
  constexpr absl::string_view kAll =
      "over all channels, as in transformers before 5.23";
  constexpr absl::string_view kGroups = "over each group, as in mamba_ssm";
  const auto norm_is = [](absl::string_view scope) {
    return absl::StrCat("the norm of Mamba-2 is ", scope);
  };
  model.readings.push_back(
      norm.full ? ReadingOf(config, norm_is(kAll), "5.23.0", kGroups)
                : ReadingOf(config, norm_is(kGroups), "4.57.6", kAll));
  return absl::OkStatus();
}

// The defaults of transformers' Mamba2Config, or of fla's.
absl::StatusOr<FamilyDefaults> ReadDefaults(const Config& config) {
  if (IsMambaOfFla(config)) {
    return FamilyDefaults{.hidden_size = 2048, .layers = 48, .norm_eps = 1e-5};
  }
  return FamilyDefaults{.hidden_size = 4096,
                        .layers = 64,
                        .vocab_size = 32768,
                        .norm_eps = 1e-5,
                        .bos_token = 0};
}

}  // namespace

Family Mamba2Family() {
  return {.model_type = "mamba2",
          .source = "mamba2.cc",
          .keys = {.used = kUsedKeys,
                   .inert = kInertKeys,
                   .must_be_default = kFixedKeys},
          .frame = MambaFrame(),
          .read_defaults = ReadDefaults,
          .layer = {.channels = ChannelMixer::kNone},
          .hybrid = false,
          .read_config = ReadConfig,
          .make_token_mixer = Mamba2::Make};
}

}  // namespace steadystate
