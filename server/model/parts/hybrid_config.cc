#include "server/model/parts/hybrid_config.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

constexpr absl::string_view kAttentionKeys[] = {
    "layer_types",         "layers_block_type", "num_attention_heads",
    "num_key_value_heads", "head_dim",          "rope_parameters",
    "rope_scaling",        "rope_theta",        "partial_rotary_factor"};
constexpr absl::string_view kInertKeys[] = {
    "attention_dropout", "num_logits_to_keep", "output_router_logits",
    "pretraining_tp", "rope_type"};

constexpr absl::string_view kRotaryUsed[] = {
    "rope_theta", "partial_rotary_factor", "rope_type", "type"};
// Of text the three positions of a token are the same.
constexpr absl::string_view kRotaryInert[] = {"mrope_section",
                                              "mrope_interleaved"};
constexpr KeyTable kRotaryTable[] = {
    {.used = kRotaryUsed, .inert = kRotaryInert, .must_be_default = {}}};

constexpr Bounds kHeads = {1, 4096};
constexpr Bounds kHeadWidth = {1, 1 << 16};

// What `rope_parameters`, or another object of its kind, says of theta and the
// share that turns; what it lacks stays as it is.
absl::Status ReadRotaryObject(const Config& config, absl::string_view key,
                              double& theta, double& share,
                              ModelConfig& model) {
  STEADYSTATE_ASSIGN_OR_RETURN(const std::vector<Config> objects,
                               config.Objects(key, 1));
  for (const Config& object : objects) {
    for (const absl::string_view kind : {"rope_type", "type"}) {
      STEADYSTATE_ASSIGN_OR_RETURN(const std::string type,
                                   object.String(kind, "default"));
      if (type != "default") {
        return object.Unsupported(kind, "only \"default\" is supported");
      }
    }
    STEADYSTATE_ASSIGN_OR_RETURN(theta,
                                 object.Number("rope_theta", theta, {1, 1e15}));
    STEADYSTATE_ASSIGN_OR_RETURN(
        share, object.Number("partial_rotary_factor", share, {0, 1}));
    STEADYSTATE_RETURN_IF_ERROR(object.CheckKeys(kRotaryTable, model.warnings));
  }
  return absl::OkStatus();
}

