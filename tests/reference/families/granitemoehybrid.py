"""Granite 4.0 H: Mamba-2 in most layers, softmax attention, mostly without
positions, in the others, and perhaps a mixture of experts beside the MLP.

    h = embedding_multiplier table[token]
    h += residual_multiplier mixer(norm h)
    h += residual_multiplier (mixture(norm h) + mlp(norm h))
    logits = head(norm h) / logits_scaling

Scores of attention are attention_multiplier q . k; only where
position_embedding_type is "rope" are q and k turned. Mamba-2 is that of
mamba2.py, its keys called otherwise; its norm is over each group. Experts
weigh by the softmax over those that were chosen, which is that over all divided
by their sum; num_local_experts 0: there are none.
"""

import numpy as np

from families import mamba2
from language_model import Block, CausalLm
from layer import Layer
from mixture import Mixture, Shape, mixture_tensors
from pointwise import rms_norm, silu
from softmax_attention import (
    SoftmaxAttention,
    softmax_tensors,
    transformers_shape,
)

DEFAULTS = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "shared_intermediate_size": 1024,
    "intermediate_size": 11008,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "norm_eps": 1e-6,
    "embedding_multiplier": 1.0,
    "residual_multiplier": 1.0,
    "attention_multiplier": 1.0,
    "logits_scaling": 1.0,
    "attention_bias": False,
    "rope_theta": 10000.0,
    "partial_rotary_factor": 1.0,
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
    layers = ["mamba"] * config["num_hidden_layers"]
    return config.get("layer_types", config.get("layers_block_type", layers))


def mlp_width(config):
    return config["shared_intermediate_size"]


def sizes(config):
    """Channels, heads, head width, state width, groups."""
    E, H = config["mamba_expand"] * config["hidden_size"], config["mamba_n_heads"]
    return E, H, E // H, config["mamba_d_state"], config["mamba_n_groups"]


class Mamba(mamba2.Mixer):
    def __init__(self, model, n, prefix):
        Layer.__init__(self, model, prefix)
        self.E, self.H, self.P, self.N, self.G = sizes(self.config)
        self.conv = self.causal_conv("conv1d")
        self.S = np.zeros((self.H, self.P, self.N))

    def gated(self, y, z):
        eps = self.config.norm_eps()
        groups = np.split(y * silu(z), self.G)
        y = np.concatenate([rms_norm(part, None, eps) for part in groups])
        return y * self.tensor("norm.weight")


def mamba_tensors(case, n, p):
    config, D = case.config, case.config["hidden_size"]
    E, H, P, N, G = sizes(config)
    channels = E + 2 * G * N
    case.matrix(p + "in_proj.weight", E + channels + H, D)
    case.taps(p + "conv1d.weight", channels, config["mamba_d_conv"])
    if config["mamba_conv_bias"]:
        case.vector(p + "conv1d.bias", channels, 0.0, 0.5)
    case.vector(p + "dt_bias", H, -1.0, 1.0)
    case.vector(p + "A_log", H, 0.0, 1.5)
    case.vector(p + "D", H, 1.0, 0.5)
    case.vector(p + "norm.weight", E, 1.0, 0.3)
    case.matrix(p + "out_proj.weight", D, E)
    if config["mamba_proj_bias"]:
        case.vector(p + "in_proj.bias", E + channels + H, 0.0, 0.5)
        case.vector(p + "out_proj.bias", D, 0.0, 0.5)


def attention_shape(config):
    turns = config.get("position_embedding_type") == "rope"
    heads = config["num_attention_heads"]
    return transformers_shape(
        config,
        kv_heads=config.get("num_key_value_heads", heads),
        share=None if turns else 0.0,
        scale=config["attention_multiplier"],
        biases="qkvo" if config["attention_bias"] else "",
    )


def attention(model, n, prefix):
    return SoftmaxAttention(model, attention_shape(model.config), prefix)


def attention_tensors(case, n, p):
    softmax_tensors(case, p, attention_shape(case.config))


MAMBA = ("mamba.", Mamba, mamba_tensors)
ATTENTION = ("self_attn.", attention, attention_tensors)
# By either name.
KINDS = {
    "mamba": MAMBA,
    "linear_attention": MAMBA,
    "attention": ATTENTION,
    "full_attention": ATTENTION,
}


# As published, and as transformers writes it since its version 5.
LAYOUTS = {
    True: {
        "matrix": "block_sparse_moe.router.layer.weight",
        "fused": (
            "block_sparse_moe.input_linear.weight",
            "block_sparse_moe.output_linear.weight",
        ),
    },
    False: {
        "matrix": "block_sparse_moe.router.weight",
        "fused": (
            "block_sparse_moe.experts.gate_up_proj",
            "block_sparse_moe.experts.down_proj",
        ),
    },
}


def mixture_shape(config, published):
    return Shape(
        experts=config["num_local_experts"],
        chosen=config["num_experts_per_tok"],
        width=config["intermediate_size"],
        shared="shared_mlp.",
        shared_names=("input_linear", "input_linear", "output_linear"),
        **LAYOUTS[published],
    )


