// Olmo Hybrid (Ai2 2026), as transformers' model_type "olmo_hybrid": layers of
// Gated DeltaNet, as fla's gated_deltanet has them (delta_rule.cc), whose beta
// doubles and whose heads are normalised with an eps of their own; every fourth
// as a rule softmax attention (softmax_attention.cc), with q and k normalised
// over all heads together and, in published models, no positions. The former
// are h += mixer(norm h), the latter h += norm(mixer h), both likewise with the
// MLP.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/config.h"
#include "server/model/mixers/mixers.h"
#include "server/model/parts/delta_layer.h"
#include "server/model/parts/hybrid_config.h"

namespace steadystate {
namespace {

constexpr absl::string_view kUsedKeys[] = {
    "attention_bias",         "linear_num_key_heads",  "linear_num_value_heads",
    "linear_key_head_dim",    "linear_value_head_dim", "linear_conv_kernel_dim",
    "linear_allow_neg_eigval"};
// Of training.
constexpr absl::string_view kInertKeys[] = {
    "linear_a_log_max", "linear_a_log_min", "linear_dt_init_floor",
    "linear_dt_max", "linear_dt_min"};

constexpr size_t kHeads = 30;  // of a config that is silent
constexpr float kHeadNormEps = 1e-5F;

absl::Status ReadShape(const MixerBuilder& from, DeltaLayerOptions& options) {
  const Config& config = from.config;
  const Bounds bounds = {1, 4096};
  const Bounds width = {1, 1 << 16};
  STEADYSTATE_ASSIGN_OR_RETURN(
      const size_t heads, config.Size("num_attention_heads", kHeads, bounds));
  STEADYSTATE_ASSIGN_OR_RETURN(
      options.H, config.Size("linear_num_key_heads", heads, bounds));
  STEADYSTATE_ASSIGN_OR_RETURN(
      options.HV, config.Size("linear_num_value_heads", heads, bounds));
  if (options.HV % options.H != 0) {
    return config.Invalid(
        "linear_num_value_heads",
        absl::StrCat("it must be a multiple of linear_num_key_heads, ",
                     options.H));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(
      options.K, config.Size("linear_key_head_dim",
                             from.hidden_size * 3 / (4 * options.H), width));
  STEADYSTATE_ASSIGN_OR_RETURN(
      options.V, config.Size("linear_value_head_dim", 2 * options.K, width));
  if (options.K == 0) {
    return config.Invalid("linear_num_key_heads",
                          "without linear_key_head_dim, keys would be empty");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Mixer>> MakeGatedDeltaNet(
    const MixerBuilder& builder) {
  DeltaLayerOptions options;
  STEADYSTATE_RETURN_IF_ERROR(ReadShape(builder, options));
  STEADYSTATE_ASSIGN_OR_RETURN(
      options.conv_taps,
      builder.config.Size("linear_conv_kernel_dim", 4, {1, 64}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const bool negative,
      builder.config.Bool("linear_allow_neg_eigval", true));
  options.beta_factor = negative ? 2 : 1;
  options.decay = Decay::kScalar;
  options.gate = DeltaLayerOptions::Gate::kFull;
  options.head_norm_eps = kHeadNormEps;
  return DeltaLayer::Make(builder, options);
}

// Every layer, as `layer_types` says; else every fourth is softmax attention,
// or the last where there are fewer.
absl::Status ReadLayers(const Config& config, ModelConfig& model) {
  constexpr Choice<TokenMixer> kKinds[] = {
      {"linear_attention", TokenMixer::kFamily},
      {"full_attention", TokenMixer::kSoftmax}};
  STEADYSTATE_ASSIGN_OR_RETURN(
      const bool named,
      ReadLayerTypes(config, std::span<const Choice<TokenMixer>>(kKinds),
                     model));
  if (!named) {
    for (size_t i = 3; i < model.layers.size(); i += 4) {
      model.layers[i].tokens = TokenMixer::kSoftmax;
    }
    if (model.layers.size() < 4) {
      model.layers.back().tokens = TokenMixer::kSoftmax;
    }
  }
  for (LayerPlan& plan : model.layers) {
    plan.norms = plan.tokens == TokenMixer::kSoftmax ? NormPlace::kAfter
                                                     : NormPlace::kBefore;
  }
  return absl::OkStatus();
}

// Whether the file names a theta: without, nothing turns.
absl::StatusOr<bool> HasTheta(const Config& config) {
  STEADYSTATE_ASSIGN_OR_RETURN(const std::vector<Config> rotary,
                               config.Objects(RotaryKey(config), 1));
  bool has = config.Has("rope_theta");
  for (const Config& object : rotary) has = has || object.Has("rope_theta");
  return has;
}

absl::Status ReadConfig(const Config& config, ModelConfig& model) {
  STEADYSTATE_RETURN_IF_ERROR(ReadLayers(config, model));
  STEADYSTATE_ASSIGN_OR_RETURN(
      SoftmaxAttentionOptions attention,
      ReadAttention(config, {.num_heads = kHeads, .fixed_share = true}, model));
  STEADYSTATE_ASSIGN_OR_RETURN(const bool turns, HasTheta(config));
  if (!turns) attention.rotary = 0;
  STEADYSTATE_ASSIGN_OR_RETURN(attention.qkv_bias,
                               config.Bool("attention_bias", false));
  attention.out_bias = attention.qkv_bias;
  attention.qk_norm = {.all_heads = true, .eps = model.norm.eps};
  for (LayerPlan& plan : model.layers) plan.softmax = attention;
  return absl::OkStatus();
}

}  // namespace

Family OlmoHybridFamily() {
  return {
      .model_type = "olmo_hybrid",
      .source = "olmo_hybrid.cc",
      .keys = {.used = kUsedKeys, .inert = kInertKeys, .must_be_default = {}},
      .part_keys = HybridKeys(),
      .frame = {.embeddings = "embed_tokens.weight",
                .token_norm = "input_layernorm",
                .token_mixer = "linear_attn.",
                .softmax_mixer = "self_attn.",
                .channel_norm = "post_attention_layernorm",
                .other_token_norm = "attention_layer_norm",
                .other_channel_norm = "feedforward_layer_norm",
                .token_post_norm = "post_attention_layernorm",
                .other_token_post_norm = "feedforward_layer_norm",
                .channel_post_norm = "post_feedforward_layernorm",
                .eps_key = "rms_norm_eps"},
      .defaults = {.hidden_size = 3840,
                   .layers = 32,
                   .vocab_size = 100352,
                   .intermediate_size = 11008,
                   .max_position_embeddings = 65536,
                   .bos_token = std::nullopt,
                   .eos_token = 100257},
      .hybrid = false,
      .read_config = ReadConfig,
      .make_token_mixer = MakeGatedDeltaNet};
}

}  // namespace steadystate
