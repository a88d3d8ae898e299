#ifndef STEADYSTATE_SERVER_MODEL_PARTS_LATENT_ATTENTION_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_LATENT_ATTENTION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "server/model/family.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"

namespace steadystate {

// Multi-head latent attention (DeepSeek-AI 2024, DeepSeek-V2, section 2.1), as
// transformers has it in "deepseek_v3" and the hybrids after it. With x the
// input of a token, D wide, for H heads:
//   q_n, q_r = W_q x per head, or W_qb RMSNorm(W_qa x)
//   c, r = W_kva x (+ b),  c <- RMSNorm(c)
//   k_n, v = W_kvb c per head
//   q_r, r <- rotary(position), pairs side by side; or as they are
//   o_h = sum_j softmax_j((q_n . k_n_j + q_r . r_j) / sqrt(n + r)) v_j
//   o_h <- o_h sigmoid(w_h . x) if gated,   y = W_o o (+ b)
// with n and r the widths of q_n and q_r. Of a token one row [r, c] is kept for
// all heads, up to the context cap, in the type of caches. Pulls q_proj, or
// q_a_proj, q_a_layernorm and q_b_proj; kv_a_proj_with_mqa, kv_a_layernorm,
// kv_b_proj, g_proj if gated, and the output's. Errors name the tensor. The
// mixer is immutable and thread-safe.
absl::StatusOr<std::unique_ptr<Mixer>> MakeLatentAttention(
    const LatentAttentionOptions& options, const MixerBuilder& builder);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_LATENT_ATTENTION_H_
