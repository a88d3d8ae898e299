// Bamba (IBM, Princeton, CMU and UIUC 2024), as transformers' model_type
// "bamba": layers of Mamba-2 (parts/mamba2_layer.h), and softmax attention in
// those that attn_layer_indices lists, where half of each head turns; a gated
// MLP in all.
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/config.h"
#include "server/model/mixers/mixers.h"
#include "server/model/parts/hybrid_config.h"
#include "server/model/parts/mamba2_layer.h"

namespace steadystate {
namespace {

constexpr absl::string_view kUsedKeys[] = {
    "attention_bias",  "attn_layer_indices", "attn_rotary_emb",
    "mamba_conv_bias", "mamba_d_conv",       "mamba_d_head",
    "mamba_d_state",   "mamba_expand",       "mamba_n_groups",
    "mamba_n_heads",   "mamba_proj_bias",    "time_step_limit"};
// Of training, and how a library computes.
constexpr absl::string_view kInertKeys[] = {
    "mamba_chunk_size", "use_mamba_kernels", "z_loss_coefficient"};
constexpr FixedKey kFixedKeys[] = {{"mlp_bias", "false"}};

absl::StatusOr<std::unique_ptr<Mixer>> MakeMamba2(const MixerBuilder& from) {
  STEADYSTATE_ASSIGN_OR_RETURN(const Mamba2Options options,
                               ReadMamba2Options(from));
  return Mamba2Layer::Make(from, options);
}

// Published files have the turning elements as a number of their own, to which
// transformers pays no heed: it turns half of each head.
absl::Status CheckRotary(const Config& config, size_t rotary) {
  constexpr absl::string_view kKey = "attn_rotary_emb";
  STEADYSTATE_ASSIGN_OR_RETURN(const size_t stated,
                               config.Size(kKey, rotary, {0, 1 << 16}));
  if (stated == rotary) return absl::OkStatus();
  return config.Unsupported(
      kKey, absl::StrCat("of this model ", rotary,
                         " elements of a head turn, as in transformers"));
}

absl::Status ReadConfig(const Config& config, ModelConfig& model) {
  STEADYSTATE_ASSIGN_OR_RETURN(const bool listed,
                               ReadLayerIndices(config, "attn_layer_indices",
                                                TokenMixer::kSoftmax, model));
  if (!listed) {
    STEADYSTATE_RETURN_IF_ERROR(ReadMambaLayerTypes(config, model).status());
  }
  STEADYSTATE_ASSIGN_OR_RETURN(SoftmaxAttentionOptions attention,
                               ReadAttention(config,
                                             {.num_heads = 32,
                                              .num_kv_heads = 8,
                                              .rotary_factor = 0.5,
                                              .fixed_share = true},
                                             model));
  STEADYSTATE_RETURN_IF_ERROR(CheckRotary(config, attention.rotary));
  STEADYSTATE_ASSIGN_OR_RETURN(attention.qkv_bias,
                               config.Bool("attention_bias", false));
  attention.out_bias = attention.qkv_bias;
  for (LayerPlan& plan : model.layers) plan.softmax = attention;
  return absl::OkStatus();
}

}  // namespace

Family BambaFamily() {
  return {.model_type = "bamba",
          .source = "bamba.cc",
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
                       .max_position_embeddings = 262144},
          .hybrid = false,
          .read_config = ReadConfig,
          .make_token_mixer = MakeMamba2};
}

}  // namespace steadystate
