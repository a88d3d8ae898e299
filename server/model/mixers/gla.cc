// Gated linear attention (Yang et al. 2023), as fla's model_type "gla":
//   q, k, v = W_q x, W_k x, W_v x     optionally conv + silu, then feature map
//   log a_t = max(logsigmoid(W_2 W_1 x + b) / 16, clamp_min)
//   S_t = diag(a_t) S_{t-1} + k_t v_t^T,   o_t = K^-1/2 S_t^T q_t
//   y   = W_o (RMSNorm(o, per head) * silu(W_g x))
// The token's own (k, v) is in o. H query heads share G key/value heads, H/G
// each; they then share decay and state too, which is kept once per kv head.
// The paper has no 1/16, no norm and a sigmoid gate; the rank of W_2 W_1 is 16
// in fla and read from the tensor's shape here.
#include "server/model/mixers/gla.h"

#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/pointwise/activation.h"
#include "kernels/pointwise/norm.h"
#include "kernels/recurrence/key_decay.h"
#include "server/base/status_macros.h"
#include "server/model/causal_conv.h"
#include "server/model/workspace.h"

namespace steadystate {
namespace {

constexpr absl::string_view kUsedKeys[] = {
    "expand_k",    "expand_v",          "num_heads", "num_kv_heads",
    "feature_map", "use_short_conv",    "conv_size", "use_output_gate",
    "clamp_min",   "elementwise_affine"};
constexpr absl::string_view kInertKeys[] = {"use_gk", "use_gv",
                                            "share_conv_kernel"};
constexpr FixedKey kFixedKeys[] = {{"gate_logit_normalizer", "16"}};

constexpr float kTemperature = 16;

struct Shape {
  size_t D = 0;     // hidden_size
  size_t H = 0;     // query heads
  size_t G = 0;     // key/value heads
  size_t K = 0;     // key width of a head
  size_t V = 0;     // value width of a head
  size_t rank = 0;  // of the decay's projection
  size_t W = 0;     // taps of the short convolution; 0: none
  bool gated = true;

  // Columns of the fused projection: q | k | v | gate | decay's inner part.
  size_t k_column() const { return H * K; }
  size_t v_column() const { return k_column() + G * K; }
  size_t gate_column() const { return v_column() + G * V; }
  size_t rank_column() const { return gate_column() + (gated ? H * V : 0); }
  size_t columns() const { return rank_column() + rank; }
};

// The convolution of one of q, k and v.
struct ConvPart {
  CausalConv conv;
  size_t column = 0;  // of the fused projection
};

class Gla final : public Mixer {
 public:
  static absl::StatusOr<std::unique_ptr<Mixer>> Make(const MixerBuilder& from);

  void Forward(std::span<const Segment> segments, size_t rows, const float* x,
               float* y, Workspace& workspace) const override;

 private:
  absl::Status ReadShape(const MixerBuilder& from);
  absl::Status ReadOptions(const MixerBuilder& from);
  absl::Status TakeProjections(const MixerBuilder& from);
  absl::Status TakeConvs(const MixerBuilder& from);
  absl::Status TakeNorm(const MixerBuilder& from);

  // Advances one kv head and the query heads that read it over a segment.
  void Advance(const Segment& segment, size_t kv_head, const float* fused,
               const float* decay, float* out) const;

