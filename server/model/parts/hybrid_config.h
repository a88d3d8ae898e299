#ifndef STEADYSTATE_SERVER_MODEL_PARTS_HYBRID_CONFIG_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_HYBRID_CONFIG_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/config.h"
#include "server/model/family.h"
#include "server/model/weight_names.h"

namespace steadystate {

// What the configs of transformers' hybrids have in common: layers of several
// kinds by name, and softmax attention whose keys are the same everywhere.

// One of the kinds' names for each of the layers, as the list under the key has
// them; nothing if there is no such list. Errors name the key.
template <typename Kind>
absl::StatusOr<std::optional<std::vector<Kind>>> ReadLayerKinds(
    const Config& config, absl::string_view key, size_t layers,
    std::span<const Choice<Kind>> kinds) {
  STEADYSTATE_ASSIGN_OR_RETURN(const auto names,
                               config.StringList(key, layers));
  if (!names.has_value()) return std::optional<std::vector<Kind>>();
  if (names->size() != layers) {
    return config.Invalid(
        key, absl::StrCat("it must have one name for each of the ", layers,
                          " layers"));
  }
  std::vector<Kind> of_layers;
  for (const std::string& name : *names) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        of_layers.emplace_back(),
        ChoiceOf(config, key, absl::string_view(name), kinds));
  }
  return std::optional(std::move(of_layers));
}

// Says of each layer of the model what mixes its tokens: `layer_types`, or
// `layers_block_type`, one of the kinds' names for each. False if the config
// has neither. Errors name the key.
absl::StatusOr<bool> ReadLayerTypes(const Config& config,
                                    std::span<const Choice<TokenMixer>> kinds,
                                    ModelConfig& model);

// A scalar that multiplies something, 1 where the config is silent, or
// `fallback`.
absl::StatusOr<float> ReadFactor(const Config& config, absl::string_view key,
                                 double fallback = 1);

// Whether there is a bias, as the key says. Errors name the key.
absl::StatusOr<Bias> ReadBias(const Config& config, absl::string_view key,
                              bool fallback);

// The key that the config has of the two, the first where it has neither.
absl::string_view Either(const Config& config, absl::string_view key,
                         absl::string_view other);

// The key of the object that says how heads turn. Where there are two, that one
// rules which the other replaced: as in transformers.
absl::string_view RotaryKey(const Config& config);

// Reads the base of the rotary embedding where all of a part turns: as
// ReadAttention does, whatever the share is that the config names.
absl::StatusOr<double> ReadRopeTheta(const Config& config, double fallback,
                                     ModelConfig& model);

// Reads num_attention_heads, and the widths as DeepSeek-V3's config has them:
// kv_lora_rank, q_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim and
// attention_bias; as many heads of keys as of queries are possible. Errors name
// the key.
absl::StatusOr<LatentAttentionOptions> ReadLatentAttention(
    const Config& config);

// The same of layers of Mamba, by the family's mixer, and of softmax attention:
// the names that transformers had first, which published files have, and those
// of today.
absl::StatusOr<bool> ReadMambaLayerTypes(const Config& config,
                                         ModelConfig& model);

// Gives the layers whose indices the key lists, from 0, a token mixer. False
// if there is no such list, or null in its place. Errors name the key.
absl::StatusOr<bool> ReadLayerIndices(const Config& config,
                                      absl::string_view key, TokenMixer mixer,
                                      ModelConfig& model);

// What a family's softmax attention is where the config is silent.
struct AttentionDefaults {
  size_t num_heads = 0;
  size_t num_kv_heads = 0;           // 0: as many as there are of queries
  std::optional<size_t> head_dim{};  // absent: D / num_heads
  double rope_theta = 10000;
  double rotary_factor = 1;  // the share of a head that turns
  // That share, whatever the config says: the family's library pays no heed to
  // partial_rotary_factor.
  bool fixed_share = false;
};

// Reads num_attention_heads, num_key_value_heads and head_dim; nothing turns.
// Errors name the key.
absl::StatusOr<SoftmaxAttentionOptions> ReadAttentionHeads(
    const Config& config, const AttentionDefaults& defaults,
    size_t hidden_size);

// Reads num_attention_heads, num_key_value_heads, head_dim and the rotary
// embedding: `rope_scaling`, or `rope_parameters`, as transformers writes them
// since its version 5, else rope_theta and partial_rotary_factor; only the
// plain kind, "default", is supported. Adds warnings of unknown keys to those
// of the model. Errors name the key.
absl::StatusOr<SoftmaxAttentionOptions> ReadAttention(
    const Config& config, const AttentionDefaults& defaults,
    ModelConfig& model);

// The keys that the above read.
KeyTable HybridKeys();

// The names of tensors that Falcon-H1, Bamba and Jamba have in common.
ModelFrame MambaHybridFrame();

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_HYBRID_CONFIG_H_
