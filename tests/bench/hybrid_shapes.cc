#include "tests/bench/hybrid_shapes.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace steadystate::bench {
namespace {

// q, k, v and output of softmax attention; q may have more rows.
void AddAttention(const std::string& attn, const Sizes& sizes, size_t head,
                  size_t q_rows, const std::string& out, Builder& to) {
  const size_t D = sizes.hidden;
  to.Matrix(attn + "q_proj.weight", q_rows, D, kStd);
  to.Matrix(attn + "k_proj.weight", sizes.kv_heads * head, D, kStd);
  to.Matrix(attn + "v_proj.weight", sizes.kv_heads * head, D, kStd);
  to.Matrix(attn + out, D, sizes.softmax_heads * head, kStd);
}

void AddLinearAttention(const std::string& attn, const Sizes& sizes,
                        Builder& to) {
  const size_t D = sizes.hidden;
  const size_t width = sizes.heads * 128;
  to.Matrix(attn + "in_proj_qkv.weight", 3 * width, D, kStd);
  to.Matrix(attn + "in_proj_z.weight", width, D, kStd);
  to.Matrix(attn + "in_proj_b.weight", sizes.heads, D, kStd);
  to.Matrix(attn + "in_proj_a.weight", sizes.heads, D, kStd);
  to.Uniform(attn + "conv1d.weight", {3 * width, 1, 4}, -0.5, 0.5);
  to.Add({attn + "A_log", {sizes.heads}, Draw::kLogOfUniform, 1, 16});
  to.Add({attn + "dt_bias",
          {sizes.heads},
          Draw::kInverseSoftplus,
          std::log(1e-3),
          std::log(1e-1)});
  to.Ones(attn + "norm.weight", 128);
  to.Matrix(attn + "out_proj.weight", D, width, kStd);
}

}  // namespace

RandomModel Qwen35(const Sizes& sizes) {
  constexpr size_t kHead = 256;
  const size_t D = sizes.hidden;
  Builder to;
  to.Matrix("model.embed_tokens.weight", sizes.vocab, D, kStd);
  for (size_t i = 0; i < sizes.layers; ++i) {
    const std::string layer = absl::StrCat("model.layers.", i, ".");
    to.Zeros(layer + "input_layernorm.weight", D);
    if (i % 4 == 3) {
      const std::string attn = layer + "self_attn.";
      AddAttention(attn, sizes, kHead, 2 * sizes.softmax_heads * kHead,
                   "o_proj.weight", to);
      to.Zeros(attn + "q_norm.weight", kHead);
      to.Zeros(attn + "k_norm.weight", kHead);
    } else {
      AddLinearAttention(layer + "linear_attn.", sizes, to);
    }
    to.Zeros(layer + "post_attention_layernorm.weight", D);
    to.Matrix(layer + "mlp.gate_proj.weight", sizes.intermediate, D, kStd);
    to.Matrix(layer + "mlp.up_proj.weight", sizes.intermediate, D, kStd);
    to.Matrix(layer + "mlp.down_proj.weight", D, sizes.intermediate, kStd);
  }
  to.Zeros("model.norm.weight", D);
  return {{{"model_type", "qwen3_5_text"},
           {"architectures", {"Qwen3_5ForCausalLM"}},
           {"vocab_size", sizes.vocab},
           {"hidden_size", D},
           {"num_hidden_layers", sizes.layers},
           {"intermediate_size", sizes.intermediate},
           {"num_attention_heads", sizes.softmax_heads},
           {"num_key_value_heads", sizes.kv_heads},
           {"head_dim", kHead},
           {"linear_num_key_heads", sizes.heads},
           {"linear_num_value_heads", sizes.heads},
           {"linear_key_head_dim", 128},
           {"linear_value_head_dim", 128},
           {"linear_conv_kernel_dim", 4},
           {"full_attention_interval", 4},
           {"hidden_act", "silu"},
           {"rms_norm_eps", 1e-6},
           {"max_position_embeddings", 262144},
           {"rope_parameters",
            {{"rope_type", "default"},
             {"rope_theta", 1e7},
             {"partial_rotary_factor", 0.25}}},
           {"tie_word_embeddings", true}},
          to.Take()};
}

