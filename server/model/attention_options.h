#ifndef STEADYSTATE_SERVER_MODEL_ATTENTION_OPTIONS_H_
#define STEADYSTATE_SERVER_MODEL_ATTENTION_OPTIONS_H_

#include <cstddef>
#include <optional>

#include "absl/strings/string_view.h"

namespace steadystate {

// RMSNorm of q and k: of each head, with weights that all heads share, or of
// all heads together.
struct QueryKeyNorm {
  absl::string_view q = "q_norm";
  absl::string_view k = "k_norm";
  bool zero_centred = false;  // stored less 1
  bool all_heads = false;
  float eps = 1e-5F;
};

// How a softmax layer is made, from the `attn` object of a hybrid's config or
// from the config of the model.
struct SoftmaxAttentionOptions {
  size_t num_heads = 0;     // H
  size_t num_kv_heads = 0;  // G, divides num_heads
  size_t head_dim = 0;      // d
  bool qkv_bias = false;
  bool out_bias = false;
  std::optional<QueryKeyNorm> qk_norm{};
  std::optional<size_t> window{};  // tokens seen, the own one included
  std::optional<double> scale{};   // of scores; nothing: d^-1/2
  float key_multiplier = 1;        // of them, too
  double rope_theta = 10000;
  size_t rotary = 0;  // the first elements of a head, which turn; even
  // Of their pairs only the first so many turn; nothing: all of them.
  std::optional<size_t> turning_pairs{};
  // The heads' outputs times sigmoid of a gate. The rows of q_proj are then
  // [H, 2, d]: those of a head's query, those of its gate.
  bool gated = false;
  // Each head's outputs times sigmoid of one number, by a projection of its
  // own, [H, D], that has the one or the other name; empty: they are not.
  absl::string_view head_gate = "";
  absl::string_view other_head_gate = "";
  absl::string_view out = "o_proj";
};

// How a layer of latent attention is made (parts/latent_attention.h).
struct LatentAttentionOptions {
  size_t num_heads = 0;     // H
  size_t latent = 0;        // width of what keys and values are made from
  size_t query_latent = 0;  // of what queries are; 0: they are of full rank
  size_t nope = 0;          // width of a head's own keys
  size_t rope = 0;          // of the key that all heads share
  size_t value = 0;         // of a head's values
  bool rotary = false;      // the shared key turns, pairs being interleaved
  double rope_theta = 10000;
  float norm_eps = 1e-6F;
  bool bias = false;   // of projections to latents, and of the output's
  bool gated = false;  // each head's output times sigmoid of one number
  absl::string_view out = "o_proj";
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_ATTENTION_OPTIONS_H_
