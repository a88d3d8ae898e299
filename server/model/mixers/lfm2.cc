// LFM2 (Liquid AI 2025), as transformers' model_type "lfm2": layers of gated
// short convolution and of softmax attention,
//   [B, C, u] = W_in x (+ b)
//   c_t = sum_i w_i (B u)_{t-L+1+i} (+ b)   over L taps, no activation
//   y   = W_out (C c) (+ b)
// The state is the last L - 1 values of B u. Softmax attention is that of
// softmax_attention.cc, with normalised q and k. The width of the MLP follows
// from what the config calls it by a rule of its own (ReadWidth).
//
// In "lfm2_moe" all layers but the first have a mixture of experts
// (parts/mixture.h) in place of the MLP: the sigmoid of each expert's product,
// chosen with a bias added and weighed without.
//
// "lfm3" has norms before and behind each mixer, h += norm(mixer(norm h)), its
// own width of heads, and two kinds of softmax layers: over a window, and over
// all tokens. There each head's output is multiplied by the sigmoid of one
// number; heads turn whole, or "proportional"ly, their first pairs alone, at
// the angles that these pairs have where all turn.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "kernels/pointwise/activation.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/config.h"
#include "server/model/mixers/mixers.h"
#include "server/model/parts/causal_conv.h"
#include "server/model/parts/hybrid_config.h"
#include "server/model/parts/mixture.h"
#include "server/model/parts/projection.h"
#include "server/model/workspace.h"

namespace steadystate {
namespace {

constexpr absl::string_view kUsedKeys[] = {"conv_bias",
                                           "conv_L_cache",
                                           "full_attn_idxs",
                                           "block_ff_dim",
                                           "tie_embedding",
                                           "block_auto_adjust_ff_dim",
                                           "theta",
                                           "block_ffn_dim_multiplier",
                                           "block_multiple_of",
                                           "intermediate_size"};
constexpr absl::string_view kMixtureKeys[] = {"conv_bias",
                                              "conv_L_cache",
                                              "full_attn_idxs",
                                              "tie_embedding",
                                              "theta",
                                              "intermediate_size",
                                              "moe_intermediate_size",
                                              "num_dense_layers",
                                              "num_experts",
                                              "num_experts_per_tok",
                                              "use_expert_bias",
                                              "norm_topk_prob",
                                              "routed_scaling_factor"};
constexpr absl::string_view kLfm3Keys[] = {
    "attention_bias",    "conv_bias",      "conv_L_cache",
    "intermediate_size", "sliding_window", "use_attention_gate",
    "use_sandwich_norm"};
constexpr absl::string_view kInertKeys[] = {"block_dim",
                                            "block_mlp_init_scale",
                                            "block_norm_eps",
                                            "block_out_init_scale",
                                            "block_use_swiglu",
                                            "block_use_xavier_init",
                                            "conv_dim",
                                            "conv_dim_out",
                                            "conv_use_xavier_init",
                                            "num_heads",
                                            "output_router_logits",
                                            "router_aux_loss_coef",
                                            "use_pos_enc",
                                            "vision_config"};

constexpr absl::string_view kInnerModels[] = {"model.language_model."};
constexpr absl::string_view kForeign[] = {"model.vision_tower.",
                                          "model.multi_modal_projector."};

class GatedShortConv final : public Mixer {
 public:
  // `taps` where the config is silent.
  GatedShortConv(size_t hidden_size, size_t taps)
      : D_(hidden_size), taps_(taps) {}

  absl::Status Take(const MixerBuilder& from);

  void Forward(std::span<const Segment> segments, size_t rows, const float* x,
               float* y, Workspace& workspace) const override;

