// Nemotron-H (NVIDIA 2025), as transformers' model_type "nemotron_h", without
// its mixtures of experts: each layer is one step, h += mixer(norm h), with
// Mamba-2 (parts/mamba2_layer.h), softmax attention without positions
// (softmax_attention.cc), or an MLP without a gate,
//   y = W_down relu(W_up x)^2 (+ biases).
// Which layers there are says hybrid_override_pattern, a letter for each, or a
// list of names; num_hidden_layers is nothing. Steps of time are bounded by
// time_step_limit in every path, as NVIDIA trained it; one path of transformers
// bounds them by time_step_min.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/pointwise/activation.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/config.h"
#include "server/model/mixers/mixers.h"
#include "server/model/parts/hybrid_config.h"
#include "server/model/parts/mamba2_layer.h"
#include "server/model/parts/plain_mlp.h"

namespace steadystate {
namespace {

constexpr absl::string_view kUsedKeys[] = {
    "conv_kernel",       "hybrid_override_pattern",
    "intermediate_size", "mamba_conv_bias",
    "mamba_d_conv",      "mamba_dt_limit",
    "mamba_head_dim",    "mamba_n_groups",
    "mamba_num_heads",   "mlp_bias",
    "n_groups",          "ssm_state_size",
    "time_step_limit",   "use_bias",
    "use_conv_bias"};
// Of training, of experts where there are none, how a library computes, and
// what follows from other keys.
constexpr absl::string_view kInertKeys[] = {
    "chunk_size",
    "expand",
    "hidden_dropout",
    "mamba_chunk_size",
    "mamba_dt_init_floor",
    "mamba_dt_max",
    "mamba_dt_min",
    "mamba_expand",
    "mamba_proj_bias",
    "mamba_ssm_cache_dtype",
    "moe_intermediate_size",
    "moe_latent_size",
    "moe_shared_expert_intermediate_size",
    "moe_shared_expert_overlap",
    "mtp_hybrid_override_pattern",
    "mtp_layers_block_type",
    "n_group",
    "n_routed_experts",
    "n_shared_experts",
    "norm_topk_prob",
    "num_experts_per_tok",
    "num_nextn_predict_layers",
    "rescale_prenorm_residual",
    "residual_in_fp32",
    "routed_scaling_factor",
    "time_step_floor",
    "time_step_max",
    "time_step_min",
    "topk_group",
    "use_mamba_kernels"};
// The library has no biases of attention, whatever a file says.
constexpr FixedKey kFixedKeys[] = {{"attention_bias", "false"},
                                   {"mamba_hidden_act", "\"silu\""},
                                   {"mlp_hidden_act", "\"relu2\""},
                                   {"sliding_window", "null"}};

// How the names of tensors begin, of published files and of newer ones.
constexpr absl::string_view kRoots[] = {"backbone.", "model."};
// Of predictions of several tokens at once.
constexpr absl::string_view kForeign[] = {"mtp.", "model.mtp.",
                                          "backbone.mtp."};

constexpr Bounds kHeads = {1, 65536};
constexpr Bounds kWidth = {1, 1 << 20};
constexpr size_t kMaxLayers = 1024;

// The key that the file has of the two, the first where it has neither.
absl::string_view Either(const Config& config, absl::string_view key,
                         absl::string_view older) {
  return !config.Has(key) && config.Has(older) ? older : key;
}

absl::StatusOr<Bias> ReadBias(const Config& config, absl::string_view key,
                              bool fallback) {
  STEADYSTATE_ASSIGN_OR_RETURN(const bool bias, config.Bool(key, fallback));
  return bias ? Bias::kYes : Bias::kNone;
}

absl::StatusOr<std::unique_ptr<Mixer>> MakeMamba2(const MixerBuilder& from) {
  const Config& config = from.config;
  Mamba2Options options;
  STEADYSTATE_ASSIGN_OR_RETURN(options.H,
                               config.Size("mamba_num_heads", 128, kHeads));
  STEADYSTATE_ASSIGN_OR_RETURN(options.P,
                               config.Size("mamba_head_dim", 64, kWidth));
  STEADYSTATE_ASSIGN_OR_RETURN(options.N,
                               config.Size("ssm_state_size", 128, kWidth));
  const absl::string_view groups = Either(config, "n_groups", "mamba_n_groups");
  STEADYSTATE_ASSIGN_OR_RETURN(options.G, config.Size(groups, 8, kHeads));
  if (options.H % options.G != 0) {
    return config.Invalid(
        groups, absl::StrCat("it must divide mamba_num_heads, ", options.H));
  }
  STEADYSTATE_RETURN_IF_ERROR(ReadStepLimit(
      config, Either(config, "time_step_limit", "mamba_dt_limit"), options));
  STEADYSTATE_ASSIGN_OR_RETURN(
      options.conv_taps,
      config.Size(Either(config, "conv_kernel", "mamba_d_conv"), 4, {1, 64}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      options.conv_bias,
      ReadBias(config, Either(config, "use_conv_bias", "mamba_conv_bias"),
               true));
  STEADYSTATE_ASSIGN_OR_RETURN(options.in_bias,
                               ReadBias(config, "use_bias", false));
  options.out_bias = options.in_bias;
  return Mamba2Layer::Make(from, options);
}

absl::StatusOr<std::unique_ptr<Mixer>> MakeMlp(const MixerBuilder& from) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      const size_t width, from.config.Size("intermediate_size", 21504, kWidth));
  STEADYSTATE_ASSIGN_OR_RETURN(const Bias bias,
                               ReadBias(from.config, "mlp_bias", false));
  return PlainMlp::Make(width, Activation::kSqrelu, bias, from);
}

constexpr Choice<TokenMixer> kKinds[] = {
    {"mamba", TokenMixer::kFamily},
    {"linear_attention", TokenMixer::kFamily},
    {"attention", TokenMixer::kSoftmax},
    {"full_attention", TokenMixer::kSoftmax},
    {"mlp", TokenMixer::kNone}};
constexpr Choice<TokenMixer> kLetters[] = {{"M", TokenMixer::kFamily},
                                           {"*", TokenMixer::kSoftmax},
                                           {"-", TokenMixer::kNone}};

// As many layers as there are names or letters.
absl::Status ReadLayers(const Config& config, ModelConfig& model) {
  constexpr absl::string_view kPattern = "hybrid_override_pattern";
  const absl::string_view list =
      Either(config, "layers_block_type", "layer_types");
  STEADYSTATE_ASSIGN_OR_RETURN(const auto names,
                               config.StringList(list, kMaxLayers));
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string pattern,
                               config.String(kPattern, ""));
  if (!names.has_value() && pattern.empty()) {
    return config.Invalid(kPattern, "the layers need it, or layers_block_type");
  }
  if (pattern.size() > kMaxLayers) {
    return config.Invalid(
        kPattern, absl::StrCat("at most ", kMaxLayers, " layers are possible"));
  }
  const size_t count = names.has_value() ? names->size() : pattern.size();
  if (count == 0) return config.Invalid(list, "there must be a layer");
  model.layers.assign(count, model.family->layer);
  for (size_t i = 0; i < count; ++i) {
    const absl::StatusOr<TokenMixer> kind =
        names.has_value()
            ? ChoiceOf(config, list, absl::string_view((*names)[i]),
                       std::span<const Choice<TokenMixer>>(kKinds))
            : ChoiceOf(config, kPattern,
                       absl::string_view(pattern).substr(i, 1),
                       std::span<const Choice<TokenMixer>>(kLetters));
    if (!kind.ok()) return kind.status();
    model.layers[i].tokens = *kind;
  }
  return absl::OkStatus();
}