absl::Status ReadRotary(const Config& config, const AttentionDefaults& defaults,
                        SoftmaxAttentionOptions& options, ModelConfig& model) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      double theta,
      config.Number("rope_theta", defaults.rope_theta, {1, 1e15}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      double share,
      config.Number("partial_rotary_factor", defaults.rotary_factor, {0, 1}));
  STEADYSTATE_RETURN_IF_ERROR(
      ReadRotaryObject(config, RotaryKey(config), theta, share, model));
  if (defaults.fixed_share && share != defaults.rotary_factor) {
    model.warnings.push_back(absl::StrCat(
        "partial_rotary_factor ", share, " is not heeded: of this model ",
        defaults.rotary_factor, " of a head turns"));
    share = defaults.rotary_factor;
  }
  options.rope_theta = theta;
  options.rotary =
      static_cast<size_t>(static_cast<double>(options.head_dim) * share);
  if (options.rotary % 2 != 0) {
    return config.Invalid(
        "head_dim", absl::StrCat(options.rotary, " elements of a head of ",
                                 options.head_dim,
                                 " would turn; it must be an even number"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Bias> ReadBias(const Config& config, absl::string_view key,
                              bool fallback) {
  STEADYSTATE_ASSIGN_OR_RETURN(const bool bias, config.Bool(key, fallback));
  return bias ? Bias::kYes : Bias::kNone;
}

absl::string_view Either(const Config& config, absl::string_view key,
                         absl::string_view other) {
  return !config.Has(key) && config.Has(other) ? other : key;
}

absl::string_view RotaryKey(const Config& config) {
  return Either(config, "rope_scaling", "rope_parameters");
}

absl::StatusOr<float> ReadFactor(const Config& config, absl::string_view key,
                                 double fallback) {
  STEADYSTATE_ASSIGN_OR_RETURN(const double factor,
                               config.Number(key, fallback, {1e-6, 1e6}));
  return static_cast<float>(factor);
}

absl::StatusOr<bool> ReadLayerTypes(const Config& config,
                                    std::span<const Choice<TokenMixer>> kinds,
                                    ModelConfig& model) {
  const absl::string_view key =
      config.Has("layer_types") ? "layer_types" : "layers_block_type";
  STEADYSTATE_ASSIGN_OR_RETURN(
      const auto types,
      ReadLayerKinds(config, key, model.layers.size(), kinds));
  if (!types.has_value()) return false;
  for (size_t i = 0; i < types->size(); ++i) {
    model.layers[i].tokens = (*types)[i];
  }
  return true;
}

absl::StatusOr<bool> ReadMambaLayerTypes(const Config& config,
                                         ModelConfig& model) {
  constexpr Choice<TokenMixer> kKinds[] = {
      {"mamba", TokenMixer::kFamily},
      {"linear_attention", TokenMixer::kFamily},
      {"attention", TokenMixer::kSoftmax},
      {"full_attention", TokenMixer::kSoftmax}};
  return ReadLayerTypes(config, std::span<const Choice<TokenMixer>>(kKinds),
                        model);
}

absl::StatusOr<bool> ReadLayerIndices(const Config& config,
                                      absl::string_view key, TokenMixer mixer,
                                      ModelConfig& model) {
  if (config.IsNull(key)) return false;
  const size_t layers = model.layers.size();
  STEADYSTATE_ASSIGN_OR_RETURN(
      const auto indices,
      config.SizeList(key, {0, static_cast<double>(layers - 1)}, layers));
  if (!indices.has_value()) return false;
  for (const size_t layer : *indices) model.layers[layer].tokens = mixer;
  return true;
}

absl::StatusOr<SoftmaxAttentionOptions> ReadAttentionHeads(
    const Config& config, const AttentionDefaults& defaults,
    size_t hidden_size) {
  SoftmaxAttentionOptions options;
  STEADYSTATE_ASSIGN_OR_RETURN(
      options.num_heads,
      config.Size("num_attention_heads", defaults.num_heads, kHeads));
  const size_t kv_heads =
      defaults.num_kv_heads == 0 ? options.num_heads : defaults.num_kv_heads;
  STEADYSTATE_ASSIGN_OR_RETURN(
      options.num_kv_heads,
      config.Size("num_key_value_heads", kv_heads, kHeads));
  if (options.num_heads % options.num_kv_heads != 0) {
    return config.Invalid("num_key_value_heads",
                          absl::StrCat("it must divide num_attention_heads, ",
                                       options.num_heads));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(
      const size_t width,
      config.Size("head_dim", defaults.head_dim.value_or(0), kHeadWidth));
  if (width == 0 && hidden_size % options.num_heads != 0) {
    return config.Invalid(
        "num_attention_heads",
        absl::StrCat("without head_dim it must divide hidden_size, ",
                     hidden_size));
  }
  options.head_dim = width != 0 ? width : hidden_size / options.num_heads;
  return options;
}

absl::StatusOr<SoftmaxAttentionOptions> ReadAttention(
    const Config& config, const AttentionDefaults& defaults,
    ModelConfig& model) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      SoftmaxAttentionOptions options,
      ReadAttentionHeads(config, defaults, model.hidden_size));
  STEADYSTATE_RETURN_IF_ERROR(ReadRotary(config, defaults, options, model));
  return options;
}

absl::StatusOr<double> ReadRopeTheta(const Config& config, double fallback,
                                     ModelConfig& model) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      double theta, config.Number("rope_theta", fallback, {1, 1e15}));
  double share = 1;
  STEADYSTATE_RETURN_IF_ERROR(
      ReadRotaryObject(config, RotaryKey(config), theta, share, model));
  return theta;
}

absl::StatusOr<LatentAttentionOptions> ReadLatentAttention(
    const Config& config) {
  LatentAttentionOptions options;
  STEADYSTATE_ASSIGN_OR_RETURN(options.num_heads,
                               config.Size("num_attention_heads", 32, kHeads));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const size_t kv_heads,
      config.Size("num_key_value_heads", options.num_heads, kHeads));
  if (kv_heads != options.num_heads) {
    return config.Invalid("num_key_value_heads",
                          absl::StrCat("of latents each query head makes keys "
                                       "of its own: it must be "
                                       "num_attention_heads, ",
                                       options.num_heads));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(options.latent,
                               config.Size("kv_lora_rank", 512, kHeadWidth));
  STEADYSTATE_ASSIGN_OR_RETURN(const std::optional<size_t> query_latent,
                               config.OptionalSize("q_lora_rank", kHeadWidth));
  options.query_latent = query_latent.value_or(0);
  STEADYSTATE_ASSIGN_OR_RETURN(
      options.nope, config.Size("qk_nope_head_dim", 128, kHeadWidth));
  STEADYSTATE_ASSIGN_OR_RETURN(options.rope,
                               config.Size("qk_rope_head_dim", 64, kHeadWidth));
  STEADYSTATE_ASSIGN_OR_RETURN(options.value,
                               config.Size("v_head_dim", 128, kHeadWidth));
  STEADYSTATE_ASSIGN_OR_RETURN(options.bias,
                               config.Bool("attention_bias", false));
  return options;
}

ModelFrame MambaHybridFrame() {
  return {.embeddings = "embed_tokens.weight",
          .final_norm = "final_layernorm",
          .token_norm = "input_layernorm",
          .token_mixer = "mamba.",
          .softmax_mixer = "self_attn.",
          .channel_norm = "pre_ff_layernorm",
          .channel_mixer = "feed_forward.",
          .eps_key = "rms_norm_eps"};
}

KeyTable HybridKeys() {
  return {.used = kAttentionKeys, .inert = kInertKeys, .must_be_default = {}};
}

}  // namespace steadystate