 private:
  const size_t D_;
  const size_t taps_;
  std::unique_ptr<Linear> in_;   // D -> 3 D: B | C | u
  std::unique_ptr<Linear> out_;  // D -> D
  CausalConvs conv_;             // over the columns of u
  RowSlice rows_;                // 3 D
};

absl::Status GatedShortConv::Take(const MixerBuilder& from) {
  STEADYSTATE_ASSIGN_OR_RETURN(const bool biased,
                               from.config.Bool("conv_bias", false));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const size_t taps, from.config.Size("conv_L_cache", taps_, {1, 64}));
  const Bias bias = biased ? Bias::kYes : Bias::kNone;
  STEADYSTATE_ASSIGN_OR_RETURN(in_, MakeProjection(from.weights, "in_proj", D_,
                                                   3 * D_, from.linears, bias));
  STEADYSTATE_RETURN_IF_ERROR(conv_.Add(from, {.tensor = "conv"}, 2 * D_, D_,
                                        taps, Activation::kIdentity, bias));
  STEADYSTATE_ASSIGN_OR_RETURN(
      out_,
      MakeProjection(from.weights, "out_proj", D_, D_, from.linears, bias));
  rows_ = RowScratchPlan(from.scratch).Add(3 * D_);
  return absl::OkStatus();
}

void GatedShortConv::Forward(std::span<const Segment> segments, size_t rows,
                             const float* x, float* y,
                             Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  const PhaseScope scope(buffers.phases, Phase::kRecurrence);
  float* const projected = buffers.OfRows(rows)[rows_];
  const size_t stride = 3 * D_;
  buffers.Project(*in_, rows, x, D_, projected, stride);
  const auto gate = [&](size_t column) {
    buffers.ForRows(rows, D_, [&](size_t row, size_t) {
      float* const at = projected + row * stride;
      ActivateAndMultiply(Activation::kIdentity, D_, at + column, at + 2 * D_,
                          at + 2 * D_);
    });
  };
  gate(0);
  conv_.Run(segments, projected, stride, buffers);
  gate(D_);
  buffers.Project(*out_, rows, projected + 2 * D_, stride, y, D_);
}

absl::StatusOr<std::unique_ptr<Mixer>> MakeGatedShortConv(
    const MixerBuilder& builder) {
  auto mixer = std::make_unique<GatedShortConv>(builder.hidden_size, 3);
  STEADYSTATE_RETURN_IF_ERROR(mixer->Take(builder));
  return mixer;
}

// The layers, as `layer_types` or `full_attn_idxs` says; all of softmax
// attention if the config has neither.
absl::Status ReadLayers(const Config& config, ModelConfig& model) {
  constexpr Choice<TokenMixer> kKinds[] = {
      {"conv", TokenMixer::kFamily}, {"full_attention", TokenMixer::kSoftmax}};
  STEADYSTATE_ASSIGN_OR_RETURN(
      const bool named,
      ReadLayerTypes(config, std::span<const Choice<TokenMixer>>(kKinds),
                     model));
  if (named) return absl::OkStatus();
  STEADYSTATE_ASSIGN_OR_RETURN(
      const bool listed,
      ReadLayerIndices(config, "full_attn_idxs", TokenMixer::kSoftmax, model));
  if (listed) return absl::OkStatus();
  for (LayerPlan& plan : model.layers) plan.tokens = TokenMixer::kSoftmax;
  return absl::OkStatus();
}

// The width of the MLP: unless block_auto_adjust_ff_dim is false, 2/3 of what
// is stated, times a factor, rounded up to a multiple.
absl::Status ReadWidth(const Config& config, ModelConfig& model) {
  const Bounds widths = {1, 1 << 20};
  const absl::string_view key =
      config.Has("block_ff_dim") ? "block_ff_dim" : "intermediate_size";
  STEADYSTATE_ASSIGN_OR_RETURN(size_t width, config.Size(key, 12288, widths));
  STEADYSTATE_ASSIGN_OR_RETURN(const bool adjust,
                               config.Bool("block_auto_adjust_ff_dim", true));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const double factor,
      config.Number("block_ffn_dim_multiplier", 1, {0.01, 64}));
  STEADYSTATE_ASSIGN_OR_RETURN(const size_t multiple,
                               config.Size("block_multiple_of", 256, widths));
  if (adjust) {
    width = 2 * width / 3;
    if (!config.IsNull("block_ffn_dim_multiplier")) {
      width = static_cast<size_t>(factor * static_cast<double>(width));
      width = (width + multiple - 1) / multiple * multiple;
    }
  }
  if (width == 0) {
    return config.Invalid(key, "no width of the MLP would be left of it");
  }
  model.intermediate_size = width;
  return absl::OkStatus();
}

