#ifndef STEADYSTATE_SERVER_MODEL_PARTS_HYBRID_CONFIG_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_HYBRID_CONFIG_H_

#include <cstddef>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/checkpoint/config.h"
#include "server/model/family.h"

namespace steadystate {

// What the configs of transformers' hybrids have in common: layers of several
// kinds by name, and softmax attention whose keys are the same everywhere.

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

// The key that the config has of the two, the first where it has neither.
absl::string_view Either(const Config& config, absl::string_view key,
                         absl::string_view other);

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
};

// Reads num_attention_heads, num_key_value_heads and head_dim; nothing turns.
// Errors name the key.
absl::StatusOr<SoftmaxAttentionOptions> ReadAttentionHeads(
    const Config& config, const AttentionDefaults& defaults,
    size_t hidden_size);

// Reads num_attention_heads, num_key_value_heads, head_dim and the rotary
// embedding: `rope_parameters`, as transformers writes them since its version
// 5, else rope_theta and partial_rotary_factor; only the plain kind,
// "default", is supported. Adds warnings of unknown keys to those of the model.
// Errors name the key.
absl::StatusOr<SoftmaxAttentionOptions> ReadAttention(
    const Config& config, const AttentionDefaults& defaults,
    ModelConfig& model);

// The keys that the above read.
KeyTable HybridKeys();

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_HYBRID_CONFIG_H_
