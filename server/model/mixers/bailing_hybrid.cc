// Ling 3.0 (inclusionAI 2026), as transformers' model_type "bailing_hybrid":
// the parts of Kimi Linear (kimi_linear.cc) otherwise. Decays and gates of Kimi
// delta attention are of full rank, decays bounded below; in latent attention
// (parts/latent_attention.h) positions turn what heads share, and each head's
// output has a gate of one number; experts are chosen from the best groups.
//
// Of the last layers of published models the factors within experts are bounded
// (ActivateGated in parts/projection.h), as they were trained and as vLLM and
// SGLang read expert_swiglu_limit_list and share_expert_swiglu_limit_list;
// transformers 5.23 and the models' own code pass over these keys.
#include <memory>
#include <optional>
#include <vector>

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

constexpr Bounds kHeads = {1, 4096};
constexpr Bounds kHeadWidth = {1, 1 << 16};
constexpr Bounds kWidth = {1, 1 << 20};

constexpr absl::string_view kUsed[] = {"attention_bias",
                                       "expert_swiglu_limit_list",
                                       "first_k_dense_replace",
                                       "kda_lower_bound",
                                       "kda_safe_gate",
                                       "kv_lora_rank",
                                       "layer_group_size",
                                       "linear_conv_kernel_dim",
                                       "linear_head_dim",
                                       "linear_num_heads",
                                       "mlp_layer_types",
                                       "model_max_length",
                                       "moe_intermediate_size",
                                       "moe_renormalize",
                                       "moe_shared_expert_intermediate_size",
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
                                       "share_expert_swiglu_limit_list",
                                       "short_conv_kernel_size",
                                       "topk_group",
                                       "v_head_dim"};
// Of training and of predictions of several tokens; what follows from other
// keys; and what the models' own code does not read.
constexpr absl::string_view kInert[] = {"embedding_dropout",
                                        "group_norm_size",
                                        "linear_silu",
                                        "max_window_layers",
                                        "mtp_loss_scaling_factor",
                                        "mtp_use_kda",
                                        "num_mtp_layers",
                                        "num_nextn_predict_layers",
                                        "output_dropout",
                                        "qk_head_dim",
                                        "rotary_dim",
                                        "router_dtype",
                                        "seq_aux",
                                        "use_qk_norm",
                                        "use_rmsnorm"};
constexpr FixedKey kFixed[] = {
    {"gated_attention_proj_granularity_type", "\"head_wise\""},
    {"hidden_act", "\"silu\""},
    {"linear_attention", "\"kda\""},
    {"moe_router_enable_expert_bias", "true"},
    {"no_kda_lora", "true"},
    {"num_kv_heads_for_linear_attn", "0"},
    {"rope_interleave", "true"},
    {"scale_router_input", "false"},
    {"score_function", "\"sigmoid\""},
    {"use_bias", "false"},
    {"use_kda_lora", "false"},
    {"use_mla_nope", "false"},
    {"use_nGPT", "false"},
    {"use_qkv_bias", "false"}};
// Of predictions of several tokens, behind the 42 layers.
constexpr absl::string_view kForeign[] = {"model.layers.42.", "model.mtp."};

absl::StatusOr<std::unique_ptr<Mixer>> MakeDelta(const MixerBuilder& from) {
  const Config& config = from.config;
  DeltaLayerOptions options;
  STEADYSTATE_ASSIGN_OR_RETURN(
      options.H,
      config.Size(Either(config, "linear_num_heads", "num_attention_heads"), 32,
                  kHeads));
  // transformers writes the width of what turns as head_dim.
  STEADYSTATE_ASSIGN_OR_RETURN(
      options.K, config.Size(Either(config, "linear_head_dim", "head_dim"), 128,
                             kHeadWidth));
  STEADYSTATE_ASSIGN_OR_RETURN(
      options.conv_taps, config.Size(Either(config, "linear_conv_kernel_dim",
                                            "short_conv_kernel_size"),
                                     4, {1, 64}));
  STEADYSTATE_ASSIGN_OR_RETURN(const bool safe,
                               config.Bool("kda_safe_gate", true));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const double bound, config.Number("kda_lower_bound", -5, {-1000, 0}));
  if (safe) options.decay_lower_bound = bound;
  options.HV = options.H;
  options.V = options.K;
  options.decay = Decay::kKey;
  options.gate = DeltaLayerOptions::Gate::kFull;
  options.gate_activation = Activation::kSigmoid;
  options.names = {.decay = "f_proj", .decay_down = "", .out = "dense"};
  return DeltaLayer::Make(from, options);
}