constexpr MlpNames kMlp = {.gate = "w1", .up = "w3", .down = "w2"};

absl::StatusOr<std::unique_ptr<Mixer>> MakeMixture(const MixerBuilder& from) {
  const Config& config = from.config;
  MixtureOptions options;
  RouterOptions& router = options.router;
  router.scores = RouterOptions::Scores::kSigmoid;
  STEADYSTATE_RETURN_IF_ERROR(
      ReadExperts(config, {.count = 32, .chosen = 4}, router));
  STEADYSTATE_ASSIGN_OR_RETURN(const bool biased,
                               config.Bool("use_expert_bias", true));
  if (biased) router.bias = "expert_bias";
  STEADYSTATE_ASSIGN_OR_RETURN(const bool divided,
                               config.Bool("norm_topk_prob", true));
  router.divided_with = divided ? 1e-6F : -1;
  STEADYSTATE_ASSIGN_OR_RETURN(router.factor,
                               ReadFactor(config, "routed_scaling_factor"));
  STEADYSTATE_ASSIGN_OR_RETURN(
      options.width, config.Size("moe_intermediate_size", 1792, {1, 1 << 20}));
  options.names.each = kMlp;
  constexpr ExpertNames::Fused kFused[] = {
      {"experts.gate_up_proj", "experts.down_proj"}};
  options.names.fused = kFused;
  return Mixture::Make(from, options);
}

absl::Status ReadMixtureLayers(const Config& config, ModelConfig& model) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      model.intermediate_size,
      config.Size("intermediate_size", 7168, {1, 1 << 20}));
  STEADYSTATE_ASSIGN_OR_RETURN(const size_t dense,
                               config.Size("num_dense_layers", 2, {0, 1024}));
  for (size_t i = dense; i < model.layers.size(); ++i) {
    model.layers[i].channels = ChannelMixer::kFamily;
  }
  return absl::OkStatus();
}

absl::Status ReadLanguageModel(const Config& config, ModelConfig& model) {
  STEADYSTATE_RETURN_IF_ERROR(ReadLayers(config, model));
  STEADYSTATE_ASSIGN_OR_RETURN(const double theta,
                               config.Number("theta", 1e6, {1, 1e15}));
  STEADYSTATE_ASSIGN_OR_RETURN(SoftmaxAttentionOptions attention,
                               ReadAttention(config,
                                             {.num_heads = 32,
                                              .num_kv_heads = 8,
                                              .rope_theta = theta,
                                              .fixed_share = true},
                                             model));
  attention.qk_norm = {
      .q = "q_layernorm", .k = "k_layernorm", .eps = model.norm.eps};
  attention.out = "out_proj";
  for (LayerPlan& plan : model.layers) plan.softmax = attention;
  if (!config.Has("tie_embedding")) return absl::OkStatus();
  STEADYSTATE_ASSIGN_OR_RETURN(const bool tied,
                               config.Bool("tie_embedding", true));
  model.tied_head = tied ? TiedHead::kYes : TiedHead::kNever;
  model.tied_head_key = "tie_embedding";
  return absl::OkStatus();
}

absl::Status ReadConfig(const Config& config, ModelConfig& model) {
  STEADYSTATE_RETURN_IF_ERROR(ReadWidth(config, model));
  return ReadLanguageModel(config, model);
}

absl::Status ReadMixtureConfig(const Config& config, ModelConfig& model) {
  STEADYSTATE_RETURN_IF_ERROR(ReadMixtureLayers(config, model));
  return ReadLanguageModel(config, model);
}

enum class Lfm3Kind : uint8_t { kConv, kWindow, kAll };

