"""Jamba: Mamba-1 with norms of dt's input, B and C, softmax attention without
positions in one layer of attn_layer_period, and a mixture of experts in place
of the MLP in one of expert_layer_period.

Experts weigh by the softmax over all, which is not divided by their sum.
"""

import math

from families import mamba
from language_model import CausalLm
from mixture import Mixture, Shape, mixture_tensors
from pointwise import rms_norm
from softmax_attention import (
    SoftmaxAttention,
    softmax_tensors,
    transformers_shape,
)

DEFAULTS = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "vocab_size": 65536,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "num_experts": 16,
    "num_experts_per_tok": 2,
    "expert_layer_period": 2,
    "expert_layer_offset": 1,
    "attn_layer_period": 8,
    "attn_layer_offset": 4,
    "mamba_d_state": 16,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_dt_rank": "auto",
    "mamba_conv_bias": True,
    "mamba_proj_bias": False,
}


def is_one(config, kind, n):
    """Whether layer n is the one of a period."""
    period = config[kind + "_layer_period"]
    return n % period == config[kind + "_layer_offset"]


def layer_types(config):
    return [
        "attention" if is_one(config, "attn", n) else "mamba"
        for n in range(config["num_hidden_layers"])
    ]


def sizes(config):
    """Channels, state width, rank of dt."""
    D, R = config["hidden_size"], config["mamba_dt_rank"]
    R = math.ceil(D / 16) if R == "auto" else R
    return config["mamba_expand"] * D, config["mamba_d_state"], R


class Mamba(mamba.Mixer):
    def low_parts(self, x):
        parts = super().low_parts(x)
        eps = self.config.norm_eps()
        return [
            rms_norm(part, self.tensor(name + "_layernorm.weight"), eps)
            for part, name in zip(parts, ("dt", "b", "c"))
        ]


def mamba_tensors(case, n, p):
    config, D = case.config, case.config["hidden_size"]
    E, N, R = sizes(config)
    case.matrix(p + "in_proj.weight", 2 * E, D)
    case.taps(p + "conv1d.weight", E, config["mamba_d_conv"])
    if config["mamba_conv_bias"]:
        case.vector(p + "conv1d.bias", E, 0.0, 0.5)
    case.matrix(p + "x_proj.weight", R + 2 * N, E)
    for name, width in (("dt", R), ("b", N), ("c", N)):
        case.vector(p + name + "_layernorm.weight", width, 1.0, 0.5)
    case.matrix(p + "dt_proj.weight", E, R)
    case.vector(p + "dt_proj.bias", E, -1.0, 1.0)
    case.uniform(p + "A_log", (E, N), 0.0, 1.5)
    case.vector(p + "D", E, 1.0, 0.5)
    case.matrix(p + "out_proj.weight", D, E)
    if config["mamba_proj_bias"]:
        case.vector(p + "in_proj.bias", 2 * E, 0.0, 0.5)
        case.vector(p + "out_proj.bias", D, 0.0, 0.5)


def attention_shape(config):
    return transformers_shape(config, share=0.0)


def attention(model, n, prefix):
    return SoftmaxAttention(model, attention_shape(model.config), prefix)


def attention_tensors(case, n, p):
    softmax_tensors(case, p, attention_shape(case.config))


KINDS = {
    "mamba": ("mamba.", Mamba, mamba_tensors),
    "attention": ("self_attn.", attention, attention_tensors),
}


def mixture_shape(config):
    return Shape(
        experts=config["num_experts"],
        chosen=config["num_experts_per_tok"],
        width=config["intermediate_size"],
        divided_with=None,
        matrix="router.weight",
    )


def has_mixture(config, n):
    return config["num_experts"] > 1 and is_one(config, "expert", n)


def channel_tensors(case, n, p):
    if not has_mixture(case.config, n):
        case.mlp(p + Model.MLP)
        return
    fused = case.stored.get("fused", False)
    mixture_tensors(case, p + Model.MLP, mixture_shape(case.config), fused)


class Model(CausalLm):
    EMBEDDINGS = "model.embed_tokens.weight"
    NORMS = ("input_layernorm", "pre_ff_layernorm")
    MLP = "feed_forward."
    FINAL_NORM = "model.final_layernorm"

    def make_mlp(self, n, prefix):
        if not has_mixture(self.config, n):
            return super().make_mlp(n, prefix)
        return Mixture(self, prefix + self.MLP, mixture_shape(self.config))


SMALL = {
    "norm_eps": None,
    "rms_norm_eps": 1e-6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "attn_layer_period": 3,
    "attn_layer_offset": 1,
    "num_experts": 1,
    "mamba_d_state": 8,
}

CASES = {
    # As published: the matrices of each expert by themselves.
    "jamba": (
        {
            **SMALL,
            "architectures": ["JambaForCausalLM"],
            "attention_dropout": 0.0,
            "bos_token_id": 1,
            "calc_logits_for_entire_prompt": False,
            "eos_token_id": 2,
            "expert_layer_offset": 1,
            "expert_layer_period": 2,
            "hidden_act": "silu",
            "initializer_range": 0.02,
            "intermediate_size": 24,
            "mamba_conv_bias": True,
            "mamba_d_conv": 4,
            "mamba_dt_rank": 5,
            "mamba_expand": 2,
            "mamba_inner_layernorms": True,
            "mamba_proj_bias": False,
            "max_position_embeddings": 262144,
            "n_ctx": 262144,
            "num_experts": 6,
            "num_experts_per_tok": 2,
            "num_hidden_layers": 4,
            "num_logits_to_keep": 1,
            "output_router_logits": False,
            "pad_token_id": 0,
            "router_aux_loss_coef": 0.001,
            "sliding_window": None,
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
            "transformers_version": "4.40.0",
            "use_cache": True,
            "use_mamba_kernels": True,
        },
        {"seed": 11},
    ),
    # Without experts.
    "jamba-dense": (
        {
            **SMALL,
            "num_hidden_layers": 3,
            "intermediate_size": 40,
            "num_key_value_heads": 4,
            "mamba_proj_bias": True,
            "mamba_conv_bias": False,
            "mamba_d_conv": 3,
            "mamba_d_state": 6,
            "rms_norm_eps": 1e-3,
            "tie_word_embeddings": True,
        },
        {"dtype": "BF16"},
    ),
    # The matrices of all experts in one tensor.
    "jamba-fused": (
        {
            **SMALL,
            "num_hidden_layers": 2,
            "attn_layer_period": 2,
            "attn_layer_offset": 0,
            "expert_layer_period": 1,
            "expert_layer_offset": 0,
            "num_experts": 4,
            "num_experts_per_tok": 3,
            "intermediate_size": 20,
            "mamba_expand": 1,
        },
        {"fused": True, "seed": 19},
    ),
}
