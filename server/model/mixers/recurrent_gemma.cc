// RecurrentGemma (Griffin; De, Smith et al. 2024), as transformers' model_type
// "recurrent_gemma": layers of a gated linear recurrence, the RG-LRU,
//   y = gelu(W_y x + b_y),  u = conv(W_x x + b_x)
//   i = sigmoid(u A_i + b_i),  r = sigmoid(u A_r + b_r)
//   log a_t = -8 r softplus(p)                per channel
//   h_t = a_t o h_{t-1} + sqrt(1 - a_t^2) o i o u
//   out = W_o (h o y) + b_o
// and of softmax attention over a window (softmax_attention.cc), where half of
// each head turns; a gated MLP with biases in all. A_i and A_r are block
// diagonal, a block for each head; gelu is that by tanh. Of the first token of
// a sequence the factor is 1 in place of sqrt(1 - a^2). Into the first layer
// goes table[token] times the root of hidden_size, rounded to bf16; logits <-
// cap tanh(logits / cap).
//
// The recurrence is the general one with keys and queries of width 1 that are
// always 1.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/chunk/matrix_product.h"
#include "kernels/dtype.h"
#include "kernels/pointwise/activation.h"
#include "kernels/pointwise/decay.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/config.h"
#include "server/model/mixers/mixers.h"
#include "server/model/parts/causal_conv.h"
#include "server/model/parts/gated_recurrence.h"
#include "server/model/parts/hybrid_config.h"
#include "server/model/parts/projection.h"
#include "server/model/workspace.h"

namespace steadystate {
namespace {

constexpr absl::string_view kUsedKeys[] = {
    "attention_bias", "attention_window_size", "block_types",
    "conv1d_width",   "hidden_activation",     "intermediate_size",
    "lru_width",      "logits_soft_cap",       "sliding_window"};
// Of training.
constexpr absl::string_view kInertKeys[] = {
    "_block_types", "final_w_init_variance_scale", "w_init_variance_scale"};
constexpr FixedKey kFixedKeys[] = {{"embeddings_scale_by_sqrt_dim", "true"}};

constexpr Bounds kWidth = {1, 1 << 20};

// Channels that one task advances.
constexpr size_t kMostChannels = 256;
// Rows that one task multiplies with a block of the gates.
constexpr size_t kRowsAtOnce = 8;

constexpr float kOne = 1.0f;

// The matrices of the gates stay in float32 whatever other weights are in, as
// all that decides how the past fades.
class RgLru final : public Mixer {
 public:
  static absl::StatusOr<std::unique_ptr<Mixer>> Make(const MixerBuilder& from);

  void Forward(std::span<const Segment> segments, size_t rows, const float* x,
               float* y, Workspace& workspace) const override;

 private:
  // The gates i or r: a block [in, out] and a bias for each head.
  struct Gate {
    std::vector<float> blocks;  // f32[H, w, w]
    std::vector<float> bias;    // f32[E]
  };
  // Scratch memory of a row, in floats.
  struct Places {
    RowSlice fused;  // 2 E: y, u
    RowSlice gates;  // 2 E: i, r
    RowSlice decay;  // E
    RowSlice low;    // E
    RowSlice v;      // E
    RowSlice out;    // E
  };

  absl::Status ReadShape(const MixerBuilder& from);
  absl::Status TakeProjections(const MixerBuilder& from);
  absl::StatusOr<Gate> TakeGate(const MixerBuilder& from,
                                absl::string_view name) const;
  absl::Status MakeRecurrence(const MixerBuilder& from);

  // u A_i and u A_r of all rows.
  //   u      f32[rows, E; 2 E]  in
  //   gates  f32[rows, 2 E]     overwritten
  void Multiply(size_t rows, const float* u, float* gates,
                Workspace::Buffers& buffers) const;
  // One row's gates into its decays, of which `low` is what floats lack, and
  // what it adds to the state.
  void Discretize(const float* u, float* gates, float* decay, float* low,
                  float* v) const;