  Shape shape_;
  float eps_ = 0;
  float scale_ = 0;
  float floor_ = 0;  // of log decay
  std::optional<Activation> feature_map_;
  std::unique_ptr<Linear> fused_;                  // D -> columns()
  std::unique_ptr<Linear> decay_up_;               // rank -> G K
  std::unique_ptr<Linear> out_;                    // H V -> D
  std::optional<std::vector<float>> norm_weight_;  // f32[V]
  std::vector<ConvPart> convs_;
  std::vector<float> ones_, zeros_;  // f32[K]
  SlotHandle state_;                 // f32[G, K, V]
};

absl::Status Gla::ReadShape(const MixerBuilder& from) {
  const Config& config = from.config;
  Shape& s = shape_;
  s.D = from.hidden_size;
  STEADYSTATE_ASSIGN_OR_RETURN(s.H, config.Size("num_heads", 4, {1, 4096}));
  STEADYSTATE_ASSIGN_OR_RETURN(s.G,
                               config.Size("num_kv_heads", s.H, {1, 4096}));
  if (s.H % s.G != 0) {
    return config.Invalid("num_kv_heads",
                          absl::StrCat("it must divide num_heads, ", s.H));
  }
  const auto head_width = [&](absl::string_view key,
                              double fallback) -> absl::StatusOr<size_t> {
    STEADYSTATE_ASSIGN_OR_RETURN(const double expand,
                                 config.Number(key, fallback, {0, 64}));
    const auto width = static_cast<size_t>(static_cast<double>(s.D) * expand);
    if (width == 0 || width % s.H != 0) {
      return config.Invalid(
          key, absl::StrCat(
                   "hidden_size times it, rounded down, is ", width,
                   ", which must be a positive multiple of num_heads, ", s.H));
    }
    return width / s.H;
  };
  STEADYSTATE_ASSIGN_OR_RETURN(s.K, head_width("expand_k", 0.5));
  STEADYSTATE_ASSIGN_OR_RETURN(s.V, head_width("expand_v", 1));
  STEADYSTATE_ASSIGN_OR_RETURN(s.gated, config.Bool("use_output_gate", true));
  STEADYSTATE_ASSIGN_OR_RETURN(const bool conv,
                               config.Bool("use_short_conv", false));
  if (conv) {
    STEADYSTATE_ASSIGN_OR_RETURN(s.W, config.Size("conv_size", 4, {1, 64}));
  }
  const auto inner = from.weights.ShapeOf("gk_proj.0.weight");
  const bool has_rank = inner.has_value() && inner->size() == 2;
  s.rank = has_rank ? (*inner)[0] : 16;
  return absl::OkStatus();
}

absl::Status Gla::ReadOptions(const MixerBuilder& from) {
  const Config& config = from.config;
  eps_ = from.norm_eps;
  scale_ = 1.0f / std::sqrt(static_cast<float>(shape_.K));
  STEADYSTATE_ASSIGN_OR_RETURN(const std::optional<double> floor,
                               config.OptionalNumber("clamp_min", {-1e9, 0}));
  floor_ = floor.has_value() ? static_cast<float>(*floor)
                             : -std::numeric_limits<float>::infinity();
  if (config.Has("feature_map")) {
    STEADYSTATE_ASSIGN_OR_RETURN(feature_map_,
                                 config.ActivationOf("feature_map", ""));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(const Activation act,
                               config.ActivationOf("hidden_act", "swish"));
  if (shape_.gated && act != Activation::kSilu) {
    return config.Unsupported("hidden_act",
                              "gla's output gate is supported with \"swish\"");
  }
  return absl::OkStatus();
}

absl::Status Gla::TakeProjections(const MixerBuilder& from) {
  const Shape& s = shape_;
  std::vector<WeightRows> parts;
  const auto add = [&](absl::string_view name, size_t rows) -> absl::Status {
    STEADYSTATE_ASSIGN_OR_RETURN(const TypedData data,
                                 from.weights.Take(name, {rows, s.D}));
    parts.push_back({data, rows});
    return absl::OkStatus();
  };
  STEADYSTATE_RETURN_IF_ERROR(add("q_proj.weight", s.H * s.K));
  STEADYSTATE_RETURN_IF_ERROR(add("k_proj.weight", s.G * s.K));
  STEADYSTATE_RETURN_IF_ERROR(add("v_proj.weight", s.G * s.V));
  if (s.gated) {
    STEADYSTATE_RETURN_IF_ERROR(add("g_proj.weight", s.H * s.V));
  }
  STEADYSTATE_RETURN_IF_ERROR(add("gk_proj.0.weight", s.rank));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const TypedData up,
      from.weights.Take("gk_proj.1.weight", {s.G * s.K, s.rank}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const std::vector<float> bias,
      from.weights.TakeFloats("gk_proj.1.bias", {s.G * s.K}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const TypedData out,
      from.weights.Take("o_proj.weight", {s.D, s.H * s.V}));

  STEADYSTATE_ASSIGN_OR_RETURN(fused_, from.linears.Make(s.D, parts));
  STEADYSTATE_ASSIGN_OR_RETURN(
      decay_up_, from.linears.Make(s.rank, {{{up, s.G * s.K}}}, bias));
  STEADYSTATE_ASSIGN_OR_RETURN(out_,
                               from.linears.Make(s.H * s.V, {{{out, s.D}}}));
  return absl::OkStatus();
}

absl::Status Gla::TakeConvs(const MixerBuilder& from) {
  const Shape& s = shape_;
  if (s.W == 0) return absl::OkStatus();
  const auto add = [&](absl::string_view part, size_t column,
                       size_t channels) -> absl::Status {
    STEADYSTATE_ASSIGN_OR_RETURN(
        CausalConv conv,
        CausalConv::Make(from, part, channels, s.W, Activation::kSilu));
    convs_.push_back({std::move(conv), column});
    return absl::OkStatus();
  };
  STEADYSTATE_RETURN_IF_ERROR(add("q", 0, s.H * s.K));
  STEADYSTATE_RETURN_IF_ERROR(add("k", s.k_column(), s.G * s.K));
  return add("v", s.v_column(), s.G * s.V);
}

absl::Status Gla::TakeNorm(const MixerBuilder& from) {
  STEADYSTATE_ASSIGN_OR_RETURN(const bool affine,
                               from.config.Bool("elementwise_affine", true));
  if (!affine) return absl::OkStatus();
  // Which name a checkpoint has depends on fused kernels at training time.
  STEADYSTATE_ASSIGN_OR_RETURN(norm_weight_, from.weights.TakeFloatsOfEither(
                                                 "g_norm_swish_gate.weight",
                                                 "g_norm.weight", {shape_.V}));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Mixer>> Gla::Make(const MixerBuilder& from) {
  auto gla = std::make_unique<Gla>();
  STEADYSTATE_RETURN_IF_ERROR(gla->ReadShape(from));
  STEADYSTATE_RETURN_IF_ERROR(gla->ReadOptions(from));
  STEADYSTATE_RETURN_IF_ERROR(gla->TakeProjections(from));
  STEADYSTATE_RETURN_IF_ERROR(gla->TakeNorm(from));
  const Shape& s = gla->shape_;
  STEADYSTATE_ASSIGN_OR_RETURN(
      gla->state_, from.state.AddFixed(from.layer, "S", {s.G, s.K, s.V}));
  STEADYSTATE_RETURN_IF_ERROR(gla->TakeConvs(from));
  gla->ones_.assign(s.K, 1.0f);
  gla->zeros_.assign(s.K, 0.0f);
  from.scratch.Need(s.columns() + s.G * s.K + s.H * s.V, 0);
  return gla;
}

void Gla::Forward(std::span<const Segment> segments, size_t rows,
                  const float* x, float* y, Workspace& workspace) const {
  const Shape& s = shape_;
  Workspace::Buffers& buffers = workspace.buffers();
  const PhaseScope scope(buffers.phases, Phase::kRecurrence);
  float* fused = buffers.scratch.data();      // f32[rows, columns]
  float* decay = fused + rows * s.columns();  // f32[rows, G K]
  float* out = decay + rows * s.G * s.K;      // f32[rows, H V]

  buffers.Project(*fused_, rows, x, s.D, fused, s.columns());
  buffers.Project(*decay_up_, rows, fused + s.rank_column(), s.columns(), decay,
                  s.G * s.K);
  buffers.pool.ParallelFor(segments.size() * convs_.size(),
                           [&](size_t i, size_t) {
                             const ConvPart& part = convs_[i % convs_.size()];
                             part.conv.Run(segments[i / convs_.size()],
                                           fused + part.column, s.columns());
                           });
  buffers.ForRows(rows, s.v_column() + s.G * s.K, [&](size_t row, size_t) {
    float* qk = fused + row * s.columns();
    if (feature_map_.has_value()) {
      Activate(*feature_map_, s.v_column(), qk, qk);
    }
    float* decay_row = decay + row * s.G * s.K;
    LogSigmoidDecay(s.G * s.K, decay_row, kTemperature, floor_, decay_row);
  });
  buffers.pool.ParallelFor(segments.size() * s.G, [&](size_t i, size_t) {
    Advance(segments[i / s.G], i % s.G, fused, decay, out);
  });
  buffers.Project(*out_, rows, out, s.H * s.V, y, s.D);
}

void Gla::Advance(const Segment& segment, size_t kv_head, const float* fused,
                  const float* decay, float* out) const {
  const Shape& s = shape_;
  const size_t group = s.H / s.G;
  const float* weight =
      norm_weight_.has_value() ? norm_weight_->data() : nullptr;
  float* state = state_.In(segment.state) + kv_head * s.K * s.V;
  for (size_t t = 0; t < segment.rows; ++t) {
    const size_t row = segment.first_row + t;
    const float* in = fused + row * s.columns();
    const float* v = in + s.v_column() + kv_head * s.V;
    // The first query head of the group moves the state on; the others read it:
    // a decay of one and a key of zero leave it as it is.
    const float* a = decay + (row * s.G + kv_head) * s.K;
    const float* k = in + s.k_column() + kv_head * s.K;
    for (size_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
      float* o = out + (row * s.H + h) * s.V;
      KeyDecayStep(s.K, s.V, scale_, a, in + h * s.K, k, v, state, o);
      if (s.gated) {
        GatedRmsNorm(s.V, o, in + s.gate_column() + h * s.V, weight, eps_,
                     Activation::kSilu, o);
      } else {
        RmsNorm(s.V, o, weight, eps_, o);
      }
      a = ones_.data();
      k = zeros_.data();
    }
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Mixer>> MakeGla(const MixerBuilder& builder) {
  return Gla::Make(builder);
}

KeyTable GlaKeys() {
  return {
      .used = kUsedKeys, .inert = kInertKeys, .must_be_default = kFixedKeys};
}

}  // namespace steadystate