// A layer's limit; 0 where the list ends before.
absl::StatusOr<float> ReadLimit(const Config& config, absl::string_view key,
                                size_t layer) {
  STEADYSTATE_ASSIGN_OR_RETURN(const auto limits,
                               config.NumberList(key, {0, 1e6}, 4096));
  if (!limits.has_value() || layer >= limits->size()) return 0.0F;
  return static_cast<float>((*limits)[layer]);
}

absl::StatusOr<std::unique_ptr<Mixer>> MakeMixture(const MixerBuilder& from) {
  const Config& config = from.config;
  MixtureOptions options;
  STEADYSTATE_RETURN_IF_ERROR(
      ReadSharedRouter(config,
                       {.experts = {.count = 512, .chosen = 8},
                        .groups = 8,
                        .groups_kept = 4,
                        .factor = 2.5F},
                       options.router));
  constexpr absl::string_view kBias = "gate.expert_bias";
  if (from.weights.Has(kBias)) options.router.bias = kBias;
  STEADYSTATE_ASSIGN_OR_RETURN(
      options.width, config.Size("moe_intermediate_size", 768, kWidth));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const size_t shared, config.Size("moe_shared_expert_intermediate_size",
                                       options.width, kWidth));
  MixtureLimits limits;
  STEADYSTATE_ASSIGN_OR_RETURN(
      limits.experts,
      ReadLimit(config, "expert_swiglu_limit_list", from.layer));
  STEADYSTATE_ASSIGN_OR_RETURN(
      limits.shared,
      ReadLimit(config, "share_expert_swiglu_limit_list", from.layer));
  return MakeSharedMixture(from, shared, limits, options);
}

absl::Status ReadConfig(const Config& config, ModelConfig& model) {
  constexpr Choice<TokenMixer> kKinds[] = {
      {"linear_attention", TokenMixer::kFamily},
      {"full_attention", TokenMixer::kLatent}};
  STEADYSTATE_ASSIGN_OR_RETURN(
      const bool named,
      ReadLayerTypes(config, std::span<const Choice<TokenMixer>>(kKinds),
                     model));
  STEADYSTATE_ASSIGN_OR_RETURN(const size_t group,
                               config.Size("layer_group_size", 6, {1, 1024}));
  for (size_t i = group - 1; !named && i < model.layers.size(); i += group) {
    model.layers[i].tokens = TokenMixer::kLatent;
  }
  STEADYSTATE_RETURN_IF_ERROR(ReadMixtureLayers(config, 2, model));
  STEADYSTATE_ASSIGN_OR_RETURN(LatentAttentionOptions attention,
                               ReadLatentAttention(config));
  STEADYSTATE_ASSIGN_OR_RETURN(attention.rope_theta,
                               ReadRopeTheta(config, 6e6, model));
  if (attention.rope % 2 != 0) {
    return config.Invalid("qk_rope_head_dim",
                          "pairs of it turn: it must be even");
  }
  attention.rotary = true;
  attention.gated = true;
  attention.out = "dense";
  for (LayerPlan& plan : model.layers) plan.latent = attention;
  STEADYSTATE_ASSIGN_OR_RETURN(
      model.max_position_embeddings,
      config.Size("model_max_length", model.max_position_embeddings,
                  {1, 1 << 30}));
  return absl::OkStatus();
}

}  // namespace

Family BailingHybridFamily() {
  return {.model_type = "bailing_hybrid",
          .source = "bailing_hybrid.cc",
          .keys = {.used = kUsed, .inert = kInert, .must_be_default = kFixed},
          .part_keys = HybridKeys(),
          .frame = {.embeddings = "word_embeddings.weight",
                    .other_embeddings = "embed_tokens.weight",
                    .token_norm = "input_layernorm",
                    .token_mixer = "attention.",
                    .channel_norm = "post_attention_layernorm",
                    .eps_key = "rms_norm_eps",
                    .foreign = kForeign},
          .defaults = {.hidden_size = 2560,
                       .layers = 42,
                       .vocab_size = 157184,
                       .intermediate_size = 6144,
                       .max_position_embeddings = 262144,
                       .bos_token = std::nullopt,
                       .eos_token = 156895},
          .hybrid = false,
          .read_config = ReadConfig,
          .make_token_mixer = MakeDelta,
          .make_channel_mixer = MakeMixture};
}

}  // namespace steadystate