  size_t D_ = 0;
  size_t E_ = 0;                   // channels
  size_t H_ = 0;                   // blocks of the gates
  size_t V_ = 0;                   // channels of one task
  std::unique_ptr<Linear> fused_;  // D -> 2 E
  std::unique_ptr<Linear> out_;    // E -> D
  CausalConvs conv_;
  Gate input_, recurrent_;
  std::vector<float> rate_;  // -8 softplus(p), f32[E]
  GatedRecurrence recurrence_;
  Places at_;
};

absl::Status RgLru::ReadShape(const MixerBuilder& from) {
  const Config& config = from.config;
  D_ = from.hidden_size;
  STEADYSTATE_ASSIGN_OR_RETURN(E_, config.Size("lru_width", D_, kWidth));
  STEADYSTATE_ASSIGN_OR_RETURN(
      H_, config.Size("num_attention_heads", 10, {1, 4096}));
  if (E_ % H_ != 0) {
    return config.Invalid("num_attention_heads",
                          absl::StrCat("it must divide lru_width, ", E_));
  }
  V_ = std::gcd(E_, kMostChannels);
  return absl::OkStatus();
}

absl::Status RgLru::TakeProjections(const MixerBuilder& from) {
  ProjectionStack stack(from.weights, D_);
  for (const absl::string_view name : {"linear_y", "linear_x"}) {
    STEADYSTATE_RETURN_IF_ERROR(stack.Add(name, E_, Bias::kYes).status());
  }
  STEADYSTATE_ASSIGN_OR_RETURN(fused_, stack.Pack(from.linears));
  STEADYSTATE_ASSIGN_OR_RETURN(
      out_, MakeProjection(from.weights, "linear_out", E_, D_, from.linears,
                           Bias::kYes));
  STEADYSTATE_ASSIGN_OR_RETURN(const size_t taps,
                               from.config.Size("conv1d_width", 4, {1, 64}));
  return conv_.Add(from, {.tensor = "conv_1d"}, E_, E_, taps,
                   Activation::kIdentity, Bias::kYes);
}

absl::StatusOr<RgLru::Gate> RgLru::TakeGate(const MixerBuilder& from,
                                            absl::string_view name) const {
  const size_t w = E_ / H_;
  Gate gate;
  STEADYSTATE_ASSIGN_OR_RETURN(
      gate.blocks, from.weights.TakeFloats(
                       absl::StrCat("rg_lru.", name, "_weight"), {H_, w, w}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      gate.bias,
      from.weights.TakeFloats(absl::StrCat("rg_lru.", name, "_bias"), {H_, w}));
  return gate;
}

absl::Status RgLru::MakeRecurrence(const MixerBuilder& from) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      rate_, from.weights.TakeFloats("rg_lru.recurrent_param", {E_}));
  Activate(Activation::kSoftplus, E_, rate_.data(), rate_.data());
  for (float& rate : rate_) rate *= -8;
  STEADYSTATE_ASSIGN_OR_RETURN(
      recurrence_, GatedRecurrence::Make(from, {.query_heads = E_ / V_,
                                                .state_heads = E_ / V_,
                                                .K = 1,
                                                .V = V_,
                                                .decay = Decay::kValue}));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Mixer>> RgLru::Make(const MixerBuilder& from) {
  auto made = std::make_unique<RgLru>();
  STEADYSTATE_RETURN_IF_ERROR(made->ReadShape(from));
  STEADYSTATE_RETURN_IF_ERROR(made->TakeProjections(from));
  STEADYSTATE_ASSIGN_OR_RETURN(made->input_,
                               made->TakeGate(from, "input_gate"));
  STEADYSTATE_ASSIGN_OR_RETURN(made->recurrent_,
                               made->TakeGate(from, "recurrent_gate"));
  STEADYSTATE_RETURN_IF_ERROR(made->MakeRecurrence(from));
  const size_t E = made->E_;
  RowScratchPlan plan(from.scratch);
  made->at_ = {.fused = plan.Add(2 * E),
               .gates = plan.Add(2 * E),
               .decay = plan.Add(E),
               .low = plan.Add(E),
               .v = plan.Add(E),
               .out = plan.Add(E)};
  return made;
}

void RgLru::Multiply(size_t rows, const float* u, float* gates,
                     Workspace::Buffers& buffers) const {
  const size_t w = E_ / H_;
  const size_t pieces = (rows + kRowsAtOnce - 1) / kRowsAtOnce;
  const auto multiply = [&](size_t task, size_t) {
    const size_t head = task / pieces;
    const size_t first = task % pieces * kRowsAtOnce;
    const size_t count = std::min(kRowsAtOnce, rows - first);
    const Gate* const both[] = {&input_, &recurrent_};
    for (size_t i = 0; i < 2; ++i) {
      MatrixProduct({.m = count,
                     .n = w,
                     .k = w,
                     .a = u + first * 2 * E_ + head * w,
                     .a_row = 2 * E_,
                     .b = both[i]->blocks.data() + head * w * w,
                     .b_row = w,
                     .c = gates + (2 * first + i) * E_ + head * w,
                     .c_row = 2 * E_});
    }
  };
  buffers.pool.ParallelFor(H_ * pieces, multiply);
}

void RgLru::Discretize(const float* u, float* gates, float* decay, float* low,
                       float* v) const {
  float* const i = gates;
  float* const r = gates + E_;
  for (size_t e = 0; e < E_; ++e) {
    i[e] += input_.bias[e];
    r[e] += recurrent_.bias[e];
  }
  Activate(Activation::kSigmoid, 2 * E_, gates, gates);
  for (size_t e = 0; e < E_; ++e) {
    decay[e] = r[e] * rate_[e];
    v[e] = 2 * decay[e];
  }
  RestOfLogDecay(E_, v, v);  // 1 - a^2
  for (size_t e = 0; e < E_; ++e) v[e] = std::sqrt(v[e]) * (i[e] * u[e]);
  SplitDecay(E_, decay, decay, low);
}

void RgLru::Forward(std::span<const Segment> segments, size_t rows,
                    const float* x, float* y, Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  const PhaseScope scope(buffers.phases, Phase::kRecurrence);
  const RowScratch scratch = buffers.OfRows(rows);
  const size_t stride = 2 * E_;
  float* fused = scratch[at_.fused];
  float* gates = scratch[at_.gates];
  float* decay = scratch[at_.decay];
  float* low = scratch[at_.low];
  float* v = scratch[at_.v];
  float* out = scratch[at_.out];
  const float* u = fused + E_;

  buffers.Project(*fused_, rows, x, D_, fused, stride);
  conv_.Run(segments, fused, stride, buffers);
  Multiply(rows, u, gates, buffers);
  buffers.ForRows(rows, 4 * E_, [&](size_t row, size_t) {
    Discretize(u + row * stride, gates + row * stride, decay + row * E_,
               low + row * E_, v + row * E_);
  });
  for (const Segment& segment : segments) {
    if (segment.position != 0) continue;
    const size_t row = segment.first_row;
    ActivateAndMultiply(Activation::kIdentity, E_, gates + row * stride,
                        u + row * stride, v + row * E_);
  }
  recurrence_.Run(segments,
                  {.q = {&kOne, 0, 0},
                   .k = {&kOne, 0, 0},
                   .v = {v, E_, V_},
                   .beta = {decay, E_, V_},
                   .beta_low = {low, E_, V_}},
                  out, E_, buffers);
  buffers.ForRows(rows, 2 * E_, [&](size_t row, size_t) {
    float* const h = out + row * E_;
    ActivateAndMultiply(Activation::kGeluTanh, E_, fused + row * stride, h, h);
  });
  buffers.Project(*out_, rows, out, E_, y, D_);
}

// A list of kinds, which layers have in turns.
absl::Status ReadBlocks(const Config& config, ModelConfig& model) {
  constexpr absl::string_view kKey = "block_types";
  constexpr Choice<TokenMixer> kKinds[] = {{"recurrent", TokenMixer::kFamily},
                                           {"attention", TokenMixer::kSoftmax}};
  STEADYSTATE_ASSIGN_OR_RETURN(const auto stated,
                               config.StringList(kKey, 1024));
  const std::vector<std::string> types = stated.value_or(
      std::vector<std::string>{"recurrent", "recurrent", "attention"});
  if (types.empty()) return config.Invalid(kKey, "there must be a kind");
  for (size_t i = 0; i < model.layers.size(); ++i) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        model.layers[i].tokens,
        ChoiceOf(config, kKey, absl::string_view(types[i % types.size()]),
                 std::span<const Choice<TokenMixer>>(kKinds)));
  }
  return absl::OkStatus();
}