absl::Status ReadConfig(const Config& config, ModelConfig& model) {
  STEADYSTATE_RETURN_IF_ERROR(ReadLayers(config, model));
  STEADYSTATE_ASSIGN_OR_RETURN(SoftmaxAttentionOptions attention,
                               ReadAttention(config,
                                             {.num_heads = 32,
                                              .num_kv_heads = 8,
                                              .head_dim = 128,
                                              .rotary_factor = 0},
                                             model));
  // Whatever the file says of positions.
  attention.rotary = 0;
  for (LayerPlan& plan : model.layers) plan.softmax = attention;
  return absl::OkStatus();
}

}  // namespace

Family NemotronHFamily() {
  return {.model_type = "nemotron_h",
          .source = "nemotron_h.cc",
          .keys = {.used = kUsedKeys,
                   .inert = kInertKeys,
                   .must_be_default = kFixedKeys},
          .part_keys = HybridKeys(),
          .frame = {.inner_models = kRoots,
                    .final_norm = "norm_f",
                    .token_norm = "norm",
                    .token_mixer = "mixer.",
                    .foreign = kForeign},
          .defaults = {.hidden_size = 4096,
                       .layers = 4,
                       .vocab_size = 131072,
                       .norm_eps = 1e-5,
                       .max_position_embeddings = 4096},
          .layer = {.channels = ChannelMixer::kNone},
          .hybrid = false,
          .read_config = ReadConfig,
          .make_token_mixer = MakeMamba2,
          .make_channel_mixer = MakeMlp};
}

}  // namespace steadystate
