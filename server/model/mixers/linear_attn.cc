// Linear attention (Katharopoulos et al. 2020), as fla's model_type
// "linear_attn":
//   q, k, v = W_q x, W_k x, W_v x;   f_q, f_k = phi(q), phi(k), head by head,
//     divided by their sums + 1e-4 if norm_q, norm_k
//   S_t = S_{t-1} + f_k v^T,   o_t = s S_t^T f_q,   s = width(phi)^-1/2
//   with norm_feature_map: Z_t = Z_{t-1} + f_k,  o_t <- o_t / (s f_q.Z_t +
//   1e-10) y = W_o RMSNorm(o, per head)
// The token's own (k, v) is in o. The paper always divides by Z and has no
// norm. Feature maps that fla does not have (feature_map.h) always divide by Z,
// have no s, and an eps of their own. H query heads share G key/value heads;
// where the map is the same for all heads, state is kept once per kv head.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/feature_map/feature_map.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/config.h"
#include "server/model/mixers/mixers.h"
#include "server/model/parts/gated_recurrence.h"
#include "server/model/parts/heads.h"
#include "server/model/parts/log_feature_recurrence.h"
#include "server/model/parts/projection.h"
#include "server/model/parts/query_key.h"
#include "server/model/workspace.h"

namespace steadystate {
namespace {

constexpr absl::string_view kUsedKeys[] = {"expand_k",
                                           "expand_v",
                                           "num_heads",
                                           "num_kv_heads",
                                           "feature_map",
                                           "tie_feature_map_qk",
                                           "norm_q",
                                           "norm_k",
                                           "norm_feature_map",
                                           "output_norm",
                                           "elementwise_affine"};

constexpr Choice<HeadOutput::NormKind> kOutputNorms[] = {
    {"rmsnorm", HeadOutput::NormKind::kRms},
    {"identity", HeadOutput::NormKind::kNone}};

constexpr float kSumEps = 1e-4f;  // of norm_q and norm_k

class LinearAttn final : public Mixer {
 public:
  static absl::StatusOr<std::unique_ptr<Mixer>> Make(const MixerBuilder& from);

  void Forward(std::span<const Segment> segments, size_t rows, const float* x,
               float* y, Workspace& workspace) const override;
  bool bidirectional() const override { return true; }

 private:
  // Scratch memory of a row, in floats.
  struct Places {
    RowSlice fused;     // columns
    RowSlice features;  // (H + state heads) F: f_q, f_k
    RowSlice out;       // H V
  };

  absl::Status ReadMap(const MixerBuilder& from);
  absl::Status ReadNormalizer(const MixerBuilder& from);
  absl::Status TakeProjections(const MixerBuilder& from);
  absl::Status TakeMaps(const MixerBuilder& from);
  absl::Status TakeNorm(const MixerBuilder& from);
  absl::Status MakeRecurrence(const MixerBuilder& from);

  // f_q and f_k of one row.
  void MapRow(const float* fused, float* scratch, float* features) const;

