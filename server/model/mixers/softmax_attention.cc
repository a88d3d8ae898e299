// Softmax attention, as fla's hybrid layers and its model_type "transformer",
// and as the hybrids of transformers:
//   q, k, v = W x (+ b);  q, k <- RMSNorm if qk_norm, per head or of all
//   q, k <- rotary(position) of their first elements, half-split
//   o_h = sum_j softmax_j(scale q_h . k_j) v_j over the tokens j seen; scale is
//   d^-1/2, or stated
//   o  <- o sigmoid(g) if gated, g = W_g x, a number for each element or head
//   y   = W_o o (+ b)
// H query heads share G key/value heads, H/G each. The cache holds rotated
// keys.
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/pointwise/activation.h"
#include "kernels/pointwise/norm.h"
#include "server/base/status_macros.h"
#include "server/model/mixers/mixers.h"
#include "server/model/parts/cached_attention.h"
#include "server/model/parts/projection.h"
#include "server/model/parts/query_key.h"
#include "server/model/workspace.h"

namespace steadystate {
namespace {

constexpr absl::string_view kUsedKeys[] = {"num_heads",   "num_kv_heads",
                                           "qkv_bias",    "qk_norm",
                                           "window_size", "rope_theta"};
constexpr FixedKey kFixedKeys[] = {{"rope_scaling", "null"}};

constexpr double kMaxWindow = 1 << 24;

class SoftmaxAttention final : public Mixer {
 public:
  SoftmaxAttention(const SoftmaxAttentionOptions& options, size_t hidden_size)
      : D_(hidden_size),
        H_(options.num_heads),
        G_(options.num_kv_heads),
        d_(options.head_dim),
        gate_width_(options.gated               ? H_ * d_
                    : options.head_gate.empty() ? 0
                                                : H_) {}

  absl::Status TakeWeights(const SoftmaxAttentionOptions& options,
                           const MixerBuilder& from);
  absl::Status DeclareMemory(const SoftmaxAttentionOptions& options,
                             const MixerBuilder& from);
  absl::Status MakeRotary(const SoftmaxAttentionOptions& options,
                          const MixerBuilder& from);

  void Forward(std::span<const Segment> segments, size_t rows, const float* x,
               float* y, Workspace& workspace) const override;

 private:
  // q | k | v | gate
  size_t gate_column() const { return (H_ + 2 * G_) * d_; }
  size_t columns() const { return gate_column() + gate_width_; }

  // The gates of heads, by the name that the file has.
  absl::Status AddHeadGate(const SoftmaxAttentionOptions& options,
                           const MixerBuilder& from,
                           ProjectionStack& stack) const;
  // Normalises q and k of one row.
  void Normalize(float* row) const;
  // Multiplies the outputs of one row by their gates.
  //   gate  f32[gate_width_]  in/out
  void Gate(float* gate, float* out) const;

