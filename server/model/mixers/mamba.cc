// Mamba-1 (Gu and Dao 2023), as model_type "mamba" of transformers and fla:
//   x, z = W_in u;  x <- silu(conv(x))
//   low, B, C = W_x x;  dt = softplus(W_dt low + b)    per channel e
//   h_e <- exp(-dt_e exp(A_log_e)) o h_e + dt_e x_e B  h_e, B, C of width N
//   y_e = h_e . C + D_e x_e
//   out = W_out (y * silu(z))
// In "falcon_mamba" (TII 2024) low, B and C are each normalised, x / sqrt(mean
// x^2 + mixer_rms_eps), before they are used; it is else the same.
//
// The token's own input is in y. In the words of the recurrence B is the key, C
// the query, dt o x the value and the decay a full matrix; the E channels are
// columns of the state, cut into heads only to share the work.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/pointwise/activation.h"
#include "kernels/pointwise/norm.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/config.h"
#include "server/model/mixers/mixers.h"
#include "server/model/parts/causal_conv.h"
#include "server/model/parts/decay_gate.h"
#include "server/model/parts/gated_recurrence.h"
#include "server/model/parts/mamba_layer.h"
#include "server/model/parts/projection.h"
#include "server/model/workspace.h"

namespace steadystate {
namespace {

constexpr absl::string_view kUsedKeys[] = {
    "state_size",    "expand",     "conv_kernel",    "use_bias",
    "use_conv_bias", "hidden_act", "time_step_rank", "dt_rank"};
// How weights are initialised, how a library computes, and what converted
// checkpoints keep of mamba_ssm's own configuration.
constexpr absl::string_view kInertKeys[] = {"d_inner",
                                            "d_model",
                                            "dt_init_floor",
                                            "dt_init_scheme",
                                            "dt_max",
                                            "dt_min",
                                            "dt_scale",
                                            "fused_add_norm",
                                            "intermediate_size",
                                            "n_layer",
                                            "pad_vocab_size_multiple",
                                            "rescale_prenorm_residual",
                                            "residual_in_fp32",
                                            "rms_norm",
                                            "ssm_cfg",
                                            "time_step_floor",
                                            "time_step_init_scheme",
                                            "time_step_max",
                                            "time_step_min",
                                            "time_step_scale",
                                            "use_associative_scan",
                                            "use_mambapy"};
constexpr FixedKey kFixedKeys[] = {{"attn", "null"}};
// Of falcon_mamba beside the first. Its files state both expand and
// intermediate_size, of which the latter counts.
constexpr absl::string_view kFalconKeys[] = {
    "state_size", "expand",        "intermediate_size", "conv_kernel",
    "use_bias",   "use_conv_bias", "hidden_act",        "time_step_rank",
    "dt_rank",    "mixer_rms_eps"};
constexpr absl::string_view kFalconInertKeys[] = {"rescale_prenorm_residual",
                                                  "residual_in_fp32",
                                                  "time_step_floor",
                                                  "time_step_init_scheme",
                                                  "time_step_max",
                                                  "time_step_min",
                                                  "time_step_scale",
                                                  "use_associative_scan",
                                                  "use_falcon_mambapy",
                                                  "use_mambapy"};

// Columns of the state that one task advances: the largest divisor of E up to
// 256, unless that is so small that the tasks would be mere overhead.
size_t ColumnsOfHead(size_t E) {
  size_t columns = std::min<size_t>(E, 256);
  while (E % columns != 0) --columns;
  return columns < 32 ? E : columns;
}

// W_dt's inner width. Errors name the key.
absl::StatusOr<size_t> ReadRank(const MixerBuilder& from) {
  const Config& config = from.config;
  const absl::string_view key =
      config.Has("dt_rank") ? "dt_rank" : "time_step_rank";
  const absl::StatusOr<std::string> name = config.String(key, "auto");
  if (name.ok() && *name == "auto") return (from.hidden_size + 15) / 16;
  return config.Size(key, 0, {1, 1 << 20});
}

class Mamba final : public Mixer {
 public:
  static absl::StatusOr<std::unique_ptr<Mixer>> Make(const MixerBuilder& from);
  static absl::StatusOr<std::unique_ptr<Mixer>> MakeFalcon(
      const MixerBuilder& from);

  void Forward(std::span<const Segment> segments, size_t rows, const float* x,
               float* y, Workspace& workspace) const override;

 private:
  // Scratch memory of a row, in floats.
  struct Places {
    RowSlice xz;   // 2 E
    RowSlice low;  // rank + 2 N
    RowSlice dt;   // E
    RowSlice v;    // E
    RowSlice out;  // E
  };

