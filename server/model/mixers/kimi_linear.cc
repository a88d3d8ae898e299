// Kimi Linear (Moonshot AI 2025), as transformers' model_type "kimi_linear":
// Kimi delta attention (delta_rule.cc, "kda") under other names, without a bias
// of its gate, and every few layers latent attention without positions
// (parts/latent_attention.h). All layers but the first have a mixture of
// experts (parts/mixture.h) beside one that all tokens have: the sigmoid of
// each expert's product, chosen with a correction added, of the best groups,
// and weighed without. Which layers are which say linear_attn_config, that
// counts them from 1, or layer_types; which have a mixture,
// first_k_dense_replace or mlp_layer_types.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/pointwise/activation.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/config.h"
#include "server/model/mixers/mixers.h"
#include "server/model/parts/delta_layer.h"
#include "server/model/parts/hybrid_config.h"
#include "server/model/parts/mixture.h"
#include "server/model/parts/shared_mixture.h"

namespace steadystate {
namespace {

constexpr absl::string_view kUsedKeys[] = {"attention_bias",
                                           "first_k_dense_replace",
                                           "kv_lora_rank",
                                           "linear_attn_config",
                                           "linear_conv_kernel_dim",
                                           "linear_head_dim",
                                           "linear_num_heads",
                                           "mlp_layer_types",
                                           "model_max_length",
                                           "moe_intermediate_size",
                                           "moe_renormalize",
                                           "n_group",
                                           "n_shared_experts",
                                           "norm_topk_prob",
                                           "num_expert_group",
                                           "num_experts",
                                           "num_experts_per_tok",
                                           "num_experts_per_token",
                                           "num_local_experts",
                                           "num_shared_experts",
                                           "q_lora_rank",
                                           "qk_nope_head_dim",
                                           "qk_rope_head_dim",
                                           "routed_scaling_factor",
                                           "topk_group",
                                           "v_head_dim"};
// Positions turn nothing. num_nextn_predict_layers are of training.
constexpr absl::string_view kInertKeys[] = {"num_nextn_predict_layers",
                                            "qk_head_dim"};
constexpr FixedKey kFixedKeys[] = {
    {"hidden_act", "\"silu\""},
    {"latent_moe_use_norm", "false"},
    {"mla_use_nope", "true"},
    {"mla_use_output_gate", "false"},
    {"moe_layer_freq", "1"},
    {"moe_router_activation_func", "\"sigmoid\""},
    {"attn_res_block_size", "null"},
    {"routed_expert_hidden_size", "null"},
    {"topk_method", "\"noaux_tc\""},
    {"use_grouped_topk", "true"}};

constexpr absl::string_view kLinearKeys[] = {"full_attn_layers", "head_dim",
                                             "kda_layers", "num_heads",
                                             "short_conv_kernel_size"};
constexpr FixedKey kLinearFixedKeys[] = {{"gate_lower_bound", "null"},
                                         {"use_full_rank_gate", "false"}};
constexpr KeyTable kLinearTable[] = {
    {.used = kLinearKeys, .inert = {}, .must_be_default = kLinearFixedKeys}};

constexpr Bounds kHeads = {1, 4096};
constexpr Bounds kHeadWidth = {1, 1 << 16};
constexpr Bounds kTaps = {1, 64};
constexpr Bounds kWidth = {1, 1 << 20};

// linear_attn_config, if there is one.
absl::StatusOr<std::optional<Config>> LinearConfig(const Config& config) {
  STEADYSTATE_ASSIGN_OR_RETURN(const std::vector<Config> objects,
                               config.Objects("linear_attn_config", 1));
  if (objects.empty()) return std::optional<Config>();
  return std::optional(objects.front());
}

absl::StatusOr<std::unique_ptr<Mixer>> MakeDeltaAttention(
    const MixerBuilder& from) {
  const Config& config = from.config;
  DeltaLayerOptions options;
  STEADYSTATE_ASSIGN_OR_RETURN(options.H,
                               config.Size("linear_num_heads", 32, kHeads));
  STEADYSTATE_ASSIGN_OR_RETURN(options.K,
                               config.Size("linear_head_dim", 128, kHeadWidth));
  STEADYSTATE_ASSIGN_OR_RETURN(size_t taps,
                               config.Size("linear_conv_kernel_dim", 4, kTaps));
  STEADYSTATE_ASSIGN_OR_RETURN(const std::optional<Config> object,
                               LinearConfig(config));
  if (object.has_value()) {
    STEADYSTATE_ASSIGN_OR_RETURN(options.H,
                                 object->Size("num_heads", options.H, kHeads));
    STEADYSTATE_ASSIGN_OR_RETURN(
        options.K, object->Size("head_dim", options.K, kHeadWidth));
    STEADYSTATE_ASSIGN_OR_RETURN(
        taps, object->Size("short_conv_kernel_size", taps, kTaps));
  }
  options.HV = options.H;
  options.V = options.K;
  options.conv_taps = taps;
  options.decay = Decay::kKey;
  options.gate = DeltaLayerOptions::Gate::kLowRank;
  options.gate_bias = Bias::kNone;
  options.gate_activation = Activation::kSigmoid;
  options.names = {.decay_down = "f_a_proj",
                   .decay_up = "f_b_proj",
                   .gate_down = "g_a_proj",
                   .gate_up = "g_b_proj"};
  return DeltaLayer::Make(from, options);
}

absl::StatusOr<std::unique_ptr<Mixer>> MakeMixture(const MixerBuilder& from) {
  MixtureOptions options;
  STEADYSTATE_RETURN_IF_ERROR(ReadSharedRouter(
      from.config, {.experts = {.count = 256, .chosen = 8}, .factor = 2.446F},
      options.router));
  STEADYSTATE_ASSIGN_OR_RETURN(
      options.width, from.config.Size("moe_intermediate_size", 1024, kWidth));
  options.names.each = {.gate = "w1", .up = "w3", .down = "w2"};
  return MakeSharedMixture(from, options.width, {}, options);
}

// As linear_attn_config has it: each layer is in one of its lists. False if it
// has none.
absl::StatusOr<bool> ReadListedLayers(const Config& object,
                                      ModelConfig& model) {
  const size_t layers = model.layers.size();
  const Bounds numbers = {1, static_cast<double>(layers)};
  size_t listed = 0;
  std::vector<bool> seen(layers);
  for (const TokenMixer kind : {TokenMixer::kFamily, TokenMixer::kLatent}) {
    const absl::string_view key =
        kind == TokenMixer::kFamily ? "kda_layers" : "full_attn_layers";
    STEADYSTATE_ASSIGN_OR_RETURN(const auto list,
                                 object.SizeList(key, numbers, layers));
    if (!list.has_value()) return false;
    for (const size_t number : *list) {
      if (seen[number - 1]) {
        return object.Invalid(key, "a layer is listed twice");
      }
      seen[number - 1] = true;
      model.layers[number - 1].tokens = kind;
    }
    listed += list->size();
  }
  if (listed == layers) return true;
  return object.Invalid("kda_layers",
                        "a layer is neither there nor in full_attn_layers");
}

constexpr Choice<TokenMixer> kKinds[] = {
    {"linear_attention", TokenMixer::kFamily},
    {"full_attention", TokenMixer::kLatent}};

absl::Status ReadLayers(const Config& config, ModelConfig& model) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      const bool named,
      ReadLayerTypes(config, std::span<const Choice<TokenMixer>>(kKinds),
                     model));
  STEADYSTATE_ASSIGN_OR_RETURN(const std::optional<Config> object,
                               LinearConfig(config));
  if (object.has_value()) {
    STEADYSTATE_RETURN_IF_ERROR(
        object->CheckKeys(kLinearTable, model.warnings));
  }
  if (named) return absl::OkStatus();
  if (object.has_value()) {
    STEADYSTATE_ASSIGN_OR_RETURN(const bool listed,
                                 ReadListedLayers(*object, model));
    if (listed) return absl::OkStatus();
  }
  for (size_t i = 4; i < model.layers.size(); i += 4) {
    model.layers[i].tokens = TokenMixer::kLatent;
  }
  return absl::OkStatus();
}