RandomModel Lfm2(const Sizes& sizes) {
  const size_t D = sizes.hidden;
  const size_t head = D / sizes.softmax_heads;
  const size_t width = 2 * sizes.intermediate / 3;
  Builder to;
  to.Matrix("model.embed_tokens.weight", sizes.vocab, D, kStd);
  for (size_t i = 0; i < sizes.layers; ++i) {
    const std::string layer = absl::StrCat("model.layers.", i, ".");
    to.Ones(layer + "operator_norm.weight", D);
    if (std::ranges::count(sizes.softmax_layers, i) > 0) {
      const std::string attn = layer + "self_attn.";
      AddAttention(attn, sizes, head, D, "out_proj.weight", to);
      to.Ones(attn + "q_layernorm.weight", head);
      to.Ones(attn + "k_layernorm.weight", head);
    } else {
      const std::string conv = layer + "conv.";
      to.Matrix(conv + "in_proj.weight", 3 * D, D, kStd);
      to.Uniform(conv + "conv.weight", {D, 1, 3}, -0.5, 0.5);
      to.Matrix(conv + "out_proj.weight", D, D, kStd);
    }
    to.Ones(layer + "ffn_norm.weight", D);
    to.Matrix(layer + "feed_forward.w1.weight", width, D, kStd);
    to.Matrix(layer + "feed_forward.w3.weight", width, D, kStd);
    to.Matrix(layer + "feed_forward.w2.weight", D, width, kStd);
  }
  to.Ones("model.embedding_norm.weight", D);
  return {{{"model_type", "lfm2"},
           {"architectures", {"Lfm2ForCausalLM"}},
           {"vocab_size", sizes.vocab},
           {"hidden_size", D},
           {"num_hidden_layers", sizes.layers},
           {"block_ff_dim", sizes.intermediate},
           {"block_multiple_of", 256},
           {"block_ffn_dim_multiplier", 1.0},
           {"block_auto_adjust_ff_dim", true},
           {"num_attention_heads", sizes.softmax_heads},
           {"num_key_value_heads", sizes.kv_heads},
           {"full_attn_idxs", std::vector<size_t>(sizes.softmax_layers.begin(),
                                                  sizes.softmax_layers.end())},
           {"conv_L_cache", 3},
           {"conv_bias", false},
           {"norm_eps", 1e-5},
           {"rope_theta", 1e6},
           {"max_position_embeddings", 128000},
           {"bos_token_id", 1},
           {"eos_token_id", 7}},
          to.Take()};
}

RandomModel Granite(const Sizes& sizes) {
  const size_t D = sizes.hidden;
  const size_t width = 2 * D;
  Builder to;
  std::vector<std::string> kinds(sizes.layers, "mamba");
  to.Matrix("model.embed_tokens.weight", sizes.vocab, D, kStd);
  for (size_t i = 0; i < sizes.layers; ++i) {
    const std::string layer = absl::StrCat("model.layers.", i, ".");
    to.Ones(layer + "input_layernorm.weight", D);
    if (std::ranges::count(sizes.softmax_layers, i) > 0) {
      kinds[i] = "attention";
      AddAttention(layer + "self_attn.", sizes, D / sizes.softmax_heads, D,
                   "o_proj.weight", to);
    } else {
      AddMamba2(layer + "mamba.",
                {.hidden = D,
                 .width = width,
                 .heads = width / sizes.head,
                 .state = sizes.state},
                kStd, to);
    }
    to.Ones(layer + "post_attention_layernorm.weight", D);
    const std::string mlp = layer + "shared_mlp.";
    to.Matrix(mlp + "input_linear.weight", 2 * sizes.intermediate, D, kStd);
    to.Matrix(mlp + "output_linear.weight", D, sizes.intermediate, kStd);
  }
  to.Ones("model.norm.weight", D);
  return {{{"model_type", "granitemoehybrid"},
           {"architectures", {"GraniteMoeHybridForCausalLM"}},
           {"vocab_size", sizes.vocab},
           {"hidden_size", D},
           {"num_hidden_layers", sizes.layers},
           {"layer_types", kinds},
           {"shared_intermediate_size", sizes.intermediate},
           {"num_local_experts", 0},
           {"num_experts_per_tok", 0},
           {"num_attention_heads", sizes.softmax_heads},
           {"num_key_value_heads", sizes.kv_heads},
           {"position_embedding_type", "nope"},
           {"attention_multiplier", 0.015625},
           {"embedding_multiplier", 12},
           {"residual_multiplier", 0.246},
           {"logits_scaling", 3},
           {"mamba_n_heads", width / sizes.head},
           {"mamba_d_head", sizes.head},
           {"mamba_d_state", sizes.state},
           {"mamba_d_conv", 4},
           {"mamba_n_groups", 1},
           {"mamba_expand", 2},
           {"mamba_conv_bias", true},
           {"mamba_proj_bias", false},
           {"rms_norm_eps", 1e-5},
           {"max_position_embeddings", 32768},
           {"tie_word_embeddings", true}},
          to.Take()};
}

}  // namespace steadystate::bench
