"""LFM2: gated short convolutions, and softmax attention in some layers.

    B, C, u = in_proj x;  y = out_proj (C conv(B u))

The convolution has no activation. The width of an MLP is adjusted: two thirds
of the stated one times block_ffn_dim_multiplier, up to a multiple of
block_multiple_of, unless block_auto_adjust_ff_dim is false. The norm before
the head is called embedding_norm. Aliases of keys: block_ff_dim
(intermediate_size), tie_embedding (tie_word_embeddings), full_attn_idxs (in
place of layer_types: layers of attention, all without it).
"""

import numpy as np

from language_model import CausalLm
from layer import Layer
from softmax_attention import (
    SoftmaxAttention,
    softmax_tensors,
    transformers_shape,
)

DEFAULTS = {
    "hidden_size": 2560,
    "num_hidden_layers": 32,
    "vocab_size": 65536,
    "intermediate_size": 12288,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "norm_eps": 1e-5,
    "tie_word_embeddings": True,
    "rope_theta": 1000000.0,
    "partial_rotary_factor": 1.0,
    "conv_bias": False,
    "conv_L_cache": 3,
    "block_auto_adjust_ff_dim": True,
    "block_ffn_dim_multiplier": 1.0,
    "block_multiple_of": 256,
}

ALIASES = {
    "block_ff_dim": "intermediate_size",
    "tie_embedding": "tie_word_embeddings",
}


def respell(values):
    """An alias wins over the key itself."""
    found = {ALIASES[key]: values[key] for key in ALIASES if key in values}
    return {**values, **found}


def layer_types(config):
    layers = range(config["num_hidden_layers"])
    attention = config.get("full_attn_idxs", layers)
    return config.get(
        "layer_types",
        ["full_attention" if n in attention else "conv" for n in layers],
    )


def mlp_width(config):
    width = config["intermediate_size"]
    if not config["block_auto_adjust_ff_dim"]:
        return width
    width = int(config["block_ffn_dim_multiplier"] * int(2 * width / 3))
    multiple = config["block_multiple_of"]
    return -(-width // multiple) * multiple


class ShortConv(Layer):
    def __init__(self, model, n, prefix):
        super().__init__(model, prefix)
        self.conv = self.causal_conv("conv")

    def step(self, x, position):
        B, C, u = np.split(self.project("in_proj", x), 3)
        return self.project("out_proj", C * self.conv.step(B * u))


def conv_tensors(case, n, p):
    D, bias = case.config["hidden_size"], case.config["conv_bias"]
    case.matrix(p + "in_proj.weight", 3 * D, D)
    case.taps(p + "conv.weight", D, case.config["conv_L_cache"])
    case.matrix(p + "out_proj.weight", D, D)
    for name, width in (("in_proj", 3 * D), ("conv", D), ("out_proj", D)):
        if bias:
            case.vector(p + name + ".bias", width, 0.0, 0.5)


def attention_shape(config):
    return transformers_shape(
        config, norms=("q_layernorm", "k_layernorm"), out="out_proj"
    )


def full_attention(model, n, prefix):
    return SoftmaxAttention(model, attention_shape(model.config), prefix)


def full_tensors(case, n, p):
    softmax_tensors(case, p, attention_shape(case.config))


KINDS = {
    "conv": ("conv.", ShortConv, conv_tensors),
    "full_attention": ("self_attn.", full_attention, full_tensors),
}


class Model(CausalLm):
    EMBEDDINGS = "model.embed_tokens.weight"
    NORMS = ("operator_norm", "ffn_norm")
    MLP = "feed_forward."
    MLP_PARTS = ("w1", "w3", "w2")
    FINAL_NORM = "model.embedding_norm"


SMALL = {
    "norm_eps": 1e-5,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}

CASES = {
    # The keys of published files.
    "lfm2": (
        {
            **SMALL,
            "architectures": ["Lfm2ForCausalLM"],
            "block_auto_adjust_ff_dim": True,
            "block_dim": 32,
            "block_ff_dim": 52,
            "block_ffn_dim_multiplier": 1.0,
            "block_mlp_init_scale": 1.0,
            "block_multiple_of": 16,
            "block_norm_eps": 1e-5,
            "block_out_init_scale": 1.0,
            "block_use_swiglu": True,
            "block_use_xavier_init": True,
            "bos_token_id": 1,
            "conv_L_cache": 3,
            "conv_bias": False,
            "conv_dim": 32,
            "conv_dim_out": 32,
            "conv_use_xavier_init": True,
            "eos_token_id": 7,
            "initializer_range": 0.02,
            "intermediate_size": 52,
            "layer_types": ["conv", "conv", "full_attention", "conv"],
            "max_position_embeddings": 128000,
            "num_heads": 4,
            "num_hidden_layers": 4,
            "pad_token_id": 0,
            "rope_theta": 1000000.0,
            "theta": 1000000.0,
            "tie_embedding": True,
            "torch_dtype": "bfloat16",
            "transformers_version": "4.54.0.dev0",
            "use_cache": True,
            "use_pos_enc": True,
        },
        {},
    ),
    "lfm2-indices": (
        {
            **SMALL,
            "intermediate_size": None,
            "block_ff_dim": 40,
            "block_auto_adjust_ff_dim": False,
            "full_attn_idxs": [1],
            "conv_bias": True,
            "conv_L_cache": 4,
            "norm_eps": 1e-3,
        },
        {},
    ),
    "lfm2-attention-first": (
        {
            **SMALL,
            "layer_types": ["full_attention", "conv", "full_attention"],
            "num_key_value_heads": 1,
            "block_ffn_dim_multiplier": 1.5,
            "block_multiple_of": 8,
            "intermediate_size": 40,
            "rope_parameters": {"rope_theta": 300.0, "rope_type": "default"},
            "tie_embedding": False,
        },
        {},
    ),
}