absl::Status ReadAttentionLayers(const Config& config, ModelConfig& model) {
  STEADYSTATE_RETURN_IF_ERROR(ReadBlocks(config, model));
  STEADYSTATE_ASSIGN_OR_RETURN(
      SoftmaxAttentionOptions attention,
      ReadAttention(config, {.num_heads = 10, .rotary_factor = 0.5}, model));
  STEADYSTATE_ASSIGN_OR_RETURN(attention.qkv_bias,
                               config.Bool("attention_bias", false));
  attention.out_bias = true;
  STEADYSTATE_ASSIGN_OR_RETURN(
      attention.window,
      config.Size(Either(config, "attention_window_size", "sliding_window"),
                  2048, {1, 1 << 24}));
  for (LayerPlan& plan : model.layers) plan.softmax = attention;
  return absl::OkStatus();
}

// The gate and what it gates share the stated width.
absl::Status ReadMlp(const Config& config, ModelConfig& model) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      const size_t width,
      config.Size("intermediate_size", 7680, {2, kWidth.max}));
  model.intermediate_size = width / 2;
  STEADYSTATE_ASSIGN_OR_RETURN(
      const std::string act,
      config.String("hidden_activation", "gelu_pytorch_tanh"));
  if (act != "gelu_pytorch_tanh") {
    return config.Unsupported("hidden_activation",
                              "only \"gelu_pytorch_tanh\" is supported");
  }
  model.mlp_activation = Activation::kGeluTanh;
  return absl::OkStatus();
}

