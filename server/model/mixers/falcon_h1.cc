// Falcon-H1 (TII 2025), as transformers' model_type "falcon_h1": every layer
// has Mamba-2 (parts/mamba2_layer.h) beside softmax attention
// (softmax_attention.cc), of the same input, and scalars everywhere,
//   n      = norm h
//   h     += ssm_out mamba(ssm_in n) + attention_out attn(attention_in n)
//   h     += mlp(norm h)
//   p      = (W_in u + b) [m_z on z, m_x on x, m_B on B, m_C on C, m_dt on dt]
//   k      = key_multiplier W_k x, hence the scores times key_multiplier
//   mlp(x) = m_down W_down (silu(m_gate W_gate x) * (W_up x))
//   h0     = embedding_multiplier table[token]
//   logits = lm_head_multiplier head(norm h)
// Without mamba_rms_norm Mamba-2 has no norm, W_out (y * silu(z)).
#include <memory>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/config.h"
#include "server/model/mixers/mixers.h"
#include "server/model/parts/hybrid_config.h"
#include "server/model/parts/mamba2_layer.h"

namespace steadystate {
namespace {

constexpr absl::string_view kUsedKeys[] = {"attention_bias",
                                           "attention_in_multiplier",
                                           "attention_out_multiplier",
                                           "embedding_multiplier",
                                           "key_multiplier",
                                           "lm_head_multiplier",
                                           "mamba_conv_bias",
                                           "mamba_d_conv",
                                           "mamba_d_head",
                                           "mamba_d_ssm",
                                           "mamba_d_state",
                                           "mamba_expand",
                                           "mamba_n_groups",
                                           "mamba_n_heads",
                                           "mamba_norm_before_gate",
                                           "mamba_proj_bias",
                                           "mamba_rms_norm",
                                           "mlp_multipliers",
                                           "projectors_bias",
                                           "ssm_in_multiplier",
                                           "ssm_multipliers",
                                           "ssm_out_multiplier",
                                           "time_step_limit"};
// Of training, and how a library computes.
constexpr absl::string_view kInertKeys[] = {
    "mamba_chunk_size", "mamba_use_mlp", "mlp_expansion_factor",
    "time_step_floor",  "time_step_max", "time_step_min",
    "use_mamba_kernels"};
constexpr FixedKey kFixedKeys[] = {{"mlp_bias", "false"},
                                   {"attn_layer_indices", "null"},
                                   {"sliding_window", "null"}};

constexpr Bounds kWidth = {1, 1 << 20};
constexpr Bounds kFactors = {-1e6, 1e6};

// As many numbers as there are places, or none: ones.
absl::Status ReadFactors(const Config& config, absl::string_view key,
                         std::span<float* const> to) {
  STEADYSTATE_ASSIGN_OR_RETURN(const auto stated,
                               config.NumberList(key, kFactors, to.size()));
  if (!stated.has_value()) return absl::OkStatus();
  if (stated->size() != to.size()) {
    return config.Invalid(key,
                          absl::StrCat("it must have ", to.size(), " numbers"));
  }
  for (size_t i = 0; i < to.size(); ++i) {
    *to[i] = static_cast<float>((*stated)[i]);
  }
  return absl::OkStatus();
}

absl::Status ReadBiases(const Config& config, Mamba2Options& options) {
  struct Key {
    absl::string_view name;
    bool fallback;
    Bias& bias;
  };
  for (const auto& [name, fallback, bias] :
       {Key{"mamba_conv_bias", true, options.conv_bias},
        Key{"mamba_proj_bias", false, options.in_bias},
        Key{"projectors_bias", false, options.out_bias}}) {
    STEADYSTATE_ASSIGN_OR_RETURN(const bool stated,
                                 config.Bool(name, fallback));
    bias = stated ? Bias::kYes : Bias::kNone;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Mixer>> MakeMamba2(const MixerBuilder& from) {
  const Config& config = from.config;
  Mamba2Options options;
  STEADYSTATE_ASSIGN_OR_RETURN(const size_t expand,
                               config.Size("mamba_expand", 2, {1, 64}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const size_t E,
      config.Size("mamba_d_ssm", expand * from.hidden_size, kWidth));
  STEADYSTATE_RETURN_IF_ERROR(
      ReadMamba2Shape(config, E, "mamba_d_ssm", options));
  STEADYSTATE_RETURN_IF_ERROR(ReadBiases(config, options));
  STEADYSTATE_ASSIGN_OR_RETURN(const bool normed,
                               config.Bool("mamba_rms_norm", false));
  options.norm =
      normed ? Mamba2Options::Norm::kGroup : Mamba2Options::Norm::kNone;
  STEADYSTATE_ASSIGN_OR_RETURN(const bool norm_first,
                               config.Bool("mamba_norm_before_gate", true));
  options.gate_first = !norm_first;
  Mamba2Options::Scale& scale = options.scale;
  float* const columns[] = {&scale.z, &scale.x, &scale.B, &scale.C, &scale.dt};
  STEADYSTATE_RETURN_IF_ERROR(ReadFactors(config, "ssm_multipliers", columns));
  return Mamba2Layer::Make(from, options);
}

absl::Status ReadAttentionBeside(const Config& config, ModelConfig& model) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      SoftmaxAttentionOptions attention,
      ReadAttention(config,
                    {.num_heads = 32, .num_kv_heads = 8, .fixed_share = true},
                    model));
  STEADYSTATE_ASSIGN_OR_RETURN(attention.qkv_bias,
                               config.Bool("attention_bias", false));
  attention.out_bias = attention.qkv_bias;
  STEADYSTATE_ASSIGN_OR_RETURN(attention.key_multiplier,
                               ReadFactor(config, "key_multiplier"));
  MixerScale mamba;
  MixerScale softmax;
  STEADYSTATE_ASSIGN_OR_RETURN(mamba.in,
                               ReadFactor(config, "ssm_in_multiplier"));
  STEADYSTATE_ASSIGN_OR_RETURN(mamba.out,
                               ReadFactor(config, "ssm_out_multiplier"));
  STEADYSTATE_ASSIGN_OR_RETURN(softmax.in,
                               ReadFactor(config, "attention_in_multiplier"));
  STEADYSTATE_ASSIGN_OR_RETURN(softmax.out,
                               ReadFactor(config, "attention_out_multiplier"));
  for (LayerPlan& plan : model.layers) {
    plan.softmax = attention;
    plan.family_scale = mamba;
    plan.softmax_scale = softmax;
  }
  return absl::OkStatus();
}

absl::Status ReadConfig(const Config& config, ModelConfig& model) {
  STEADYSTATE_ASSIGN_OR_RETURN(model.embedding_multiplier,
                               ReadFactor(config, "embedding_multiplier"));
  STEADYSTATE_ASSIGN_OR_RETURN(model.logit_multiplier,
                               ReadFactor(config, "lm_head_multiplier"));
  float* const mlp[] = {&model.mlp_scale.gate, &model.mlp_scale.down};
  STEADYSTATE_RETURN_IF_ERROR(ReadFactors(config, "mlp_multipliers", mlp));
  return ReadAttentionBeside(config, model);
}

}  // namespace

Family FalconH1Family() {
  return {.model_type = "falcon_h1",
          .source = "falcon_h1.cc",
          .keys = {.used = kUsedKeys,
                   .inert = kInertKeys,
                   .must_be_default = kFixedKeys},
          .part_keys = HybridKeys(),
          .frame = MambaHybridFrame(),
          .defaults = {.hidden_size = 4096,
                       .layers = 32,
                       .vocab_size = 128000,
                       .norm_eps = 1e-5,
                       .intermediate_size = 14336,
                       .max_position_embeddings = 8192},
          .layer = {.tokens = TokenMixer::kBoth},
          .hybrid = false,
          .read_config = ReadConfig,
          .make_token_mixer = MakeMamba2};
}

}  // namespace steadystate
