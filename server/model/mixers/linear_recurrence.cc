// The recursive form that most families are special cases of, its parts chosen
// by config.json; model_type "linear_recurrence" is our own:
//   q, k, v = W_q x, W_k x, W_v x     conv + silu if conv_size > 0
//   q, k <- phi(rotary(.))
//   S_t = G_t o S_{t-1} + k_t v_t^T,   o_t = S_t^T (c q_t)
//   z_t = G_t o z_{t-1} + k_t,   o_t <- o_t / (c q_t . z_t + eps)
//   y   = W_o (RMSNorm(o, per head) * act(W_g x))
// with the z of "normalizer", the norm and the gate as options. Kinds of G are
// in parts/decay_gate.h; with input "complement" k is 1 - G of a key decay.
//
// Published models in these terms:
//   linear attention (Katharopoulos et al. 2020)  none, elu, "z"
//   RetNet as in the paper's recursive form       constant "retnet", q_scale 1
//   lightning attention (fla; MiniMax-01)         constant "lightning_..."
//   gated retention (YOCO)     scalar, temperature 16, interleaved rotary
//   Mamba-2's core             scalar, exp_softplus
//   GLA as in the paper        key of low rank, sigmoid gate, q_scale 1
//   HGRN-2's core              key, complement
//   DFW; Mamba's core; GateLoop                   outer; full; key_complex
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "kernels/feature_map/feature_map.h"
#include "kernels/pointwise/activation.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/config.h"
#include "server/model/mixers/mixers.h"
#include "server/model/parts/causal_conv.h"
#include "server/model/parts/decay_gate.h"
#include "server/model/parts/gated_recurrence.h"
#include "server/model/parts/heads.h"
#include "server/model/parts/projection.h"
#include "server/model/parts/query_key.h"
#include "server/model/workspace.h"