float RoundedToBf16(float value) {
  uint16_t bits = 0;
  ConvertToBf16(1, &value, &bits);
  ConvertToF32({.data = &bits, .dtype = DType::kBf16}, 0, 1, &value);
  return value;
}

absl::Status ReadConfig(const Config& config, ModelConfig& model) {
  STEADYSTATE_RETURN_IF_ERROR(ReadMlp(config, model));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const double cap, config.Number("logits_soft_cap", 30, {1e-3, 1e6}));
  model.logit_cap = static_cast<float>(cap);
  model.embedding_multiplier =
      RoundedToBf16(std::sqrt(static_cast<float>(model.hidden_size)));
  return ReadAttentionLayers(config, model);
}

}  // namespace

Family RecurrentGemmaFamily() {
  return {.model_type = "recurrent_gemma",
          .source = "recurrent_gemma.cc",
          .keys = {.used = kUsedKeys,
                   .inert = kInertKeys,
                   .must_be_default = kFixedKeys},
          .part_keys = HybridKeys(),
          .frame = {.embeddings = "embed_tokens.weight",
                    .final_norm = "final_norm",
                    .token_norm = "temporal_pre_norm",
                    .token_mixer = "temporal_block.",
                    .channel_norm = "channel_pre_norm",
                    .channel_mixer = "mlp_block.",
                    .mlp = {.bias = Bias::kYes},
                    .zero_centred_norms = true,
                    .eps_key = "rms_norm_eps"},
          .defaults = {.hidden_size = 2560,
                       .layers = 26,
                       .vocab_size = 256000,
                       .norm_eps = 1e-6,
                       .max_position_embeddings = 8192,
                       .bos_token = 2,
                       .eos_token = 1,
                       .tied_head = TiedHead::kYes},
          .hybrid = false,
          .read_config = ReadConfig,
          .make_token_mixer = RgLru::Make};
}

}  // namespace steadystate