  // All of it but its width.
  absl::Status Take(const MixerBuilder& from);
  absl::Status TakeProjections(const MixerBuilder& from);
  absl::Status MakeRecurrence(const MixerBuilder& from);
  // Normalises low, B and C of a row, if that is asked for.
  void Normalize(float* low) const;

  size_t D_ = 0;                   // hidden_size
  size_t E_ = 0;                   // channels
  size_t N_ = 0;                   // state width of a channel
  size_t rank_ = 0;                // of dt's projection
  size_t columns_ = 0;             // channels of a head
  std::optional<float> norm_eps_;  // of low, B and C; absent: they have no norm
  std::unique_ptr<Linear> in_;     // D -> 2 E: x, z
  std::unique_ptr<Linear> x_;      // E -> rank + 2 N: low, B, C
  std::unique_ptr<Linear> dt_;     // rank -> E
  std::unique_ptr<Linear> out_;    // E -> D
  CausalConvs conv_;
  GatedRecurrence recurrence_;
  std::vector<float> skip_;  // D of the formula, f32[E]
  Places at_;
};

absl::Status Mamba::TakeProjections(const MixerBuilder& from) {
  const WeightScope& weights = from.weights;
  STEADYSTATE_ASSIGN_OR_RETURN(const Bias bias, ReadMambaBias(from));
  STEADYSTATE_ASSIGN_OR_RETURN(
      in_, MakeProjection(weights, "in_proj", D_, 2 * E_, from.linears, bias));
  STEADYSTATE_ASSIGN_OR_RETURN(
      x_, MakeProjection(weights, "x_proj", E_, rank_ + 2 * N_, from.linears));
  STEADYSTATE_ASSIGN_OR_RETURN(
      dt_,
      MakeProjection(weights, "dt_proj", rank_, E_, from.linears, Bias::kYes));
  STEADYSTATE_ASSIGN_OR_RETURN(
      out_, MakeProjection(weights, "out_proj", E_, D_, from.linears, bias));
  return absl::OkStatus();
}

absl::Status Mamba::MakeRecurrence(const MixerBuilder& from) {
  STEADYSTATE_ASSIGN_OR_RETURN(const std::vector<float> stored,
                               TakeRates(from.weights, "A_log", {E_, N_}));
  const size_t heads = E_ / columns_;
  std::vector<float> rate(E_ * N_);  // [heads, N, columns]
  for (size_t e = 0; e < E_; ++e) {
    for (size_t n = 0; n < N_; ++n) {
      const size_t head = e / columns_;
      rate[(head * N_ + n) * columns_ + e % columns_] = stored[e * N_ + n];
    }
  }
  STEADYSTATE_ASSIGN_OR_RETURN(
      recurrence_, GatedRecurrence::Make(from, {.query_heads = heads,
                                                .state_heads = heads,
                                                .K = N_,
                                                .V = columns_,
                                                .decay = Decay::kFull,
                                                .rate = std::move(rate)}));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Mixer>> Mamba::Make(const MixerBuilder& from) {
  auto mamba = std::make_unique<Mamba>();
  STEADYSTATE_ASSIGN_OR_RETURN(mamba->E_, ReadMambaWidth(from));
  STEADYSTATE_RETURN_IF_ERROR(mamba->Take(from));
  return mamba;
}

absl::StatusOr<std::unique_ptr<Mixer>> Mamba::MakeFalcon(
    const MixerBuilder& from) {
  auto mamba = std::make_unique<Mamba>();
  STEADYSTATE_ASSIGN_OR_RETURN(
      mamba->E_, from.config.Size("intermediate_size", 0, {1, 1 << 24}));
  if (mamba->E_ == 0) {
    STEADYSTATE_ASSIGN_OR_RETURN(mamba->E_, ReadMambaWidth(from));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(
      const double eps, from.config.Number("mixer_rms_eps", 1e-6, {0, 1}));
  mamba->norm_eps_ = static_cast<float>(eps);
  STEADYSTATE_RETURN_IF_ERROR(mamba->Take(from));
  return mamba;
}

absl::Status Mamba::Take(const MixerBuilder& from) {
  D_ = from.hidden_size;
  STEADYSTATE_ASSIGN_OR_RETURN(N_,
                               from.config.Size("state_size", 16, {1, 65536}));
  STEADYSTATE_ASSIGN_OR_RETURN(rank_, ReadRank(from));
  columns_ = ColumnsOfHead(E_);
  STEADYSTATE_RETURN_IF_ERROR(TakeProjections(from));
  STEADYSTATE_ASSIGN_OR_RETURN(const MambaConv conv,
                               ReadMambaConv(from.config));
  STEADYSTATE_RETURN_IF_ERROR(conv_.Add(from, ConvNames(), 0, E_, conv.taps,
                                        Activation::kSilu, conv.bias));
  STEADYSTATE_RETURN_IF_ERROR(MakeRecurrence(from));
  STEADYSTATE_ASSIGN_OR_RETURN(skip_, from.weights.TakeFloats("D", {E_}));
  RowScratchPlan plan(from.scratch);
  at_ = {.xz = plan.Add(2 * E_),
         .low = plan.Add(rank_ + 2 * N_),
         .dt = plan.Add(E_),
         .v = plan.Add(E_),
         .out = plan.Add(E_)};
  return absl::OkStatus();
}

void Mamba::Normalize(float* low) const {
  float* const B = low + rank_;
  RmsNorm(rank_, low, nullptr, *norm_eps_, low);
  RmsNorm(N_, B, nullptr, *norm_eps_, B);
  RmsNorm(N_, B + N_, nullptr, *norm_eps_, B + N_);
}

void Mamba::Forward(std::span<const Segment> segments, size_t rows,
                    const float* x, float* y, Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  const PhaseScope scope(buffers.phases, Phase::kRecurrence);
  const size_t low_width = rank_ + 2 * N_;
  const RowScratch scratch = buffers.OfRows(rows);
  float* xz = scratch[at_.xz];
  float* low = scratch[at_.low];
  float* dt = scratch[at_.dt];
  float* v = scratch[at_.v];
  float* out = scratch[at_.out];

  buffers.Project(*in_, rows, x, D_, xz, 2 * E_);
  conv_.Run(segments, xz, 2 * E_, buffers);
  buffers.Project(*x_, rows, xz, 2 * E_, low, low_width);
  if (norm_eps_.has_value()) {
    buffers.ForRows(rows, low_width, [&](size_t row, size_t) {
      Normalize(low + row * low_width);
    });
  }
  buffers.Project(*dt_, rows, low, low_width, dt, E_);
  buffers.ForRows(rows, 2 * E_, [&](size_t row, size_t) {
    float* step = dt + row * E_;
    Activate(Activation::kSoftplus, E_, step, step);
    ActivateAndMultiply(Activation::kIdentity, E_, step, xz + row * 2 * E_,
                        v + row * E_);
  });
  recurrence_.Run(segments,
                  {.q = {low + rank_ + N_, low_width, 0},
                   .k = {low + rank_, low_width, 0},
                   .v = {v, E_, columns_},
                   .beta = {dt, E_, columns_}},
                  out, E_, buffers);
  buffers.ForRows(rows, 2 * E_, [&](size_t row, size_t) {
    float* o = out + row * E_;
    const float* x_row = xz + row * 2 * E_;
    for (size_t e = 0; e < E_; ++e) o[e] += skip_[e] * x_row[e];
    ActivateAndMultiply(Activation::kSilu, E_, x_row + E_, o, o);
  });
  buffers.Project(*out_, rows, out, E_, y, D_);
}

// The defaults of transformers' MambaConfig, or of fla's.
absl::StatusOr<FamilyDefaults> ReadDefaults(const Config& config) {
  if (IsMambaOfFla(config)) {
    return FamilyDefaults{.hidden_size = 2048, .layers = 48, .norm_eps = 1e-5};
  }
  // transformers ties the head where the file does not say, and to 4.57.6 does
  // not write that down; 5.0 alone does not tie.
  const std::optional<LibraryVersion> version = TransformersVersion(config);
  const bool ties = version.has_value() && version->major < 5;
  return FamilyDefaults{.hidden_size = 768,
                        .layers = 32,
                        .vocab_size = 50280,
                        .norm_eps = 1e-5,
                        .bos_token = 0,
                        .eos_token = 0,
                        .tied_head = ties ? TiedHead::kYes : TiedHead::kNo};
}

}  // namespace

Family MambaFamily() {
  return {.model_type = "mamba",
          .source = "mamba.cc",
          .keys = {.used = kUsedKeys,
                   .inert = kInertKeys,
                   .must_be_default = kFixedKeys},
          .frame = MambaFrame(),
          .read_defaults = ReadDefaults,
          .layer = {.channels = ChannelMixer::kNone},
          .hybrid = false,
          .bf16_states = true,
          .make_token_mixer = Mamba::Make};
}

Family FalconMambaFamily() {
  Family family = MambaFamily();
  family.model_type = "falcon_mamba";
  family.keys = {
      .used = kFalconKeys, .inert = kFalconInertKeys, .must_be_default = {}};
  family.defaults = {.hidden_size = 768,
                     .layers = 32,
                     .vocab_size = 50280,
                     .norm_eps = 1e-5,
                     .bos_token = 0,
                     .eos_token = 0,
                     .tied_head = TiedHead::kYes};
  family.read_defaults = nullptr;
  family.make_token_mixer = Mamba::MakeFalcon;
  return family;
}

}  // namespace steadystate