absl::Status ReadConfig(const Config& config, ModelConfig& model) {
  STEADYSTATE_RETURN_IF_ERROR(ReadLayers(config, model));
  STEADYSTATE_RETURN_IF_ERROR(ReadMixtureLayers(config, 1, model));
  STEADYSTATE_ASSIGN_OR_RETURN(const LatentAttentionOptions attention,
                               ReadLatentAttention(config));
  for (LayerPlan& plan : model.layers) plan.latent = attention;
  STEADYSTATE_ASSIGN_OR_RETURN(
      model.max_position_embeddings,
      config.Size("model_max_length", model.max_position_embeddings,
                  {1, 1 << 30}));
  return absl::OkStatus();
}

}  // namespace

Family KimiLinearFamily() {
  return {.model_type = "kimi_linear",
          .source = "kimi_linear.cc",
          .keys = {.used = kUsedKeys,
                   .inert = kInertKeys,
                   .must_be_default = kFixedKeys},
          .part_keys = HybridKeys(),
          .frame = {.embeddings = "embed_tokens.weight",
                    .token_norm = "input_layernorm",
                    .token_mixer = "self_attn.",
                    .channel_norm = "post_attention_layernorm",
                    .other_channel_mixer = "block_sparse_moe.",
                    .eps_key = "rms_norm_eps"},
          .defaults = {.hidden_size = 2304,
                       .layers = 27,
                       .vocab_size = 163840,
                       .norm_eps = 1e-5,
                       .intermediate_size = 9216,
                       .max_position_embeddings = 1048576,
                       .bos_token = 163584,
                       .eos_token = 163586},
          .hybrid = false,
          .read_config = ReadConfig,
          .make_token_mixer = MakeDeltaAttention,
          .make_channel_mixer = MakeMixture};
}

}  // namespace steadystate
