// Qwen3.5, as transformers' model_type "qwen3_5" (of the language model alone
// "qwen3_5_text"): layers of Gated DeltaNet and, every fourth as a rule, gated
// softmax attention. With RMSNorm weights stored less 1, but that of the heads,
// a layer of the former is
//   q, k = l2norm(silu(conv(W_qkv x))) per head, v = silu(conv(W_qkv x))
//   alpha = exp(-exp(A_log) softplus(W_a x + dt_bias)),   beta = sigmoid(W_b x)
//   S <- alpha S,  u = beta (v - S^T k),  S <- S + k u^T,  o = K^-1/2 S^T q
//   y = W_o (RMSNorm(o, per head) silu(W_z x))
// with one convolution over q, k and v; value head j reads key head
// j / (HV / H). Softmax attention is that of softmax_attention.cc, gated, with
// normalised q and k of which the first quarter turns.
//
// In "qwen3_5_moe" ("qwen3_5_moe_text") the MLP of every layer is a mixture of
// experts (parts/mixture.h): the best of a softmax over all, their weights
// divided by their sum, beside one that all tokens have, times a sigmoid.
//
// "qwen3_next" is the same, earlier: W_qkv and W_z are one matrix, W_b and W_a
// another, both by key head; and its config says which layers have a mixture,
// and whether the weights of experts are divided.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/config.h"
#include "server/model/mixers/mixers.h"
#include "server/model/parts/delta_layer.h"
#include "server/model/parts/hybrid_config.h"
#include "server/model/parts/mixture.h"
#include "server/model/parts/projection.h"

