"""Small models that the libraries initialise and write themselves.

The other way round than with the golden cases: here the library decides what
is in config.json and how the tensors are called, with its own initial values,
and the reference has to read that.
"""

import os
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))

import reference  # noqa: E402  of tests/reference

VOCAB = 61
TOKENS = [(7 * t * t + 3 * t) % VOCAB for t in range(40)]

COMMON = {"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": VOCAB}

QWEN3_5 = {"num_hidden_layers": 4, "intermediate_size": 96,
           "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
           "linear_num_key_heads": 2, "linear_num_value_heads": 4,
           "linear_key_head_dim": 16, "linear_value_head_dim": 24}

QWEN3_5_MOE = {**QWEN3_5, "num_experts": 8, "num_experts_per_tok": 3,
               "moe_intermediate_size": 24,
               "shared_expert_intermediate_size": 40}
del QWEN3_5_MOE["intermediate_size"]

# What makes a model of each family small, by library: by model_type, and a
# word where there are several of one.
SMALL = {
    "flash-linear-attention": {
        "delta_net": {"num_heads": 4},
        "gated_deltanet": {"num_heads": 2, "head_dim": 16},
        "gla": {"num_heads": 2},
        "hgrn": {},
        "hgrn2": {"expand_ratio": 16},
        "kda": {"num_heads": 2, "head_dim": 16},
        "linear_attn": {"num_heads": 4},
        "mamba": {"state_size": 8},
        "mamba2": {"head_dim": 16, "state_size": 8},
        "retnet": {"num_heads": 2},
        "rwkv6": {"num_heads": 2},
        "rwkv7": {"head_dim": 32},
        "transformer": {"num_heads": 4},
    },
    "transformers": {
        "bailing_hybrid": {
            "num_hidden_layers": 2, "intermediate_size": 96,
            "pad_token_id": 0, "eos_token_id": 2, "num_attention_heads": 4,
            "num_key_value_heads": 4, "head_dim": 16, "kv_lora_rank": 24,
            "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 12,
            "layer_group_size": 2, "first_k_dense_replace": 1,
            "num_experts": 8, "num_experts_per_token": 3,
            "moe_intermediate_size": 40, "num_expert_group": 4,
            "topk_group": 2},
        "bamba": {"attn_layer_indices": [1], "num_hidden_layers": 3,
                  "intermediate_size": 96, "num_attention_heads": 4,
                  "num_key_value_heads": 2, "mamba_n_heads": 8,
                  "mamba_d_state": 16},
        "falcon_h1": {
            "num_hidden_layers": 2, "intermediate_size": 96,
            "num_attention_heads": 4, "num_key_value_heads": 2,
            "mamba_d_ssm": 96, "mamba_n_heads": 6, "mamba_d_state": 16,
            "embedding_multiplier": 3.0, "lm_head_multiplier": 0.5,
            "key_multiplier": 0.5, "attention_in_multiplier": 0.75,
            "attention_out_multiplier": 0.5, "ssm_in_multiplier": 1.25,
            "ssm_out_multiplier": 0.25,
            "ssm_multipliers": [0.5, 0.25, 0.75, 0.5, 0.375],
            "mlp_multipliers": [0.875, 0.625]},
        "falcon_mamba": {"state_size": 8},
        "granitemoehybrid": {
            "num_local_experts": 0, "num_hidden_layers": 3,
            "layer_types": ["linear_attention", "full_attention",
                            "linear_attention"],
            "num_attention_heads": 4, "num_key_value_heads": 2,
            "shared_intermediate_size": 96, "mamba_n_heads": 8,
            "mamba_d_state": 16, "embedding_multiplier": 3.0,
            "residual_multiplier": 0.5, "attention_multiplier": 0.1,
            "logits_scaling": 2.0},
        "granitemoehybrid experts": {
            "num_local_experts": 8, "num_experts_per_tok": 3,
            "intermediate_size": 40, "num_hidden_layers": 2,
            "layer_types": ["linear_attention", "full_attention"],
            "num_attention_heads": 4, "num_key_value_heads": 2,
            "shared_intermediate_size": 96, "mamba_n_heads": 8,
            "mamba_d_state": 16},
        "jamba": {"num_hidden_layers": 4, "attn_layer_period": 3,
                  "attn_layer_offset": 1, "intermediate_size": 96,
                  "num_attention_heads": 4, "num_key_value_heads": 2,
                  "num_experts": 8, "num_experts_per_tok": 3,
                  "mamba_d_state": 8},
        "kimi_linear": {
            "num_hidden_layers": 2, "intermediate_size": 96,
            "pad_token_id": 0, "num_attention_heads": 4,
            "num_key_value_heads": 4, "kv_lora_rank": 24,
            "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 12,
            "linear_attn_config": {
                "head_dim": 16, "num_heads": 2, "short_conv_kernel_size": 4,
                "kda_layers": [1], "full_attn_layers": [2]},
            "num_experts": 8, "num_experts_per_token": 3,
            "moe_intermediate_size": 40, "num_expert_group": 4,
            "topk_group": 2},
        "lfm2": {"num_hidden_layers": 3, "full_attn_idxs": [1],
                 "intermediate_size": 144, "block_multiple_of": 32,
                 "num_attention_heads": 4, "num_key_value_heads": 2},
        "lfm2_moe": {"num_hidden_layers": 3,
                     "layer_types": ["conv", "full_attention", "conv"],
                     "intermediate_size": 144, "moe_intermediate_size": 40,
                     "num_dense_layers": 1, "num_experts": 8,
                     "num_experts_per_tok": 3, "num_attention_heads": 4,
                     "num_key_value_heads": 2},
        "lfm3": {"num_hidden_layers": 5, "intermediate_size": 144,
                 "num_attention_heads": 4, "num_key_value_heads": 2,
                 "head_dim": 24, "sliding_window": 12, "bos_token_id": 1,
                 "eos_token_id": 2, "pad_token_id": 0},
        "mamba": {"state_size": 8},
        "mamba2": {"num_heads": 8, "head_dim": 16, "state_size": 8,
                   "n_groups": 1},
        "nemotron_h": {
            "layers_block_type": ["linear_attention", "mlp", "full_attention"],
            "intermediate_size": 96, "num_attention_heads": 4,
            "num_key_value_heads": 2, "head_dim": 16, "mamba_num_heads": 8,
            "mamba_head_dim": 16, "n_groups": 2, "ssm_state_size": 16,
            "time_step_min": 1e-30},
        "nemotron_h experts": {
            "layers_block_type": ["linear_attention", "moe", "full_attention"],
            "n_routed_experts": 8, "num_experts_per_tok": 3,
            "moe_intermediate_size": 40,
            "moe_shared_expert_intermediate_size": 56,
            "n_group": 4, "topk_group": 2, "routed_scaling_factor": 1.5,
            "num_attention_heads": 4, "num_key_value_heads": 2,
            "head_dim": 16, "mamba_num_heads": 8, "mamba_head_dim": 16,
            "n_groups": 2, "ssm_state_size": 16, "time_step_min": 1e-30},
        "nemotron_h latent": {
            "layers_block_type": ["moe", "linear_attention"],
            "n_routed_experts": 8, "num_experts_per_tok": 3,
            "moe_intermediate_size": 40, "moe_latent_size": 24,
            "moe_shared_expert_intermediate_size": 56,
            "num_attention_heads": 4, "num_key_value_heads": 2,
            "head_dim": 16, "mamba_num_heads": 8, "mamba_head_dim": 16,
            "n_groups": 2, "ssm_state_size": 16, "time_step_min": 1e-30},
        "olmo_hybrid": {
            "num_hidden_layers": 4, "intermediate_size": 96,
            "num_attention_heads": 4, "num_key_value_heads": 2,
            "pad_token_id": 0, "linear_key_head_dim": 16,
            "linear_value_head_dim": 16,
            "rope_parameters": {"rope_theta": 1000.0,
                                "rope_type": "default"}},
        "qwen3_5": {
            "text_config": QWEN3_5,
            "vision_config": {"depth": 1, "hidden_size": 16, "num_heads": 2,
                              "intermediate_size": 32, "out_hidden_size": 64},
        },
        "qwen3_5_moe": {
            "text_config": QWEN3_5_MOE,
            "vision_config": {"depth": 1, "hidden_size": 16, "num_heads": 2,
                              "intermediate_size": 32, "out_hidden_size": 64},
        },
        "qwen3_5_moe_text": QWEN3_5_MOE,
        "qwen3_5_text": QWEN3_5,
        "qwen3_next": {**QWEN3_5_MOE, "intermediate_size": 96,
                       "mlp_only_layers": [0]},
        "recurrent_gemma": {"num_hidden_layers": 3, "lru_width": 96,
                            "intermediate_size": 192,
                            "num_attention_heads": 4,
                            "num_key_value_heads": 2,
                            "attention_window_size": 16},
        "xlstm": {"num_heads": 4},
    },
}


def options_of(small):
    """Options of a configuration class, whose language model is COMMON."""
    if "text_config" in small:
        return {**small, "text_config": {**COMMON, **small["text_config"]}}
    return {**COMMON, **small}


def liven(model):
    """Moves every tensor: initial values are often zeros, ones or tiny."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)


def results(library, classes, folder):
    """(case, class, the library's logits, the reference's) for each family.

    library: a module such as from_fla. classes: model_type -> (configuration
    class, model class). folder: for the checkpoints, empty.
    """
    for what, small in SMALL[library.LIBRARY].items():
        torch.manual_seed(1)
        config_class, model_class = classes(what.split()[0])
        model = model_class(config_class(**options_of(small))).float().eval()
        liven(model)
        path = os.path.join(folder, what.replace(" ", "-"))
        model.save_pretrained(path)
        expected = reference.make_model(
            *reference.read_checkpoint(path)).logits(TOKENS)
        name = model_class.__name__
        yield what, name, library.run(model, TOKENS), expected
        if hasattr(library, "run_double"):
            yield (what, name + library.DOUBLE,
                   library.run_double(model, TOKENS), expected)