def channel_tensors(case, n, p):
    case.mlp(p + Model.MLP)
    if case.config["num_local_experts"] == 0:
        return
    published = case.stored.get("published", False)
    shape = mixture_shape(case.config, published)
    mixture_tensors(case, p, shape, fused=True)


class GraniteBlock(Block):
    def __init__(self, model, n):
        super().__init__(model, n)
        self.share = model.config["residual_multiplier"]

    def step(self, h, position):
        x = rms_norm(h, self.mixer_norm, self.eps)
        h = h + self.share * self.mixer.step(x, position)
        return h + self.share * self.mlp.step(rms_norm(h, self.mlp_norm, self.eps))


class Model(CausalLm):
    EMBEDDINGS = "model.embed_tokens.weight"
    NORMS = ("input_layernorm", "post_attention_layernorm")
    MLP = "shared_mlp."
    MLP_PARTS = ("input_linear", "", "output_linear")  # gate and up in one

    def make_block(self, n):
        return GraniteBlock(self, n)

    def make_mlp(self, n, prefix):
        if self.config["num_local_experts"] == 0:
            return super().make_mlp(n, prefix)
        published = prefix + LAYOUTS[True]["matrix"] in self.tensors
        return Mixture(self, prefix, mixture_shape(self.config, published))

    def embed(self, token):
        return self.config["embedding_multiplier"] * self.table[token]

    def cap(self, logits):
        return logits / self.config["logits_scaling"]


SMALL = {
    "norm_eps": None,
    "rms_norm_eps": 1e-5,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_local_experts": 0,
    "shared_intermediate_size": 40,
    "mamba_n_heads": 4,
    "mamba_d_state": 8,
}

CASES = {
    # The keys of published files.
    "granitemoehybrid": (
        {
            **SMALL,
            "architectures": ["GraniteMoeHybridForCausalLM"],
            "attention_bias": False,
            "attention_dropout": 0.0,
            "attention_multiplier": 0.5,
            "bos_token_id": 60,
            "embedding_multiplier": 4,
            "eos_token_id": 60,
            "hidden_act": "silu",
            "init_method": "mup",
            "initializer_range": 0.1,
            "intermediate_size": 48,
            "layer_types": ["mamba", "mamba", "attention", "mamba"],
            "logits_scaling": 6,
            "logits_to_keep": 0,
            "mamba_chunk_size": 256,
            "mamba_conv_bias": True,
            "mamba_d_conv": 4,
            "mamba_d_head": 16,
            "mamba_expand": 2,
            "mamba_n_groups": 1,
            "mamba_proj_bias": False,
            "max_position_embeddings": 131072,
            "normalization_function": "rmsnorm",
            "num_experts_per_tok": 0,
            "num_hidden_layers": 4,
            "output_router_logits": False,
            "pad_token_id": 59,
            "position_embedding_type": "nope",
            "residual_multiplier": 0.22,
            "rope_scaling": None,
            "rope_theta": 10000,
            "router_aux_loss_coef": 0.01,
            "tie_word_embeddings": True,
            "torch_dtype": "bfloat16",
            "transformers_version": "4.56.0",
            "use_cache": True,
        },
        {},
    ),
    "granitemoehybrid-rope": (
        {
            **SMALL,
            "layer_types": ["full_attention", "linear_attention", "full_attention"],
            "position_embedding_type": "rope",
            "rope_parameters": {"rope_theta": 300.0, "rope_type": "default"},
            "num_key_value_heads": 1,
            "attention_bias": True,
            "attention_multiplier": 0.5,
            "residual_multiplier": 0.7,
            "mamba_n_groups": 2,
            "mamba_proj_bias": True,
            "mamba_conv_bias": False,
            "mamba_d_conv": 3,
        },
        {},
    ),
    "granitemoehybrid-plain": (
        {
            **SMALL,
            "num_hidden_layers": 2,
            "num_key_value_heads": None,
            "layers_block_type": ["mamba", "attention"],
            "num_attention_heads": 2,
            "mamba_expand": 1,
            "mamba_n_heads": 2,
            "time_step_limit": [0.2, 0.6],
            "rms_norm_eps": 1e-3,
        },
        {},
    ),
    # The names of published files.
    "granitemoehybrid-experts": (
        {
            **SMALL,
            "num_local_experts": 6,
            "num_experts_per_tok": 2,
            "intermediate_size": 12,
            "layer_types": ["mamba", "attention", "mamba"],
            "output_router_logits": False,
            "position_embedding_type": "nope",
            "attention_multiplier": 0.5,
            "residual_multiplier": 0.5,
            "tie_word_embeddings": True,
        },
        {"published": True, "seed": 44},
    ),
    # Those that transformers writes.
    "granitemoehybrid-experts-5": (
        {
            **SMALL,
            "num_local_experts": 9,
            "num_experts_per_tok": 4,
            "intermediate_size": 20,
            "layer_types": ["linear_attention", "full_attention"],
            "num_hidden_layers": 2,
            "mamba_n_groups": 2,
            "rms_norm_eps": 1e-4,
        },
        {"dtype": "BF16", "seed": 98},
    ),
}