namespace steadystate {
namespace {

constexpr absl::string_view kUsedKeys[] = {
    "attention_bias",          "output_gate_type",
    "full_attention_interval", "linear_num_key_heads",
    "linear_num_value_heads",  "linear_key_head_dim",
    "linear_value_head_dim",   "linear_conv_kernel_dim"};
constexpr absl::string_view kMixtureKeys[] = {"attention_bias",
                                              "output_gate_type",
                                              "full_attention_interval",
                                              "linear_num_key_heads",
                                              "linear_num_value_heads",
                                              "linear_key_head_dim",
                                              "linear_value_head_dim",
                                              "linear_conv_kernel_dim",
                                              "num_experts",
                                              "num_experts_per_tok",
                                              "moe_intermediate_size",
                                              "shared_expert_intermediate_size",
                                              "hidden_act"};
constexpr absl::string_view kNextKeys[] = {"attention_bias",
                                           "full_attention_interval",
                                           "linear_num_key_heads",
                                           "linear_num_value_heads",
                                           "linear_key_head_dim",
                                           "linear_value_head_dim",
                                           "linear_conv_kernel_dim",
                                           "num_experts",
                                           "num_experts_per_tok",
                                           "moe_intermediate_size",
                                           "shared_expert_intermediate_size",
                                           "decoder_sparse_step",
                                           "mlp_only_layers",
                                           "norm_topk_prob",
                                           "hidden_act"};
constexpr absl::string_view kInertKeys[] = {
    "language_model_only",   "mamba_ssm_dtype",
    "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings",
    "router_aux_loss_coef",  "output_router_logits",
    "image_token_id",        "video_token_id",
    "vision_config",         "vision_start_token_id",
    "vision_end_token_id"};
constexpr FixedKey kFixedKeys[] = {{"attn_output_gate", "true"},
                                   {"mlp_only_layers", "[]"}};

constexpr absl::string_view kInnerModels[] = {"model.language_model."};
constexpr absl::string_view kForeign[] = {"model.visual.", "visual.", "mtp.",
                                          "model.mtp."};

// But for what tensors are called.
absl::StatusOr<DeltaLayerOptions> ReadGatedDeltaNet(const Config& config) {
  const Bounds heads = {1, 4096};
  const Bounds width = {1, 1 << 16};
  DeltaLayerOptions options;
  STEADYSTATE_ASSIGN_OR_RETURN(options.H,
                               config.Size("linear_num_key_heads", 16, heads));
  STEADYSTATE_ASSIGN_OR_RETURN(
      options.HV, config.Size("linear_num_value_heads", 32, heads));
  if (options.HV % options.H != 0) {
    return config.Invalid(
        "linear_num_value_heads",
        absl::StrCat("it must be a multiple of linear_num_key_heads, ",
                     options.H));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(options.K,
                               config.Size("linear_key_head_dim", 128, width));
  STEADYSTATE_ASSIGN_OR_RETURN(
      options.V, config.Size("linear_value_head_dim", 128, width));
  STEADYSTATE_ASSIGN_OR_RETURN(
      options.conv_taps, config.Size("linear_conv_kernel_dim", 4, {1, 64}));
  options.decay = Decay::kScalar;
  options.gate = DeltaLayerOptions::Gate::kFull;
  return options;
}

absl::StatusOr<std::unique_ptr<Mixer>> MakeGatedDeltaNet(
    const MixerBuilder& builder) {
  STEADYSTATE_ASSIGN_OR_RETURN(DeltaLayerOptions options,
                               ReadGatedDeltaNet(builder.config));
  STEADYSTATE_ASSIGN_OR_RETURN(
      options.gate_activation,
      builder.config.ActivationOf("output_gate_type", "silu"));
  if (options.gate_activation != Activation::kSilu) {
    return builder.config.Unsupported("output_gate_type",
                                      "supported are \"swish\" and \"silu\"");
  }
  options.names = {.qkv = "in_proj_qkv",
                   .beta = "in_proj_b",
                   .decay = "in_proj_a",
                   .gate = "in_proj_z",
                   .norm = "norm",
                   .out = "out_proj"};
  return DeltaLayer::Make(builder, options);
}

absl::StatusOr<std::unique_ptr<Mixer>> MakeGatedDeltaNetByHead(
    const MixerBuilder& builder) {
  STEADYSTATE_ASSIGN_OR_RETURN(DeltaLayerOptions options,
                               ReadGatedDeltaNet(builder.config));
  options.gate_activation = Activation::kSilu;
  options.names = {.qkvz = "in_proj_qkvz",
                   .ba = "in_proj_ba",
                   .norm = "norm",
                   .out = "out_proj"};
  return DeltaLayer::Make(builder, options);
}

absl::StatusOr<std::unique_ptr<Mixer>> MakeMixtureOf(
    const ExpertDefaults& defaults, const MixerBuilder& from,
    MixtureOptions options = {}) {
  const Config& config = from.config;
  const Bounds widths = {1, 1 << 20};
  STEADYSTATE_RETURN_IF_ERROR(ReadExperts(config, defaults, options.router));
  options.router.shared_gate = "shared_expert_gate.weight";
  STEADYSTATE_ASSIGN_OR_RETURN(options.activation,
                               config.ActivationOf("hidden_act", "silu"));
  if (options.activation != Activation::kSilu) {
    return config.Unsupported("hidden_act",
                              "supported are \"swish\" and \"silu\"");
  }
  STEADYSTATE_ASSIGN_OR_RETURN(
      options.width, config.Size("moe_intermediate_size", 512, widths));
  constexpr ExpertNames::Fused kFused[] = {
      {"experts.gate_up_proj", "experts.down_proj"}};
  options.names.fused = kFused;
  STEADYSTATE_ASSIGN_OR_RETURN(
      const size_t shared,
      config.Size("shared_expert_intermediate_size", 512, widths));
  options.make_shared = [shared](const MixerBuilder& builder) {
    return Mlp::Make(shared, Activation::kSilu,
                     builder.Child("shared_expert."));
  };
  return Mixture::Make(from, options);
}

absl::StatusOr<std::unique_ptr<Mixer>> MakeMixture(const MixerBuilder& from) {
  return MakeMixtureOf({.count = 256, .chosen = 8}, from);
}

absl::StatusOr<std::unique_ptr<Mixer>> MakeNextMixture(
    const MixerBuilder& from) {
  MixtureOptions options;
  STEADYSTATE_ASSIGN_OR_RETURN(const bool divided,
                               from.config.Bool("norm_topk_prob", true));
  if (!divided) options.router.divided_with = -1;
  return MakeMixtureOf({.count = 512, .chosen = 10}, from, options);
}

// Which layers have a mixture; the others have an MLP.
absl::Status ReadMixtureLayers(const Config& config, ModelConfig& model) {
  const size_t layers = model.layers.size();
  STEADYSTATE_ASSIGN_OR_RETURN(
      const size_t step, config.Size("decoder_sparse_step", 1, {1, 1 << 16}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const auto without,
      config.SizeList("mlp_only_layers", {0, static_cast<double>(layers - 1)},
                      layers));
  for (size_t i = 0; i < layers; ++i) {
    model.layers[i].channels =
        (i + 1) % step == 0 ? ChannelMixer::kFamily : ChannelMixer::kGatedMlp;
  }
  if (!without.has_value()) return absl::OkStatus();
  for (const size_t layer : *without) {
    model.layers[layer].channels = ChannelMixer::kGatedMlp;
  }
  return absl::OkStatus();
}

// Every layer, as `layer_types` or `full_attention_interval` says.
absl::Status ReadLayers(const Config& config, ModelConfig& model) {
  constexpr Choice<TokenMixer> kKinds[] = {
      {"linear_attention", TokenMixer::kFamily},
      {"full_attention", TokenMixer::kSoftmax}};
  STEADYSTATE_ASSIGN_OR_RETURN(
      const bool named,
      ReadLayerTypes(config, std::span<const Choice<TokenMixer>>(kKinds),
                     model));
  if (named) return absl::OkStatus();
  STEADYSTATE_ASSIGN_OR_RETURN(
      const size_t interval,
      config.Size("full_attention_interval", 4, {1, 1024}));
  for (size_t i = interval - 1; i < model.layers.size(); i += interval) {
    model.layers[i].tokens = TokenMixer::kSoftmax;
  }
  return absl::OkStatus();
}

absl::Status ReadLanguageModel(const Config& config, size_t num_kv_heads,
                               ModelConfig& model) {
  STEADYSTATE_RETURN_IF_ERROR(ReadLayers(config, model));
  STEADYSTATE_ASSIGN_OR_RETURN(SoftmaxAttentionOptions attention,
                               ReadAttention(config,
                                             {.num_heads = 16,
                                              .num_kv_heads = num_kv_heads,
                                              .head_dim = 256,
                                              .rotary_factor = 0.25},
                                             model));
  STEADYSTATE_ASSIGN_OR_RETURN(attention.qkv_bias,
                               config.Bool("attention_bias", false));
  attention.out_bias = attention.qkv_bias;
  attention.gated = true;
  attention.qk_norm = {.zero_centred = true, .eps = model.norm.eps};
  for (LayerPlan& plan : model.layers) plan.softmax = attention;
  return absl::OkStatus();
}

absl::Status ReadConfig(const Config& config, ModelConfig& model) {
  return ReadLanguageModel(config, 4, model);
}

absl::Status ReadMixtureConfig(const Config& config, ModelConfig& model) {
  return ReadLanguageModel(config, 2, model);
}

absl::Status ReadNextConfig(const Config& config, ModelConfig& model) {
  STEADYSTATE_RETURN_IF_ERROR(ReadMixtureLayers(config, model));
  return ReadLanguageModel(config, 2, model);
}

}  // namespace

Family Qwen35Family() {
  return {.model_type = "qwen3_5",
          .inner_model_type = "qwen3_5_text",
          .source = "qwen3_5.cc",
          .keys = {.used = kUsedKeys,
                   .inert = kInertKeys,
                   .must_be_default = kFixedKeys},
          .part_keys = HybridKeys(),
          .frame = {.inner_models = kInnerModels,
                    .embeddings = "embed_tokens.weight",
                    .token_norm = "input_layernorm",
                    .token_mixer = "linear_attn.",
                    .softmax_mixer = "self_attn.",
                    .channel_norm = "post_attention_layernorm",
                    .zero_centred_norms = true,
                    .eps_key = "rms_norm_eps",
                    .foreign = kForeign},
          .defaults = {.hidden_size = 4096,
                       .layers = 32,
                       .vocab_size = 248320,
                       .intermediate_size = 12288,
                       .max_position_embeddings = 32768,
                       .bos_token = std::nullopt,
                       .eos_token = std::nullopt},
          .hybrid = false,
          .read_config = ReadConfig,
          .make_token_mixer = MakeGatedDeltaNet};
}

Family Qwen35MoeFamily() {
  Family family = Qwen35Family();
  family.model_type = "qwen3_5_moe";
  family.inner_model_type = "qwen3_5_moe_text";
  family.keys.used = kMixtureKeys;
  family.defaults.hidden_size = 2048;
  family.defaults.layers = 40;
  family.layer.channels = ChannelMixer::kFamily;
  family.read_config = ReadMixtureConfig;
  family.make_channel_mixer = MakeMixture;
  return family;
}

Family Qwen3NextFamily() {
  Family family = Qwen35MoeFamily();
  family.model_type = "qwen3_next";
  family.inner_model_type = "";
  family.keys = {.used = kNextKeys, .inert = kInertKeys, .must_be_default = {}};
  family.defaults.layers = 48;
  family.defaults.vocab_size = 151936;
  family.defaults.intermediate_size = 5632;
  family.layer.channels = ChannelMixer::kGatedMlp;  // or as the config says
  family.read_config = ReadNextConfig;
  family.make_token_mixer = MakeGatedDeltaNetByHead;
  family.make_channel_mixer = MakeNextMixture;
  return family;
}

}  // namespace steadystate
