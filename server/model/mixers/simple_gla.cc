// Gated linear attention with one gate for all of a head, as fla's layer of
// that name, for which model_type "simple_gla" is our own:
//   q, k, v = W_q x, W_k x, W_v x     conv + silu (by default), feature map
//   log g_t = max(logsigmoid(W x + b) / 16, clamp_min)     one per kv head
//   S_t = g_t S_{t-1} + k_t v_t^T,   o_t = K^-1/2 S_t^T q_t
//   y   = W_o (RMSNorm(o, per head) * silu(W_g x))
// Names, keys and their defaults are those of gla, but for the convolution.
#include <memory>

#include "kernels/pointwise/decay.h"
#include "server/base/status_macros.h"
#include "server/model/mixers/mixers.h"
#include "server/model/parts/gated_attention.h"
#include "server/model/workspace.h"

namespace steadystate {
namespace {

constexpr absl::string_view kUsedKeys[] = {
    "expand_k",    "expand_v",          "num_heads", "num_kv_heads",
    "feature_map", "use_short_conv",    "conv_size", "use_output_gate",
    "clamp_min",   "elementwise_affine"};
constexpr FixedKey kFixedKeys[] = {{"gate_logit_normalizer", "16"}};

constexpr float kTemperature = 16;

class SimpleGla final : public Mixer {
 public:
  static absl::StatusOr<std::unique_ptr<Mixer>> Make(const MixerBuilder& from);

  void Forward(std::span<const Segment> segments, size_t rows, const float* x,
               float* y, Workspace& workspace) const override;

 private:
  float floor_ = 0;  // of log decay
  GatedAttention attention_;
};

absl::StatusOr<std::unique_ptr<Mixer>> SimpleGla::Make(
    const MixerBuilder& from) {
  auto made = std::make_unique<SimpleGla>();
  STEADYSTATE_ASSIGN_OR_RETURN(made->floor_,
                               GatedAttention::ReadLogDecayFloor(from));
  GatedAttention::Options options;
  STEADYSTATE_RETURN_IF_ERROR(GatedAttention::ReadShapeAndGate(
      from, {.num_heads = 4, .expand_k = 0.5, .expand_v = 1}, options));
  STEADYSTATE_RETURN_IF_ERROR(GatedAttention::ReadConv(from, true, options));
  STEADYSTATE_RETURN_IF_ERROR(GatedAttention::ReadFeatureMap(from, options));
  options.decay = Decay::kScalar;
  options.decay_projection = "gk_proj";
  options.decay_columns = options.shape.G;
  options.decay_bias = Bias::kYes;
  STEADYSTATE_ASSIGN_OR_RETURN(
      made->attention_, GatedAttention::Make(from, options, options.shape.G));
  return made;
}

void SimpleGla::Forward(std::span<const Segment> segments, size_t rows,
                        const float* x, float* y, Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  const PhaseScope scope(buffers.phases, Phase::kRecurrence);
  const size_t G = attention_.shape().G;
  const GatedAttention::Rows in =
      attention_.Project(segments, rows, x, buffers);
  float* low = attention_.More(rows, buffers);  // f32[rows, G]
  buffers.ForRows(rows, G, [&](size_t row, size_t) {
    float* a = in.decay + row * in.stride;
    LogSigmoidLogDecay(G, a, kTemperature, floor_, a);
    SplitDecay(G, a, a, low + row * G);
  });
  attention_.Finish(segments, rows, in,
                    {.alpha = {in.decay, in.stride, 1}, .low = {low, G, 1}}, y,
                    buffers);
}

}  // namespace

Family SimpleGlaFamily() {
  return {
      .model_type = "simple_gla",
      .source = "simple_gla.cc",
      .keys = {.used = kUsedKeys, .inert = {}, .must_be_default = kFixedKeys},
      .bf16_states = true,
      .make_token_mixer = SimpleGla::Make};
}

}  // namespace steadystate
