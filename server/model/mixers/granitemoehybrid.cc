// Granite 4.0 H (IBM 2025), as transformers' model_type "granitemoehybrid":
// layers of Mamba-2 (parts/mamba2_layer.h) and of softmax attention
// (softmax_attention.cc), which mostly knows no positions, and scalars around
// them,
//   h0     = embedding_multiplier table[token]
//   h     += residual_multiplier mixer(norm h)
//   h     += residual_multiplier (mixture(norm h) + mlp(norm h))
//   logits = head(norm h) / logits_scaling
// Scores of attention are attention_multiplier q . k. The mixture of experts
// (parts/mixture.h), where there is one, weighs those that it has chosen by the
// softmax over them alone, which is that over all divided by their sum.
#include <memory>

#include "absl/strings/string_view.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/config.h"
#include "server/model/mixers/mixers.h"
#include "server/model/parts/hybrid_config.h"
#include "server/model/parts/mamba2_layer.h"
#include "server/model/parts/mixture.h"
#include "server/model/parts/projection.h"

namespace steadystate {
namespace {

constexpr absl::string_view kUsedKeys[] = {
    "attention_bias",       "attention_multiplier",
    "embedding_multiplier", "residual_multiplier",
    "logits_scaling",       "position_embedding_type",
    "num_local_experts",    "shared_intermediate_size",
    "num_experts_per_tok",  "mamba_n_heads",
    "mamba_d_head",         "mamba_n_groups",
    "mamba_d_state",        "mamba_d_conv",
    "mamba_expand",         "mamba_conv_bias",
    "mamba_proj_bias",      "time_step_limit"};
// Of training, and how a library computes.
constexpr absl::string_view kInertKeys[] = {
    "init_method",       "logits_to_keep",       "mamba_chunk_size",
    "time_step_floor",   "time_step_max",        "time_step_min",
    "use_mamba_kernels", "router_aux_loss_coef", "output_router_logits"};
constexpr FixedKey kFixedKeys[] = {{"normalization_function", "\"rmsnorm\""}};

constexpr Bounds kWidth = {1, 1 << 20};
constexpr Bounds kFactor = {1e-6, 1e6};

absl::StatusOr<std::unique_ptr<Mixer>> MakeMamba2(const MixerBuilder& from) {
  STEADYSTATE_ASSIGN_OR_RETURN(const Mamba2Options options,
                               ReadMamba2Options(from));
  return Mamba2Layer::Make(from, options);
}

constexpr MlpNames kSharedMlp = {.gate = "shared_mlp.input_linear",
                                 .up = "",
                                 .down = "shared_mlp.output_linear"};

absl::StatusOr<size_t> SharedWidth(const Config& config) {
  return config.Size("shared_intermediate_size", 1024, kWidth);
}

absl::StatusOr<std::unique_ptr<Mixer>> MakeMixture(const MixerBuilder& from) {
  const Config& config = from.config;
  const MixerBuilder experts = from.Child("block_sparse_moe.");
  MixtureOptions options;
  STEADYSTATE_RETURN_IF_ERROR(ReadExperts(
      config, {.count = 8, .chosen = 2, .count_key = "num_local_experts"},
      options.router));
  // As transformers writes it since its version 5, and as published.
  constexpr absl::string_view kRouters[] = {"router.weight",
                                            "router.layer.weight"};
  options.router.matrix = kRouters[experts.weights.Has(kRouters[0]) ? 0 : 1];
  constexpr ExpertNames::Fused kFused[] = {
      {"experts.gate_up_proj", "experts.down_proj"},
      {"input_linear.weight", "output_linear.weight"}};
  options.names.fused = kFused;
  STEADYSTATE_ASSIGN_OR_RETURN(options.width,
                               config.Size("intermediate_size", 11008, kWidth));
  STEADYSTATE_ASSIGN_OR_RETURN(options.activation,
                               config.ActivationOf("hidden_act", "silu"));
  STEADYSTATE_ASSIGN_OR_RETURN(const size_t shared, SharedWidth(config));
  options.make_shared = [&from, &options, shared](const MixerBuilder&) {
    return Mlp::Make(shared, options.activation, from, kSharedMlp);
  };
  return Mixture::Make(experts, options);
}

absl::Status ReadAttentionLayers(const Config& config, ModelConfig& model) {
  STEADYSTATE_RETURN_IF_ERROR(ReadMambaLayerTypes(config, model).status());
  STEADYSTATE_ASSIGN_OR_RETURN(
      SoftmaxAttentionOptions attention,
      ReadAttention(config, {.num_heads = 32, .fixed_share = true}, model));
  STEADYSTATE_ASSIGN_OR_RETURN(attention.qkv_bias,
                               config.Bool("attention_bias", false));
  attention.out_bias = attention.qkv_bias;
  STEADYSTATE_ASSIGN_OR_RETURN(
      attention.scale, config.Number("attention_multiplier", 1, kFactor));
  constexpr Choice<bool> kPositions[] = {{"nope", false}, {"rope", true}};
  STEADYSTATE_ASSIGN_OR_RETURN(
      const bool turns, ReadChoice(config, "position_embedding_type",
                                   std::span<const Choice<bool>>(kPositions)));
  if (!turns) attention.rotary = 0;
  for (LayerPlan& plan : model.layers) plan.softmax = attention;
  return absl::OkStatus();
}

absl::Status ReadScalars(const Config& config, ModelConfig& model) {
  struct Scalar {
    absl::string_view key;
    float& value;
  };
  for (const auto& [key, value] :
       {Scalar{"embedding_multiplier", model.embedding_multiplier},
        Scalar{"residual_multiplier", model.residual_multiplier},
        Scalar{"logits_scaling", model.logit_divisor}}) {
    STEADYSTATE_ASSIGN_OR_RETURN(value, ReadFactor(config, key));
  }
  return absl::OkStatus();
}

absl::Status ReadConfig(const Config& config, ModelConfig& model) {
  STEADYSTATE_ASSIGN_OR_RETURN(const size_t experts,
                               config.Size("num_local_experts", 8, {0, 4096}));
  for (LayerPlan& plan : model.layers) {
    if (experts > 0) plan.channels = ChannelMixer::kFamily;
  }
  STEADYSTATE_ASSIGN_OR_RETURN(model.intermediate_size, SharedWidth(config));
  STEADYSTATE_RETURN_IF_ERROR(ReadScalars(config, model));
  return ReadAttentionLayers(config, model);
}

}  // namespace

Family GraniteMoeHybridFamily() {
  return {.model_type = "granitemoehybrid",
          .source = "granitemoehybrid.cc",
          .keys = {.used = kUsedKeys,
                   .inert = kInertKeys,
                   .must_be_default = kFixedKeys},
          .part_keys = HybridKeys(),
          .frame = {.embeddings = "embed_tokens.weight",
                    .token_norm = "input_layernorm",
                    .token_mixer = "mamba.",
                    .softmax_mixer = "self_attn.",
                    .channel_norm = "post_attention_layernorm",
                    .channel_mixer = "",
                    .mlp = kSharedMlp,
                    .eps_key = "rms_norm_eps"},
          .defaults = {.hidden_size = 4096, .layers = 32},
          .hybrid = false,
          .read_config = ReadConfig,
          .make_token_mixer = MakeMamba2,
          .make_channel_mixer = MakeMixture};
}

}  // namespace steadystate
