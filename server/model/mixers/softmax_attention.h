#ifndef STEADYSTATE_SERVER_MODEL_MIXERS_SOFTMAX_ATTENTION_H_
#define STEADYSTATE_SERVER_MODEL_MIXERS_SOFTMAX_ATTENTION_H_

#include <cstddef>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "server/checkpoint/config.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"

namespace steadystate {

// How a softmax layer is made, from the `attn` object of a hybrid's config or
// from the config of a model_type "transformer".
struct SoftmaxAttentionOptions {
  size_t num_heads = 0;     // divides D
  size_t num_kv_heads = 0;  // divides num_heads
  bool qkv_bias = false;
  bool qk_norm = false;          // RMSNorm of each head's q and k, eps 1e-5
  std::optional<size_t> window;  // tokens seen, the own one included
  double rope_theta = 10000;
};

// Reads the options; errors name the key. `default_heads` of 0 makes num_heads
// required.
absl::StatusOr<SoftmaxAttentionOptions> ReadSoftmaxAttentionOptions(
    const Config& object, size_t hidden_size, size_t default_heads);

// The keys that ReadSoftmaxAttentionOptions reads.
KeyTable SoftmaxAttentionKeys();

// Causal softmax attention with rotary positions over a cache of keys and
// values: a ring of `window` rows, or one row a token up to the context cap.
absl::StatusOr<std::unique_ptr<Mixer>> MakeSoftmaxAttention(
    const SoftmaxAttentionOptions& options, const MixerBuilder& builder);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_MIXERS_SOFTMAX_ATTENTION_H_