namespace steadystate {
namespace {

using NormKind = HeadOutput::NormKind;
using Pairs = RotaryRows::Pairs;

constexpr absl::string_view kUsedKeys[] = {
    "num_heads",  "head_k_dim",     "head_v_dim",  "feature_map", "q_scale",
    "rotary",     "rope_theta",     "conv_size",   "decay",       "input",
    "normalizer", "normalizer_eps", "output_norm", "output_gate"};

constexpr Bounds kHeads = {1, 4096};
constexpr Bounds kHeadWidths = {1, 1 << 16};
constexpr Bounds kTaps = {0, 64};
constexpr Bounds kScales = {-1e30, 1e30};

enum class ElementMap : uint8_t { kIdentity, kElu, kRelu, kSoftmax };
constexpr Choice<ElementMap> kFeatureMaps[] = {
    {"identity", ElementMap::kIdentity},
    {"elu", ElementMap::kElu},
    {"relu", ElementMap::kRelu},
    {"softmax", ElementMap::kSoftmax}};
constexpr Choice<std::optional<Pairs>> kRotaries[] = {
    {"none", std::nullopt},
    {"half", Pairs::kHalves},
    {"interleaved", Pairs::kInterleaved}};
constexpr Choice<bool> kInputs[] = {{"plain", false}, {"complement", true}};
constexpr Choice<bool> kNormalizers[] = {{"none", false}, {"z", true}};
constexpr Choice<NormKind> kOutputNorms[] = {{"none", NormKind::kNone},
                                             {"rmsnorm", NormKind::kRms}};
constexpr Choice<std::optional<Activation>> kOutputGates[] = {
    {"none", std::nullopt},
    {"sigmoid", Activation::kSigmoid},
    {"swish", Activation::kSilu}};

// What config.json says, `decay` aside.
struct Options {
  size_t H = 0;
  size_t K = 0;
  size_t V = 0;
  ElementMap feature_map = ElementMap::kIdentity;
  float q_scale = 1;
  std::optional<Pairs> rotary{};
  double rope_theta = 0;
  size_t conv_taps = 0;
  bool complement = false;
  std::optional<float> normalizer_eps{};
  NormKind output_norm = NormKind::kNone;
  std::optional<Activation> gate{};
};

absl::StatusOr<size_t> RequiredSize(const Config& config, absl::string_view key,
                                    Bounds bounds) {
  if (!config.Has(key)) {
    return config.Invalid(key, "linear_recurrence needs it");
  }
  return config.Size(key, 0, bounds);
}

// A number, or "rsqrt_k" for K^-1/2.
absl::StatusOr<float> ReadScale(const Config& config, size_t K) {
  constexpr Choice<bool> kNames[] = {{"rsqrt_k", true}};
  if (config.String("q_scale", "").ok()) {
    STEADYSTATE_RETURN_IF_ERROR(
        ReadChoice<bool>(config, "q_scale", kNames).status());
    return 1.0f / std::sqrt(static_cast<float>(K));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(const double scale,
                               config.Number("q_scale", 1, kScales));
  return static_cast<float>(scale);
}

absl::Status ReadNormalizer(const Config& config, Options& options) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      const bool normalizer,
      ReadChoice<bool>(config, "normalizer", kNormalizers));
  STEADYSTATE_ASSIGN_OR_RETURN(const double eps,
                               config.Number("normalizer_eps", 1e-6, {0, 1e6}));
  if (normalizer) options.normalizer_eps = static_cast<float>(eps);
  return absl::OkStatus();
}

absl::StatusOr<Options> ReadOptions(const Config& config) {
  Options o;
  STEADYSTATE_ASSIGN_OR_RETURN(o.H, RequiredSize(config, "num_heads", kHeads));
  STEADYSTATE_ASSIGN_OR_RETURN(o.K,
                               RequiredSize(config, "head_k_dim", kHeadWidths));
  STEADYSTATE_ASSIGN_OR_RETURN(o.V,
                               RequiredSize(config, "head_v_dim", kHeadWidths));
  STEADYSTATE_ASSIGN_OR_RETURN(
      o.feature_map,
      ReadChoice<ElementMap>(config, "feature_map", kFeatureMaps));
  STEADYSTATE_ASSIGN_OR_RETURN(o.q_scale, ReadScale(config, o.K));
  STEADYSTATE_ASSIGN_OR_RETURN(
      o.rotary, ReadChoice<std::optional<Pairs>>(config, "rotary", kRotaries));
  STEADYSTATE_ASSIGN_OR_RETURN(o.rope_theta,
                               config.Number("rope_theta", 10000, {1, 1e12}));
  STEADYSTATE_ASSIGN_OR_RETURN(o.conv_taps, config.Size("conv_size", 0, kTaps));
  STEADYSTATE_ASSIGN_OR_RETURN(o.complement,
                               ReadChoice<bool>(config, "input", kInputs));
  STEADYSTATE_RETURN_IF_ERROR(ReadNormalizer(config, o));
  STEADYSTATE_ASSIGN_OR_RETURN(
      o.output_norm, ReadChoice<NormKind>(config, "output_norm", kOutputNorms));
  STEADYSTATE_ASSIGN_OR_RETURN(
      o.gate, ReadChoice<std::optional<Activation>>(config, "output_gate",
                                                    kOutputGates));
  return o;
}

// Which options go with which decays.
absl::Status CheckTogether(const Config& config, const Options& options,
                           const DecayOptions& decay) {
  if (options.complement && decay.kind != Decay::kKey) {
    return config.Unsupported("input",
                              "it needs a decay.kind of \"key\", whose "
                              "complement it is");
  }
  const bool of_keys = decay.kind == Decay::kNone ||
                       decay.kind == Decay::kScalar ||
                       decay.kind == Decay::kKey;
  if (options.normalizer_eps.has_value() && !of_keys) {
    return config.Unsupported(
        "normalizer",
        "it needs a decay.kind of \"none\", \"constant\", \"scalar\" or "
        "\"key\", as it decays along the key axis");
  }
  return absl::OkStatus();
}

class LinearRecurrence final : public Mixer {
 public:
  static absl::StatusOr<std::unique_ptr<Mixer>> Make(const MixerBuilder& from);

  void Forward(std::span<const Segment> segments, size_t rows, const float* x,
               float* y, Workspace& workspace) const override;

  bool bidirectional() const override {
    return recurrence_.bidirectional() && options_.conv_taps == 0;
  }

 private:
  // Scratch memory of a row, in floats; the decays have their own.
  struct Places {
    RowSlice fused;   // columns
    RowSlice out;     // H V
    RowSlice rest{};  // H K, with a complement
  };

  absl::Status TakeProjections(const MixerBuilder& from, DecayOptions decay,
                               RowScratchPlan& plan);
  absl::Status TakeConvs(const MixerBuilder& from);
  absl::Status MakeRotary(const MixerBuilder& from);
  absl::Status MakeRecurrence(const MixerBuilder& from, Decay decay);
  absl::Status MakeOutput(const MixerBuilder& from);