  const size_t D_, H_, G_;
  const size_t d_;                      // width of a head
  const size_t gate_width_;             // H d, H, or 0: there is none
  std::unique_ptr<Linear> fused_;       // D -> columns()
  std::unique_ptr<Linear> out_;         // H d -> D
  std::vector<float> q_norm_, k_norm_;  // f32[d], or [., d], or empty
  bool all_heads_ = false;              // are normalised together
  float norm_eps_ = 0;
  RotaryRows rotary_;  // of q and k
  CachedAttention attention_;
  RowSlice fused_rows_;  // columns()
  RowSlice out_rows_;    // H d
};

absl::Status SoftmaxAttention::TakeWeights(
    const SoftmaxAttentionOptions& options, const MixerBuilder& from) {
  const Bias bias = options.qkv_bias ? Bias::kYes : Bias::kNone;
  ProjectionStack stack(from.weights, D_);
  if (options.gated) {
    STEADYSTATE_RETURN_IF_ERROR(
        stack.AddOfEach("q_proj", {H_, 2 * d_, 0, d_}, bias).status());
  } else {
    STEADYSTATE_RETURN_IF_ERROR(stack.Add("q_proj", H_ * d_, bias).status());
  }
  STEADYSTATE_RETURN_IF_ERROR(stack.Add("k_proj", G_ * d_, bias).status());
  STEADYSTATE_RETURN_IF_ERROR(stack.Add("v_proj", G_ * d_, bias).status());
  if (options.gated) {
    STEADYSTATE_RETURN_IF_ERROR(
        stack.AddOfEach("q_proj", {H_, 2 * d_, d_, d_}, bias).status());
  } else {
    STEADYSTATE_RETURN_IF_ERROR(AddHeadGate(options, from, stack));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(fused_, stack.Pack(from.linears));
  STEADYSTATE_ASSIGN_OR_RETURN(
      out_, MakeProjection(from.weights, options.out, H_ * d_, D_, from.linears,
                           options.out_bias ? Bias::kYes : Bias::kNone));
  if (!options.qk_norm.has_value()) return absl::OkStatus();
  const QueryKeyNorm& norm = *options.qk_norm;
  norm_eps_ = norm.eps;
  all_heads_ = norm.all_heads;
  const auto take = [&](absl::string_view name, size_t heads,
                        std::vector<float>& weight) {
    const absl::StatusOr<std::vector<float>> stored = from.weights.TakeFloats(
        absl::StrCat(name, ".weight"), {all_heads_ ? heads * d_ : d_});
    if (!stored.ok()) return stored.status();
    weight = *stored;
    for (float& w : weight) w += norm.zero_centred ? 1.0F : 0.0F;
    return absl::OkStatus();
  };
  STEADYSTATE_RETURN_IF_ERROR(take(norm.q, H_, q_norm_));
  return take(norm.k, G_, k_norm_);
}

absl::Status SoftmaxAttention::AddHeadGate(
    const SoftmaxAttentionOptions& options, const MixerBuilder& from,
    ProjectionStack& stack) const {
  if (options.head_gate.empty()) return absl::OkStatus();
  const bool other =
      from.weights.Has(absl::StrCat(options.other_head_gate, ".weight"));
  return stack.Add(other ? options.other_head_gate : options.head_gate, H_)
      .status();
}

absl::Status SoftmaxAttention::DeclareMemory(
    const SoftmaxAttentionOptions& options, const MixerBuilder& from) {
  const float scale = options.scale.has_value()
                          ? static_cast<float>(*options.scale)
                          : 1.0f / std::sqrt(static_cast<float>(d_));
  STEADYSTATE_ASSIGN_OR_RETURN(
      attention_,
      CachedAttention::Make(from, {.heads = H_,
                                   .kv_heads = G_,
                                   .d = d_,
                                   .scale = options.key_multiplier * scale,
                                   .window = options.window}));
  RowScratchPlan plan(from.scratch);
  fused_rows_ = plan.Add(columns());
  out_rows_ = plan.Add(H_ * d_);
  return absl::OkStatus();
}

absl::Status SoftmaxAttention::MakeRotary(
    const SoftmaxAttentionOptions& options, const MixerBuilder& from) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      rotary_, RotaryRows::Make(from,
                                {.heads = H_ + G_,
                                 .d = d_,
                                 .rotated = options.rotary,
                                 .turning = options.turning_pairs,
                                 .base = options.rope_theta},
                                "num_heads"));
  return absl::OkStatus();
}

void SoftmaxAttention::Forward(std::span<const Segment> segments, size_t rows,
                               const float* x, float* y,
                               Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  const PhaseScope scope(buffers.phases, Phase::kRecurrence);
  const RowScratch scratch = buffers.OfRows(rows);
  float* fused = scratch[fused_rows_];
  float* out = scratch[out_rows_];
  buffers.Project(*fused_, rows, x, D_, fused, columns());
  if (!q_norm_.empty()) {
    buffers.ForRows(rows, columns(), [&](size_t row, size_t) {
      Normalize(fused + row * columns());
    });
  }
  rotary_.Run(segments, fused, columns(), buffers);
  attention_.Run(segments,
                 {.q = fused,
                  .q_stride = columns(),
                  .k = fused + H_ * d_,
                  .v = fused + (H_ + G_) * d_,
                  .kv_stride = columns(),
                  .o = out},
                 buffers);
  if (gate_width_ > 0) {
    buffers.ForRows(rows, H_ * d_, [&](size_t row, size_t) {
      Gate(fused + row * columns() + gate_column(), out + row * H_ * d_);
    });
  }
  buffers.Project(*out_, rows, out, H_ * d_, y, D_);
}

void SoftmaxAttention::Gate(float* gate, float* out) const {
  if (gate_width_ > H_) {
    ActivateAndMultiply(Activation::kSigmoid, gate_width_, gate, out, out);
    return;
  }
  GateHeads(H_, d_, gate, out);
}

void SoftmaxAttention::Normalize(float* row) const {
  if (all_heads_) {
    float* const k = row + H_ * d_;
    RmsNorm(H_ * d_, row, q_norm_.data(), norm_eps_, row);
    RmsNorm(G_ * d_, k, k_norm_.data(), norm_eps_, k);
    return;
  }
  for (size_t head = 0; head < H_ + G_; ++head) {
    const std::vector<float>& norm = head < H_ ? q_norm_ : k_norm_;
    RmsNorm(d_, row + head * d_, norm.data(), norm_eps_, row + head * d_);
  }
}

}  // namespace