// Of each layer; where the config is silent every second is softmax attention,
// in turns over all tokens and over a window.
absl::StatusOr<std::vector<Lfm3Kind>> ReadLfm3Kinds(const Config& config,
                                                    size_t layers) {
  constexpr absl::string_view kKey = "layer_types";
  constexpr Choice<Lfm3Kind> kNames[] = {
      {"conv", Lfm3Kind::kConv},
      {"sliding_attention", Lfm3Kind::kWindow},
      {"full_attention", Lfm3Kind::kAll}};
  STEADYSTATE_ASSIGN_OR_RETURN(
      auto named, ReadLayerKinds(config, kKey, layers,
                                 std::span<const Choice<Lfm3Kind>>(kNames)));
  if (named.has_value()) return *std::move(named);
  std::vector<Lfm3Kind> kinds(layers, Lfm3Kind::kConv);
  for (size_t i = 2; i < layers; i += 2) {
    kinds[i] = i % 4 == 2 ? Lfm3Kind::kAll : Lfm3Kind::kWindow;
  }
  return kinds;
}

// How heads turn in one kind of layers.
struct Lfm3Rotary {
  absl::string_view kind;
  bool proportional = false;
  double theta = 1e6;
  double share = 1;  // of pairs that turn
};

// Of one kind's object.
constexpr absl::string_view kLfm3RotaryUsed[] = {
    "rope_type", "type", "rope_theta", "partial_rotary_factor"};
constexpr FixedKey kLfm3RotaryFixed[] = {{"factor", "1.0"}};
constexpr KeyTable kLfm3RotaryTable[] = {{.used = kLfm3RotaryUsed,
                                          .inert = {},
                                          .must_be_default = kLfm3RotaryFixed}};

// `rope_parameters` has an object for each kind; without it, `rotary`.
absl::StatusOr<Lfm3Rotary> ReadLfm3Rotary(const Config& config,
                                          Lfm3Rotary rotary,
                                          ModelConfig& model) {
  constexpr Choice<bool> kTypes[] = {{"default", false},
                                     {"proportional", true}};
  STEADYSTATE_ASSIGN_OR_RETURN(const std::vector<Config> all,
                               config.Objects("rope_parameters", 1));
  if (all.empty()) return rotary;
  STEADYSTATE_ASSIGN_OR_RETURN(const std::vector<Config> own,
                               all[0].Objects(rotary.kind, 1));
  if (own.empty()) {
    return all[0].Invalid(rotary.kind, "layers of that kind need it");
  }
  STEADYSTATE_ASSIGN_OR_RETURN(
      rotary.proportional,
      ReadChoice(own[0], Either(own[0], "rope_type", "type"),
                 std::span<const Choice<bool>>(kTypes)));
  STEADYSTATE_RETURN_IF_ERROR(
      own[0].CheckKeys(kLfm3RotaryTable, model.warnings));
  STEADYSTATE_ASSIGN_OR_RETURN(rotary.theta,
                               own[0].Number("rope_theta", 1e6, {1, 1e15}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      rotary.share, own[0].Number("partial_rotary_factor", 1, {0, 1}));
  if (!rotary.proportional && rotary.share != 1) {
    return own[0].Unsupported("partial_rotary_factor",
                              "only of \"proportional\" it may differ from 1");
  }
  return rotary;
}

void Turn(const Lfm3Rotary& rotary, SoftmaxAttentionOptions& attention) {
  const auto width = static_cast<double>(attention.head_dim);
  attention.rotary = attention.head_dim;
  attention.rope_theta = rotary.theta;
  if (!rotary.proportional) return;
  attention.turning_pairs = static_cast<size_t>(rotary.share * width / 2);
}

absl::StatusOr<SoftmaxAttentionOptions> ReadLfm3Attention(
    const Config& config, const ModelConfig& model) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      SoftmaxAttentionOptions attention,
      ReadAttentionHeads(config,
                         {.num_heads = 16, .num_kv_heads = 4, .head_dim = 128},
                         model.hidden_size));
  attention.qk_norm = {.eps = model.norm.eps};
  STEADYSTATE_ASSIGN_OR_RETURN(attention.qkv_bias,
                               config.Bool("attention_bias", false));
  attention.out_bias = attention.qkv_bias;
  STEADYSTATE_ASSIGN_OR_RETURN(const bool gated,
                               config.Bool("use_attention_gate", true));
  if (gated) {
    attention.head_gate = "g_proj";
    attention.other_head_gate = "gate_proj";
  }
  return attention;
}

