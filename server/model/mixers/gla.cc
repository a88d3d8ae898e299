// Gated linear attention (Yang et al. 2023), as fla's model_type "gla":
//   q, k, v = W_q x, W_k x, W_v x     optionally conv + silu, then feature map
//   log a_t = max(logsigmoid(W_2 W_1 x + b) / 16, clamp_min)
//   S_t = diag(a_t) S_{t-1} + k_t v_t^T,   o_t = K^-1/2 S_t^T q_t
//   y   = W_o (RMSNorm(o, per head) * silu(W_g x))
// The token's own (k, v) is in o. H query heads share G key/value heads, H/G
// each; they then share decay and state too, which is kept once per kv head.
// The paper has no 1/16, no norm and a sigmoid gate; the rank of W_2 W_1 is 16
// in fla and read from the tensor's shape here.
#include <memory>

#include "kernels/pointwise/decay.h"
#include "server/base/status_macros.h"
#include "server/model/mixers/mixers.h"
#include "server/model/parts/gated_layer.h"
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

class Gla final : public Mixer {
 public:
  static absl::StatusOr<std::unique_ptr<Mixer>> Make(const MixerBuilder& from);

  void Forward(std::span<const Segment> segments, size_t rows, const float* x,
               float* y, Workspace& workspace) const override;

 private:
  float floor_ = 0;  // of log decay
  GatedLayer attention_;
  // [2, G K]: what a float has of a decay, and what it lacks.
  RowSlice decays_;
};

absl::StatusOr<std::unique_ptr<Mixer>> Gla::Make(const MixerBuilder& from) {
  auto gla = std::make_unique<Gla>();
  STEADYSTATE_ASSIGN_OR_RETURN(gla->floor_,
                               GatedLayer::ReadLogDecayFloor(from));
  GatedLayer::Options options;
  STEADYSTATE_RETURN_IF_ERROR(GatedLayer::ReadShapeAndGate(
      from, {.num_heads = 4, .expand_k = 0.5, .expand_v = 1}, options));
  STEADYSTATE_RETURN_IF_ERROR(GatedLayer::ReadConv(from, false, options));
  STEADYSTATE_RETURN_IF_ERROR(GatedLayer::ReadFeatureMap(from, options));
  const HeadShape& s = options.shape;
  options.decay = Decay::kKey;
  options.decay_projection = "gk_proj";
  options.decay_columns = s.G * s.K;
  options.decay_low_rank = true;
  RowScratchPlan plan(from.scratch);
  STEADYSTATE_ASSIGN_OR_RETURN(gla->attention_,
                               GatedLayer::Make(from, options, plan));
  gla->decays_ = plan.Add(2 * s.G * s.K);
  return gla;
}

void Gla::Forward(std::span<const Segment> segments, size_t rows,
                  const float* x, float* y, Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  const PhaseScope scope(buffers.phases, Phase::kRecurrence);
  const HeadShape& s = attention_.shape();
  const size_t channels = s.G * s.K;
  const GatedLayer::Rows in = attention_.Project(segments, rows, x, buffers);
  float* decay = buffers.OfRows(rows)[decays_];
  const size_t stride = 2 * channels;
  attention_.ProjectDecay(rows, decay, stride, buffers);
  buffers.ForRows(rows, channels, [&](size_t row, size_t) {
    float* a = decay + row * stride;
    LogSigmoidLogDecay(channels, a, kTemperature, floor_, a);
    SplitDecay(channels, a, a, a + channels);
  });
  attention_.Finish(
      segments, rows, in,
      {.alpha = {decay, stride, s.K}, .low = {decay + channels, stride, s.K}},
      y, buffers);
}

// Gated linear attention with one gate for all of a head, as fla's layer of
// that name, for which model_type "simple_gla" is our own:
//   q, k, v = W_q x, W_k x, W_v x     conv + silu (by default), feature map
//   log g_t = max(logsigmoid(W x + b) / 16, clamp_min)     one per kv head
//   S_t = g_t S_{t-1} + k_t v_t^T,   o_t = K^-1/2 S_t^T q_t
//   y   = W_o (RMSNorm(o, per head) * silu(W_g x))
// Names, keys and their defaults are those of gla, but for the convolution.

class SimpleGla final : public Mixer {
 public:
  static absl::StatusOr<std::unique_ptr<Mixer>> Make(const MixerBuilder& from);

  void Forward(std::span<const Segment> segments, size_t rows, const float* x,
               float* y, Workspace& workspace) const override;

 private:
  float floor_ = 0;  // of log decay
  GatedLayer attention_;
  RowSlice low_;  // G: what floats lack of decays
};

absl::StatusOr<std::unique_ptr<Mixer>> SimpleGla::Make(
    const MixerBuilder& from) {
  auto made = std::make_unique<SimpleGla>();
  STEADYSTATE_ASSIGN_OR_RETURN(made->floor_,
                               GatedLayer::ReadLogDecayFloor(from));
  GatedLayer::Options options;
  STEADYSTATE_RETURN_IF_ERROR(GatedLayer::ReadShapeAndGate(
      from, {.num_heads = 4, .expand_k = 0.5, .expand_v = 1}, options));
  STEADYSTATE_RETURN_IF_ERROR(GatedLayer::ReadConv(from, true, options));
  STEADYSTATE_RETURN_IF_ERROR(GatedLayer::ReadFeatureMap(from, options));
  options.decay = Decay::kScalar;
  options.decay_projection = "gk_proj";
  options.decay_columns = options.shape.G;
  RowScratchPlan plan(from.scratch);
  STEADYSTATE_ASSIGN_OR_RETURN(made->attention_,
                               GatedLayer::Make(from, options, plan));
  made->low_ = plan.Add(options.shape.G);
  return made;
}

void SimpleGla::Forward(std::span<const Segment> segments, size_t rows,
                        const float* x, float* y, Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  const PhaseScope scope(buffers.phases, Phase::kRecurrence);
  const size_t G = attention_.shape().G;
  const GatedLayer::Rows in = attention_.Project(segments, rows, x, buffers);
  float* low = buffers.OfRows(rows)[low_];
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

Family GlaFamily() {
  return {.model_type = "gla",
          .source = "gla.cc",
          .keys = {.used = kUsedKeys,
                   .inert = kInertKeys,
                   .must_be_default = kFixedKeys},
          .bf16_states = true,
          .make_token_mixer = Gla::Make};
}

Family SimpleGlaFamily() {
  return {
      .model_type = "simple_gla",
      .source = "gla.cc",
      .keys = {.used = kUsedKeys, .inert = {}, .must_be_default = kFixedKeys},
      .bf16_states = true,
      .make_token_mixer = SimpleGla::Make};
}

}  // namespace steadystate
