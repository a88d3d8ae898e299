// Jamba (AI21 2024), as transformers' model_type "jamba": layers of Mamba-1
// (parts/mamba1_layer.h) whose low, B and C are normalised, each with weights,
// and in one of attn_layer_period softmax attention without positions
// (softmax_attention.cc); a gated MLP, or in one of expert_layer_period a
// mixture of such experts (parts/mixture.h), which weighs those that it has
// chosen by the softmax over all, not divided by their sum.
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/config.h"
#include "server/model/mixers/mixers.h"
#include "server/model/parts/hybrid_config.h"
#include "server/model/parts/mamba1_layer.h"
#include "server/model/parts/mixture.h"

namespace steadystate {
namespace {

constexpr absl::string_view kUsedKeys[] = {
    "attn_layer_offset",   "attn_layer_period", "expert_layer_offset",
    "expert_layer_period", "mamba_conv_bias",   "mamba_d_conv",
    "mamba_d_state",       "mamba_dt_rank",     "mamba_expand",
    "mamba_proj_bias",     "num_experts",       "num_experts_per_tok"};
// Of training, and how a library computes.
constexpr absl::string_view kInertKeys[] = {"calc_logits_for_entire_prompt",
                                            "n_ctx",
                                            "router_aux_loss_coef",
                                            "use_associative_scan",
                                            "use_mamba_kernels",
                                            "use_mambapy"};
constexpr FixedKey kFixedKeys[] = {{"mamba_inner_layernorms", "true"},
                                   {"sliding_window", "null"}};

constexpr Bounds kWidth = {1, 1 << 20};

absl::StatusOr<std::unique_ptr<Mixer>> MakeMamba1(const MixerBuilder& from) {
  const Config& config = from.config;
  Mamba1Options options;
  STEADYSTATE_ASSIGN_OR_RETURN(const size_t expand,
                               config.Size("mamba_expand", 2, {1, 64}));
  options.E = expand * from.hidden_size;
  STEADYSTATE_ASSIGN_OR_RETURN(options.N,
                               config.Size("mamba_d_state", 16, {1, 65536}));
  STEADYSTATE_ASSIGN_OR_RETURN(options.rank,
                               ReadMambaRank(from, "mamba_dt_rank"));
  STEADYSTATE_ASSIGN_OR_RETURN(options.conv_taps,
                               config.Size("mamba_d_conv", 4, {1, 64}));
  STEADYSTATE_ASSIGN_OR_RETURN(options.conv_bias,
                               ReadBias(config, "mamba_conv_bias", true));
  STEADYSTATE_ASSIGN_OR_RETURN(options.bias,
                               ReadBias(config, "mamba_proj_bias", false));
  options.norm = {.eps = from.norm_eps, .weighted = true};
  return Mamba1Layer::Make(from, options);
}

absl::StatusOr<std::unique_ptr<Mixer>> MakeMixture(const MixerBuilder& from) {
  MixtureOptions options;
  STEADYSTATE_RETURN_IF_ERROR(
      ReadExperts(from.config, {.count = 16, .chosen = 2}, options.router));
  options.router.matrix = "router.weight";
  options.router.divided_with = -1;
  constexpr ExpertNames::Fused kFused[] = {
      {"experts.gate_up_proj", "experts.down_proj"}};
  options.names.fused = kFused;
  STEADYSTATE_ASSIGN_OR_RETURN(
      options.width, from.config.Size("intermediate_size", 14336, kWidth));
  return Mixture::Make(from, options);
}

// One of so many layers, and which of them.
struct Every {
  size_t period = 0;
  size_t offset = 0;

  bool Has(size_t layer) const { return layer % period == offset; }
};

absl::StatusOr<Every> ReadEvery(const Config& config, absl::string_view kind,
                                const Every& defaults) {
  Every every;
  STEADYSTATE_ASSIGN_OR_RETURN(every.period,
                               config.Size(absl::StrCat(kind, "_layer_period"),
                                           defaults.period, kWidth));
  const std::string offset = absl::StrCat(kind, "_layer_offset");
  STEADYSTATE_ASSIGN_OR_RETURN(
      every.offset, config.Size(offset, defaults.offset, {0, kWidth.max}));
  if (every.offset >= every.period) {
    return config.Invalid(
        offset, absl::StrCat("it must be less than ", kind, "_layer_period, ",
                             every.period));
  }
  return every;
}

absl::Status ReadConfig(const Config& config, ModelConfig& model) {
  STEADYSTATE_ASSIGN_OR_RETURN(const Every attention,
                               ReadEvery(config, "attn", {8, 4}));
  STEADYSTATE_ASSIGN_OR_RETURN(const Every mixture,
                               ReadEvery(config, "expert", {2, 1}));
  STEADYSTATE_ASSIGN_OR_RETURN(const size_t experts,
                               config.Size("num_experts", 16, {1, 4096}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      SoftmaxAttentionOptions options,
      ReadAttention(config, {.num_heads = 32, .num_kv_heads = 8}, model));
  options.rotary = 0;
  for (size_t i = 0; i < model.layers.size(); ++i) {
    LayerPlan& plan = model.layers[i];
    plan.softmax = options;
    if (attention.Has(i)) plan.tokens = TokenMixer::kSoftmax;
    if (experts > 1 && mixture.Has(i)) plan.channels = ChannelMixer::kFamily;
  }
  return absl::OkStatus();
}

}  // namespace

Family JambaFamily() {
  return {.model_type = "jamba",
          .source = "jamba.cc",
          .keys = {.used = kUsedKeys,
                   .inert = kInertKeys,
                   .must_be_default = kFixedKeys},
          .part_keys = HybridKeys(),
          .frame = MambaHybridFrame(),
          .defaults = {.hidden_size = 4096,
                       .layers = 32,
                       .vocab_size = 65536,
                       .norm_eps = 1e-6,
                       .intermediate_size = 14336,
                       .max_position_embeddings = 262144},
          .hybrid = false,
          .read_config = ReadConfig,
          .make_token_mixer = MakeMamba1,
          .make_channel_mixer = MakeMixture};
}

}  // namespace steadystate