absl::Status ReadLfm3Config(const Config& config, ModelConfig& model) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      model.intermediate_size,
      config.Size("intermediate_size", 7680, {1, 1 << 20}));
  STEADYSTATE_ASSIGN_OR_RETURN(const std::vector<Lfm3Kind> kinds,
                               ReadLfm3Kinds(config, model.layers.size()));
  STEADYSTATE_ASSIGN_OR_RETURN(SoftmaxAttentionOptions window,
                               ReadLfm3Attention(config, model));
  SoftmaxAttentionOptions all = window;
  STEADYSTATE_ASSIGN_OR_RETURN(
      window.window, config.Size("sliding_window", 256, {1, 1 << 24}));
  if (std::ranges::count(kinds, Lfm3Kind::kWindow) > 0) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        const Lfm3Rotary rotary,
        ReadLfm3Rotary(config, {.kind = "sliding_attention", .theta = 1e4},
                       model));
    Turn(rotary, window);
  }
  if (std::ranges::count(kinds, Lfm3Kind::kAll) > 0) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        const Lfm3Rotary rotary,
        ReadLfm3Rotary(
            config,
            {.kind = "full_attention", .proportional = true, .share = 0.5},
            model));
    Turn(rotary, all);
  }
  STEADYSTATE_ASSIGN_OR_RETURN(const bool sandwich,
                               config.Bool("use_sandwich_norm", true));
  for (size_t i = 0; i < kinds.size(); ++i) {
    LayerPlan& plan = model.layers[i];
    plan.norms = sandwich ? NormPlace::kBoth : NormPlace::kBefore;
    if (kinds[i] == Lfm3Kind::kConv) continue;
    plan.tokens = TokenMixer::kSoftmax;
    plan.softmax = kinds[i] == Lfm3Kind::kAll ? all : window;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Mixer>> MakeLfm3Conv(
    const MixerBuilder& builder) {
  auto mixer = std::make_unique<GatedShortConv>(builder.hidden_size, 7);
  STEADYSTATE_RETURN_IF_ERROR(mixer->Take(builder));
  return mixer;
}

}  // namespace

Family Lfm2Family() {
  return {
      .model_type = "lfm2",
      .source = "lfm2.cc",
      .keys = {.used = kUsedKeys, .inert = kInertKeys, .must_be_default = {}},
      .part_keys = HybridKeys(),
      .frame = {.inner_models = kInnerModels,
                .embeddings = "embed_tokens.weight",
                .final_norm = "embedding_norm",
                .token_norm = "operator_norm",
                .token_mixer = "conv.",
                .softmax_mixer = "self_attn.",
                .channel_norm = "ffn_norm",
                .channel_mixer = "feed_forward.",
                .mlp = kMlp,
                .foreign = kForeign},
      .defaults = {.hidden_size = 2560,
                   .layers = 32,
                   .vocab_size = 65536,
                   .norm_eps = 1e-5,
                   .max_position_embeddings = 128000,
                   .tied_head = TiedHead::kYes},
      .hybrid = false,
      .read_config = ReadConfig,
      .make_token_mixer = MakeGatedShortConv};
}

Family Lfm2MoeFamily() {
  Family family = Lfm2Family();
  family.model_type = "lfm2_moe";
  family.keys.used = kMixtureKeys;
  family.frame.inner_models = {};
  family.frame.foreign = {};
  family.defaults.hidden_size = 2048;
  family.read_config = ReadMixtureConfig;
  family.make_channel_mixer = MakeMixture;
  return family;
}

Family Lfm3Family() {
  Family family = Lfm2Family();
  family.model_type = "lfm3";
  family.keys.used = kLfm3Keys;
  family.frame.token_post_norm = "post_operator_norm";
  family.frame.channel_post_norm = "post_ffn_norm";
  family.defaults = {.hidden_size = 2048,
                     .layers = 24,
                     .vocab_size = 128000,
                     .norm_eps = 1e-5,
                     .max_position_embeddings = 128000,
                     .bos_token = 124894,
                     .eos_token = 124900,
                     .tied_head = TiedHead::kYes};
  family.read_config = ReadLfm3Config;
  family.make_token_mixer = MakeLfm3Conv;
  return family;
}

}  // namespace steadystate