  // q and k of a row, or q alone: f32[heads, K].
  void Map(size_t heads, float* x) const;
  // Heads of q, and of k unless it is the complement.
  size_t mapped_heads() const {
    return options_.complement ? options_.H : 2 * options_.H;
  }

  size_t D_ = 0;
  Options options_;
  // Columns of the fused projection; k follows q.
  size_t q_ = 0, k_ = 0, v_ = 0, gate_ = 0, columns_ = 0;
  std::unique_ptr<Linear> fused_;  // D -> columns_
  std::unique_ptr<Linear> out_;    // H V -> D
  CausalConvs convs_;
  std::optional<RotaryRows> rotary_;
  DecayGate decay_;
  GatedRecurrence recurrence_;
  HeadOutput output_;
  Places at_;
};

absl::Status LinearRecurrence::TakeProjections(const MixerBuilder& from,
                                               DecayOptions decay,
                                               RowScratchPlan& plan) {
  const Options& o = options_;
  ProjectionStack stack(from.weights, D_);
  STEADYSTATE_ASSIGN_OR_RETURN(q_, stack.Add("q_proj", o.H * o.K));
  if (!o.complement) {
    STEADYSTATE_ASSIGN_OR_RETURN(k_, stack.Add("k_proj", o.H * o.K));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(v_, stack.Add("v_proj", o.H * o.V));
  if (o.gate.has_value()) {
    STEADYSTATE_ASSIGN_OR_RETURN(gate_, stack.Add("g_proj", o.H * o.V));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(
      decay_,
      DecayGate::Make(from, std::move(decay), o.H, o.K, o.V, stack, plan));
  columns_ = stack.columns();
  STEADYSTATE_ASSIGN_OR_RETURN(fused_, stack.Pack(from.linears));
  STEADYSTATE_ASSIGN_OR_RETURN(
      out_,
      MakeProjection(from.weights, "o_proj", o.H * o.V, D_, from.linears));
  return absl::OkStatus();
}

absl::Status LinearRecurrence::TakeConvs(const MixerBuilder& from) {
  const Options& o = options_;
  if (o.conv_taps == 0) return absl::OkStatus();
  const size_t W = o.conv_taps;
  const Activation act = Activation::kSilu;
  STEADYSTATE_RETURN_IF_ERROR(
      convs_.Add(from, ConvNames::Of("q"), q_, o.H * o.K, W, act));
  if (!o.complement) {
    STEADYSTATE_RETURN_IF_ERROR(
        convs_.Add(from, ConvNames::Of("k"), k_, o.H * o.K, W, act));
  }
  return convs_.Add(from, ConvNames::Of("v"), v_, o.H * o.V, W, act);
}

absl::Status LinearRecurrence::MakeRotary(const MixerBuilder& from) {
  if (!options_.rotary.has_value()) return absl::OkStatus();
  STEADYSTATE_ASSIGN_OR_RETURN(rotary_,
                               RotaryRows::Make(from,
                                                {.heads = mapped_heads(),
                                                 .d = options_.K,
                                                 .base = options_.rope_theta,
                                                 .pairs = *options_.rotary},
                                                "head_k_dim"));
  return absl::OkStatus();
}

absl::Status LinearRecurrence::MakeRecurrence(const MixerBuilder& from,
                                              Decay decay) {
  const Options& o = options_;
  GatedRecurrence::Options recurrence = {.query_heads = o.H,
                                         .state_heads = o.H,
                                         .K = o.K,
                                         .V = o.V,
                                         .scale = o.q_scale,
                                         .decay = decay,
                                         .normalizer_eps = o.normalizer_eps,
                                         .constants = decay_.constants()};
  if (decay == Decay::kFull) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        recurrence.rate, TakeRates(from.weights, "A_log", {o.H, o.K, o.V}));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(
      recurrence_, GatedRecurrence::Make(from, std::move(recurrence)));
  return absl::OkStatus();
}

absl::Status LinearRecurrence::MakeOutput(const MixerBuilder& from) {
  const Options& o = options_;
  output_ = {.heads = o.H,
             .V = o.V,
             .norm = o.output_norm,
             .eps = from.norm_eps,
             .gate = o.gate};
  if (o.output_norm == NormKind::kRms) {
    STEADYSTATE_ASSIGN_OR_RETURN(output_.weight,
                                 from.weights.TakeFloats("norm.weight", {o.V}));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Mixer>> LinearRecurrence::Make(
    const MixerBuilder& from) {
  auto made = std::make_unique<LinearRecurrence>();
  made->D_ = from.hidden_size;
  STEADYSTATE_ASSIGN_OR_RETURN(made->options_, ReadOptions(from.config));
  const Options& o = made->options_;
  STEADYSTATE_ASSIGN_OR_RETURN(const DecayOptions decay,
                               ReadDecayOptions(from.config, o.H, nullptr));
  STEADYSTATE_RETURN_IF_ERROR(CheckTogether(from.config, o, decay));
  STEADYSTATE_RETURN_IF_ERROR(made->MakeRotary(from));
  RowScratchPlan plan(from.scratch);
  STEADYSTATE_RETURN_IF_ERROR(made->TakeProjections(from, decay, plan));
  STEADYSTATE_RETURN_IF_ERROR(made->MakeRecurrence(from, decay.kind));
  STEADYSTATE_RETURN_IF_ERROR(made->MakeOutput(from));
  STEADYSTATE_RETURN_IF_ERROR(made->TakeConvs(from));
  made->at_ = {.fused = plan.Add(made->columns_), .out = plan.Add(o.H * o.V)};
  if (o.complement) made->at_.rest = plan.Add(o.H * o.K);
  return made;
}

void LinearRecurrence::Map(size_t heads, float* x) const {
  const size_t K = options_.K;
  switch (options_.feature_map) {
    case ElementMap::kIdentity:
      break;
    case ElementMap::kElu:
      Activate(Activation::kEluPlusOne, heads * K, x, x);
      break;
    case ElementMap::kRelu:
      Activate(Activation::kRelu, heads * K, x, x);
      break;
    case ElementMap::kSoftmax:
      for (size_t h = 0; h < heads; ++h) JointSoftmax(K, x + h * K, x + h * K);
      break;
  }
}

void LinearRecurrence::Forward(std::span<const Segment> segments, size_t rows,
                               const float* x, float* y,
                               Workspace& workspace) const {
  const Options& o = options_;
  Workspace::Buffers& buffers = workspace.buffers();
  const PhaseScope scope(buffers.phases, Phase::kRecurrence);
  const RowScratch scratch = buffers.OfRows(rows);
  float* fused = scratch[at_.fused];
  float* out = scratch[at_.out];
  float* rest = o.complement ? scratch[at_.rest] : nullptr;

  buffers.Project(*fused_, rows, x, D_, fused, columns_);
  convs_.Run(segments, fused, columns_, buffers);
  if (rotary_.has_value()) {
    rotary_->Run(segments, fused + q_, columns_, buffers);
  }
  buffers.ForRows(rows, mapped_heads() * o.K, [&](size_t row, size_t) {
    Map(mapped_heads(), fused + row * columns_ + q_);
  });
  const DecayGate::Decays decays =
      decay_.Run(rows, fused, columns_, rest, buffers);
  const HeadRows k = o.complement ? HeadRows{rest, o.H * o.K, o.K}
                                  : HeadRows{fused + k_, columns_, o.K};
  recurrence_.Run(segments,
                  {.q = {fused + q_, columns_, o.K},
                   .k = k,
                   .v = {fused + v_, columns_, o.V},
                   .alpha = decays.alpha,
                   .beta = decays.beta,
                   .alpha_low = decays.alpha_low,
                   .beta_low = decays.beta_low},
                  out, o.H * o.V, buffers);
  buffers.ForRows(rows, o.H * o.V, [&](size_t row, size_t) {
    output_.Apply(out + row * o.H * o.V, fused + row * columns_ + gate_);
  });
  buffers.Project(*out_, rows, out, o.H * o.V, y, D_);
}

// Checks `decay`; its unknown keys become warnings.
absl::Status ReadConfig(const Config& config, ModelConfig& model) {
  STEADYSTATE_ASSIGN_OR_RETURN(const Options options, ReadOptions(config));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const DecayOptions decay,
      ReadDecayOptions(config, options.H, &model.warnings));
  return CheckTogether(config, options, decay);
}

}  // namespace

Family LinearRecurrenceFamily() {
  return {.model_type = "linear_recurrence",
          .source = "linear_recurrence.cc",
          .keys = {.used = kUsedKeys, .inert = {}, .must_be_default = {}},
          .read_config = ReadConfig,
          .make_token_mixer = LinearRecurrence::Make};
}

}  // namespace steadystate
