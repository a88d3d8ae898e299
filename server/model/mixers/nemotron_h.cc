// Nemotron-H (NVIDIA 2025), as transformers' model_type "nemotron_h": each
// layer is one step, h += mixer(norm h), with Mamba-2 (parts/mamba2_layer.h),
// softmax attention without positions (softmax_attention.cc), an MLP without a
// gate,
//   y = W_down relu(W_up x)^2 (+ biases),
// or a mixture of such experts (parts/mixture.h) beside one that all tokens
// have: the sigmoid of each expert's product, chosen with a correction added,
// of the best groups, and weighed without. With moe_latent_size the experts but
// for that one work on a projection of that width.
// Which layers there are says hybrid_override_pattern, a letter for each, or a
// list of names; num_hidden_layers is nothing. Steps of time are bounded by
// time_step_limit in every path, as NVIDIA trained it; one path of transformers
// bounds them by time_step_min.
#include <algorithm>
#include <memory>
#include <optional>
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
#include "server/model/parts/mixture.h"
#include "server/model/parts/plain_mlp.h"

namespace steadystate {
namespace {

constexpr absl::string_view kUsedKeys[] = {
    "conv_kernel",
    "hybrid_override_pattern",
    "intermediate_size",
    "mamba_conv_bias",
    "mamba_d_conv",
    "mamba_dt_limit",
    "mamba_head_dim",
    "mamba_n_groups",
    "mamba_num_heads",
    "mlp_bias",
    "n_groups",
    "ssm_state_size",
    "time_step_limit",
    "use_bias",
    "use_conv_bias",
    "moe_intermediate_size",
    "moe_latent_size",
    "moe_shared_expert_intermediate_size",
    "n_group",
    "n_routed_experts",
    "norm_topk_prob",
    "num_experts_per_tok",
    "routed_scaling_factor",
    "topk_group"};
// Of training, how a library computes, and what follows from other keys.
constexpr absl::string_view kInertKeys[] = {"chunk_size",
                                            "expand",
                                            "hidden_dropout",
                                            "mamba_chunk_size",
                                            "mamba_dt_init_floor",
                                            "mamba_dt_max",
                                            "mamba_dt_min",
                                            "mamba_expand",
                                            "mamba_proj_bias",
                                            "mamba_ssm_cache_dtype",
                                            "moe_shared_expert_overlap",
                                            "mtp_hybrid_override_pattern",
                                            "mtp_layers_block_type",
                                            "n_shared_experts",
                                            "num_nextn_predict_layers",
                                            "rescale_prenorm_residual",
                                            "residual_in_fp32",
                                            "time_step_floor",
                                            "time_step_max",
                                            "time_step_min",
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

absl::StatusOr<std::unique_ptr<Mixer>> MakeMixture(const MixerBuilder& from) {
  const Config& config = from.config;
  MixtureOptions options;
  STEADYSTATE_RETURN_IF_ERROR(ReadGroupedRouter(
      config,
      {.experts = {.count = 8, .chosen = 2, .count_key = "n_routed_experts"}},
      options.router));
  STEADYSTATE_ASSIGN_OR_RETURN(
      options.width, config.Size("moe_intermediate_size", 7688, kWidth));
  STEADYSTATE_ASSIGN_OR_RETURN(const std::optional<size_t> latent,
                               config.OptionalSize("moe_latent_size", kWidth));
  options.latent.width = latent.value_or(0);
  options.activation = Activation::kSqrelu;
  options.names.each.gate = "";
  constexpr ExpertNames::Fused kFused[] = {
      {"experts.up_proj", "experts.down_proj"}};
  options.names.fused = kFused;
  STEADYSTATE_ASSIGN_OR_RETURN(
      const size_t shared,
      config.Size("moe_shared_expert_intermediate_size", 7688, kWidth));
  STEADYSTATE_ASSIGN_OR_RETURN(const Bias bias,
                               ReadBias(config, "mlp_bias", false));
  options.latent.bias = bias;
  options.make_shared = [shared, bias](const MixerBuilder& builder) {
    return PlainMlp::Make(shared, Activation::kSqrelu, bias,
                          builder.Child("shared_experts."));
  };
  return Mixture::Make(from, options);
}

absl::StatusOr<std::unique_ptr<Mixer>> MakeMlp(const MixerBuilder& from) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      const size_t width, from.config.Size("intermediate_size", 21504, kWidth));
  STEADYSTATE_ASSIGN_OR_RETURN(const Bias bias,
                               ReadBias(from.config, "mlp_bias", false));
  return PlainMlp::Make(width, Activation::kSqrelu, bias, from);
}

enum class Kind : uint8_t { kMamba2, kAttention, kMlp, kMixture };
constexpr Choice<Kind> kKinds[] = {{"mamba", Kind::kMamba2},
                                   {"linear_attention", Kind::kMamba2},
                                   {"attention", Kind::kAttention},
                                   {"full_attention", Kind::kAttention},
                                   {"mlp", Kind::kMlp},
                                   {"moe", Kind::kMixture}};
constexpr Choice<Kind> kLetters[] = {{"M", Kind::kMamba2},
                                     {"*", Kind::kAttention},
                                     {"-", Kind::kMlp},
                                     {"E", Kind::kMixture}};

// Of each layer: as many as there are names or letters.
absl::StatusOr<std::vector<Kind>> ReadKinds(const Config& config) {
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
  std::vector<Kind> kinds;
  for (size_t i = 0; i < count; ++i) {
    const absl::StatusOr<Kind> kind =
        names.has_value()
            ? ChoiceOf(config, list, absl::string_view((*names)[i]),
                       std::span<const Choice<Kind>>(kKinds))
            : ChoiceOf(config, kPattern,
                       absl::string_view(pattern).substr(i, 1),
                       std::span<const Choice<Kind>>(kLetters));
    if (!kind.ok()) return kind.status();
    kinds.push_back(*kind);
  }
  return kinds;
}

absl::Status ReadLayers(const Config& config, ModelConfig& model) {
  STEADYSTATE_ASSIGN_OR_RETURN(const std::vector<Kind> kinds,
                               ReadKinds(config));
  model.layers.assign(kinds.size(), model.family->layer);
  for (size_t i = 0; i < kinds.size(); ++i) {
    model.layers[i].tokens = kinds[i] == Kind::kMamba2 ? TokenMixer::kFamily
                             : kinds[i] == Kind::kAttention
                                 ? TokenMixer::kSoftmax
                                 : TokenMixer::kNone;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Mixer>> MakeChannelMixer(
    const MixerBuilder& from) {
  STEADYSTATE_ASSIGN_OR_RETURN(const std::vector<Kind> kinds,
                               ReadKinds(from.config));
  return kinds[from.layer] == Kind::kMixture ? MakeMixture(from)
                                             : MakeMlp(from);
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
                    .eps_key = "layer_norm_epsilon",
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
          .make_channel_mixer = MakeChannelMixer};
}

}  // namespace steadystate