absl::StatusOr<SoftmaxAttentionOptions> ReadSoftmaxAttentionOptions(
    const Config& object, size_t hidden_size, size_t default_heads) {
  SoftmaxAttentionOptions options;
  const Bounds heads = {1, 4096};
  if (default_heads == 0 && !object.Has("num_heads")) {
    return object.Invalid("num_heads", "softmax layers need it");
  }
  STEADYSTATE_ASSIGN_OR_RETURN(options.num_heads,
                               object.Size("num_heads", default_heads, heads));
  if (hidden_size % (2 * options.num_heads) != 0) {
    return object.Invalid("num_heads",
                          absl::StrCat("hidden_size, ", hidden_size,
                                       ", must be an even multiple of it"));
  }
  options.head_dim = hidden_size / options.num_heads;
  options.rotary = options.head_dim;
  STEADYSTATE_ASSIGN_OR_RETURN(
      options.num_kv_heads,
      object.Size("num_kv_heads", options.num_heads, heads));
  if (options.num_heads % options.num_kv_heads != 0) {
    return object.Invalid(
        "num_kv_heads",
        absl::StrCat("it must divide num_heads, ", options.num_heads));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(options.qkv_bias,
                               object.Bool("qkv_bias", false));
  STEADYSTATE_ASSIGN_OR_RETURN(const bool norm, object.Bool("qk_norm", false));
  if (norm) options.qk_norm.emplace();
  STEADYSTATE_ASSIGN_OR_RETURN(
      options.window, object.OptionalSize("window_size", {1, kMaxWindow}));
  STEADYSTATE_ASSIGN_OR_RETURN(options.rope_theta,
                               object.Number("rope_theta", 10000, {1, 1e12}));
  return options;
}

KeyTable SoftmaxAttentionKeys() {
  return {.used = kUsedKeys, .inert = {}, .must_be_default = kFixedKeys};
}

absl::StatusOr<std::unique_ptr<Mixer>> MakeSoftmaxAttention(
    const SoftmaxAttentionOptions& options, const MixerBuilder& builder) {
  auto mixer = std::make_unique<SoftmaxAttention>(options, builder.hidden_size);
  STEADYSTATE_RETURN_IF_ERROR(mixer->TakeWeights(options, builder));
  STEADYSTATE_RETURN_IF_ERROR(mixer->DeclareMemory(options, builder));
  STEADYSTATE_RETURN_IF_ERROR(mixer->MakeRotary(options, builder));
  return mixer;
}

Family TransformerFamily() {
  return {.model_type = "transformer",
          .source = "softmax_attention.cc",
          .keys = SoftmaxAttentionKeys(),
          .layer = {.tokens = TokenMixer::kSoftmax}};
}

}  // namespace steadystate