  HeadShape shape_;
  FeatureMapKind kind_ = FeatureMapKind::kElementwiseProduct;
  FeatureMapTraits traits_;
  bool tied_ = false, norm_q_ = false, norm_k_ = false, normalized_ = false;
  size_t state_heads_ = 0;  // G, or H if each head has a map of its own
  size_t q_ = 0, k_ = 0, v_ = 0, columns_ = 0;  // of the fused projection
  std::unique_ptr<Linear> fused_;               // D -> columns_
  std::unique_ptr<Linear> out_;                 // H V -> D
  FeatureMap map_q_, map_k_;
  GatedRecurrence sums_;           // unless features are logarithms
  LogFeatureRecurrence log_sums_;  // if they are
  HeadOutput output_;
  Places at_;
  WorkerSlice<float> map_scratch_;
};

absl::Status LinearAttn::ReadMap(const MixerBuilder& from) {
  const Config& config = from.config;
  STEADYSTATE_ASSIGN_OR_RETURN(
      const std::string name,
      config.String("feature_map", "elementwise_product"));
  const auto kind = FeatureMapFromName(name);
  if (!kind.has_value()) {
    return config.Unsupported("feature_map",
                              absl::StrCat("supported: ", FeatureMapNames()));
  }
  // fla's means [relu(x), -relu(x)] to 0.5.2, [relu(x), relu(-x)] since 0.6.0.
  const bool as_paper =
      *kind == FeatureMapKind::kDpfp && !IsBeforeFla06(config);
  kind_ = as_paper ? FeatureMapKind::kDpfpPaper : *kind;
  traits_ = TraitsOf(kind_);
  STEADYSTATE_ASSIGN_OR_RETURN(tied_, config.Bool("tie_feature_map_qk", false));
  STEADYSTATE_ASSIGN_OR_RETURN(norm_q_, config.Bool("norm_q", false));
  STEADYSTATE_ASSIGN_OR_RETURN(norm_k_, config.Bool("norm_k", false));
  if (traits_.logarithmic && (norm_q_ || norm_k_)) {
    return config.Unsupported(
        norm_q_ ? "norm_q" : "norm_k",
        absl::StrCat("features of '", name, "' are kept as logarithms, which ",
                     "have no such sum"));
  }
  return ReadNormalizer(from);
}

absl::Status LinearAttn::ReadNormalizer(const MixerBuilder& from) {
  const Config& config = from.config;
  STEADYSTATE_ASSIGN_OR_RETURN(
      normalized_, config.Bool("norm_feature_map", traits_.always_normalized));
  if (traits_.always_normalized && !normalized_) {
    return config.Unsupported("norm_feature_map",
                              "this feature_map is always normalised");
  }
  return absl::OkStatus();
}

absl::Status LinearAttn::TakeProjections(const MixerBuilder& from) {
  const HeadShape& s = shape_;
  ProjectionStack stack(from.weights, s.D);
  STEADYSTATE_ASSIGN_OR_RETURN(q_, stack.Add("q_proj", s.H * s.K));
  STEADYSTATE_ASSIGN_OR_RETURN(k_, stack.Add("k_proj", s.G * s.K));
  STEADYSTATE_ASSIGN_OR_RETURN(v_, stack.Add("v_proj", s.G * s.V));
  columns_ = stack.columns();
  STEADYSTATE_ASSIGN_OR_RETURN(fused_, stack.Pack(from.linears));
  STEADYSTATE_ASSIGN_OR_RETURN(
      out_,
      MakeProjection(from.weights, "o_proj", s.H * s.V, s.D, from.linears));
  return absl::OkStatus();
}

absl::Status LinearAttn::TakeMaps(const MixerBuilder& from) {
  const HeadShape& s = shape_;
  STEADYSTATE_ASSIGN_OR_RETURN(
      map_q_,
      FeatureMap::Make(from, kind_, FeatureMap::Side::kQuery, tied_, s.H, s.K));
  STEADYSTATE_ASSIGN_OR_RETURN(
      map_k_,
      FeatureMap::Make(from, kind_, FeatureMap::Side::kKey, tied_, s.H, s.K));
  if (map_q_.width() != map_k_.width()) {
    return absl::InvalidArgumentError(
        absl::StrCat("layer ", from.layer, ": feature_map_q gives ",
                     map_q_.width(), " features and feature_map_k ",
                     map_k_.width(), "; queries and keys must have as many"));
  }
  return absl::OkStatus();
}

absl::Status LinearAttn::TakeNorm(const MixerBuilder& from) {
  const Config& config = from.config;
  output_ = {.heads = shape_.H, .V = shape_.V, .eps = from.norm_eps};
  STEADYSTATE_ASSIGN_OR_RETURN(
      output_.norm,
      ReadChoice<HeadOutput::NormKind>(config, "output_norm", kOutputNorms));
  if (output_.norm == HeadOutput::NormKind::kNone) return absl::OkStatus();
  STEADYSTATE_ASSIGN_OR_RETURN(const bool affine,
                               config.Bool("elementwise_affine", true));
  if (!affine) return absl::OkStatus();
  STEADYSTATE_ASSIGN_OR_RETURN(
      output_.weight, from.weights.TakeFloats("norm.weight", {shape_.V}));
  return absl::OkStatus();
}

absl::Status LinearAttn::MakeRecurrence(const MixerBuilder& from) {
  const HeadShape& s = shape_;
  const size_t F = map_q_.width();
  if (traits_.logarithmic) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        log_sums_,
        LogFeatureRecurrence::Make(
            from, {.query_heads = s.H,
                   .state_heads = state_heads_,
                   .F = F,
                   .V = s.V,
                   .readout = kind_ == FeatureMapKind::kEfficient
                                  ? LogFeatureRecurrence::Readout::kEachFeature
                                  : LogFeatureRecurrence::Readout::kRatio}));
    return absl::OkStatus();
  }
  const float scale = traits_.always_normalized
                          ? 1.0f
                          : 1.0f / std::sqrt(static_cast<float>(F));
  STEADYSTATE_ASSIGN_OR_RETURN(
      sums_,
      GatedRecurrence::Make(
          from, {.query_heads = s.H,
                 .state_heads = state_heads_,
                 .K = F,
                 .V = s.V,
                 .scale = scale,
                 .normalizer_eps =
                     normalized_ ? std::optional(traits_.eps) : std::nullopt}));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Mixer>> LinearAttn::Make(
    const MixerBuilder& from) {
  auto made = std::make_unique<LinearAttn>();
  STEADYSTATE_ASSIGN_OR_RETURN(made->shape_, ReadHeadShape(from, {}));
  const HeadShape& s = made->shape_;
  STEADYSTATE_RETURN_IF_ERROR(made->ReadMap(from));
  made->state_heads_ = made->traits_.parameters_per_head ? s.H : s.G;
  STEADYSTATE_RETURN_IF_ERROR(made->TakeProjections(from));
  STEADYSTATE_RETURN_IF_ERROR(made->TakeMaps(from));
  STEADYSTATE_RETURN_IF_ERROR(made->TakeNorm(from));
  STEADYSTATE_RETURN_IF_ERROR(made->MakeRecurrence(from));
  const size_t F = made->map_q_.width();
  RowScratchPlan plan(from.scratch);
  made->at_ = {.fused = plan.Add(made->columns_),
               .features = plan.Add((s.H + made->state_heads_) * F),
               .out = plan.Add(s.H * s.V)};
  made->map_scratch_ =
      WorkerScratchPlan(from.scratch)
          .Add(std::max(made->map_q_.scratch(), made->map_k_.scratch()));
  return made;
}

void LinearAttn::Forward(std::span<const Segment> segments, size_t rows,
                         const float* x, float* y, Workspace& workspace) const {
  const HeadShape& s = shape_;
  const size_t F = map_q_.width();
  const size_t width = (s.H + state_heads_) * F;
  Workspace::Buffers& buffers = workspace.buffers();
  const PhaseScope scope(buffers.phases, Phase::kRecurrence);
  const RowScratch scratch = buffers.OfRows(rows);
  float* fused = scratch[at_.fused];
  float* features = scratch[at_.features];
  float* out = scratch[at_.out];

  buffers.Project(*fused_, rows, x, s.D, fused, columns_);
  buffers.ForRows(rows, 4 * width, [&](size_t row, size_t worker) {
    MapRow(fused + row * columns_, buffers.OfWorker(worker)[map_scratch_],
           features + row * width);
  });
  const HeadRows q = {features, width, F};
  const HeadRows k = {features + s.H * F, width, F};
  // A state per query head reads the values of the kv head that it shares.
  const HeadRows v = {fused + v_, columns_, s.V, state_heads_ / s.G};
  if (traits_.logarithmic) {
    log_sums_.Run(segments, {.q = q, .k = k, .v = v}, out, s.H * s.V, buffers);
  } else {
    sums_.Run(segments, {.q = q, .k = k, .v = v}, out, s.H * s.V, buffers);
  }
  buffers.ForRows(rows, s.H * s.V, [&](size_t row, size_t) {
    output_.Apply(out + row * s.H * s.V, nullptr);
  });
  buffers.Project(*out_, rows, out, s.H * s.V, y, s.D);
}

void LinearAttn::MapRow(const float* fused, float* scratch,
                        float* features) const {
  const HeadShape& s = shape_;
  const size_t F = map_q_.width();
  for (size_t h = 0; h < s.H; ++h) {
    float* to = features + h * F;
    map_q_.Apply(h, fused + q_ + h * s.K, scratch, to);
    if (norm_q_) SumNormalize(F, to, kSumEps, to);
  }
  for (size_t h = 0; h < state_heads_; ++h) {
    float* to = features + (s.H + h) * F;
    const size_t kv_head = h / (state_heads_ / s.G);
    map_k_.Apply(h, fused + k_ + kv_head * s.K, scratch, to);
    if (norm_k_) SumNormalize(F, to, kSumEps, to);
  }
}

// Says how "feature_map": "dpfp" is read, where versions of fla differ.
absl::Status ReadConfig(const Config& config, ModelConfig& model) {
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string map,
                               config.String("feature_map", ""));
  if (map != "dpfp") return absl::OkStatus();
  model.readings.push_back(
      IsBeforeFla06(config)
          ? ReadingOf(config,
                      "feature_map \"dpfp\" takes [relu(x), -relu(x)], as "
                      "flash-linear-attention before 0.6",
                      "5.6.2", "[relu(x), relu(-x)]")
          : ReadingOf(config,
                      "feature_map \"dpfp\" takes [relu(x), relu(-x)], as "
                      "flash-linear-attention 0.6",
                      "4.57.6", "[relu(x), -relu(x)]"));
  return absl::OkStatus();
}

}  // namespace

Family LinearAttnFamily() {
  return {.model_type = "linear_attn",
          .source = "linear_attn.cc",
          .keys = {.used = kUsedKeys, .inert = {}, .must_be_default = {}},
          .read_config = ReadConfig,
          .make_token_mixer = LinearAttn::Make};
}

}  // namespace steadystate
