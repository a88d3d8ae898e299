"""Bamba: Mamba-2 in most layers, softmax attention in those that
attn_layer_indices lists, where half of each head turns, and an MLP in all.

Mamba-2 is that of granitemoehybrid.py.
"""

from families import granitemoehybrid
from language_model import CausalLm
from softmax_attention import (
    SoftmaxAttention,
    softmax_tensors,
    transformers_shape,
)

DEFAULTS = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "vocab_size": 128000,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "norm_eps": 1e-5,
    "attention_bias": False,
    "rope_theta": 10000.0,
    "partial_rotary_factor": 0.5,
    "mamba_n_heads": 128,
    "mamba_d_head": "auto",
    "mamba_n_groups": 1,
    "mamba_d_state": 256,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_conv_bias": True,
    "mamba_proj_bias": False,
}


def layer_types(config):
    layers = config["num_hidden_layers"]
    listed = config.get("attn_layer_indices")
    if listed is None:
        return config.get("layers_block_type", ["mamba"] * layers)
    return ["attention" if n in listed else "mamba" for n in range(layers)]


def attention_shape(config):
    biases = "qkvo" if config["attention_bias"] else ""
    return transformers_shape(config, biases=biases)


def attention(model, n, prefix):
    return SoftmaxAttention(model, attention_shape(model.config), prefix)


def attention_tensors(case, n, p):
    softmax_tensors(case, p, attention_shape(case.config))


ATTENTION = ("self_attn.", attention, attention_tensors)
# By either name.
KINDS = {
    "mamba": granitemoehybrid.MAMBA,
    "linear_attention": granitemoehybrid.MAMBA,
    "attention": ATTENTION,
    "full_attention": ATTENTION,
}


class Model(CausalLm):
    EMBEDDINGS = "model.embed_tokens.weight"
    NORMS = ("input_layernorm", "pre_ff_layernorm")
    MLP = "feed_forward."
    FINAL_NORM = "model.final_layernorm"


SMALL = {
    "norm_eps": None,
    "rms_norm_eps": 1e-5,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "mamba_n_heads": 4,
    "mamba_d_state": 8,
}

CASES = {
    # The keys of published files.
    "bamba": (
        {
            **SMALL,
            "architectures": ["BambaForCausalLM"],
            "attention_bias": False,
            "attention_dropout": 0.0,
            "attn_layer_indices": [1],
            "attn_rotary_emb": 4,
            "bos_token_id": 58,
            "eos_token_id": 59,
            "hidden_act": "silu",
            "initializer_range": 0.02,
            "intermediate_size": 48,
            "mamba_chunk_size": 256,
            "mamba_conv_bias": True,
            "mamba_d_conv": 4,
            "mamba_d_head": 16,
            "mamba_expand": 2,
            "mamba_n_groups": 1,
            "mamba_proj_bias": False,
            "max_position_embeddings": 4096,
            "mlp_bias": False,
            "num_hidden_layers": 3,
            "num_logits_to_keep": 1,
            "pad_token_id": 0,
            "rope_scaling": None,
            "rope_theta": 10000.0,
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
            "transformers_version": "4.48.0",
            "use_cache": True,
            "use_mamba_kernels": True,
        },
        {"dtype": "BF16"},
    ),
    # Those that transformers writes since its version 5.
    "bamba-bias": (
        {
            **SMALL,
            "attn_layer_indices": [0, 2],
            "attention_bias": True,
            "num_hidden_layers": 3,
            "num_key_value_heads": 1,
            "mamba_n_groups": 2,
            "mamba_proj_bias": True,
            "mamba_conv_bias": False,
            "mamba_d_conv": 3,
            "rope_parameters": {
                "partial_rotary_factor": 0.5,
                "rope_theta": 300.0,
                "rope_type": "default",
            },
            "time_step_limit": [0.0, {"__float__": "Infinity"}],
            "z_loss_coefficient": 0.0,
        },
        {},
    ),
    "bamba-plain": (
        {
            **SMALL,
            "attn_layer_indices": [1],
            "num_attention_heads": 2,
            "mamba_expand": 1,
            "mamba_n_heads": 2,
            "mamba_d_head": "auto",
            "time_step_limit": [0.2, 0.6],
            "rms_norm_eps": 1e-3,
            "tie_word_embeddings": True,
        },
        {},
    ),
}
