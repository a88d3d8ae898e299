"""Falcon-H1: Mamba-2 beside softmax attention in every layer, and scalars.

    n = norm h
    h += ssm_out mamba(ssm_in n) + attention_out attention(attention_in n)
    h += mlp(norm h)
    p = (in_proj u) * [m_z on z, m_x on x, m_B on B, m_C on C, m_dt on dt]
    k = key_multiplier k_proj x
    mlp(x) = m_down down_proj(silu(m_gate gate_proj x) * up_proj x)
    h = embedding_multiplier table[token];  logits = lm_head_multiplier head h

Mamba-2 is that of mamba2.py, its keys called otherwise; without mamba_rms_norm
it ends with y silu(z), with it with norm(y) silu(z), or norm(y silu(z)) if
mamba_norm_before_gate is false, over each group.
"""

import numpy as np

from families import mamba2
from language_model import Block, CausalLm
from layer import Layer
from pointwise import rms_norm, silu
from softmax_attention import (
    SoftmaxAttention,
    softmax_tensors,
    transformers_shape,
)

DEFAULTS = {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128000,
    "norm_eps": 1e-5,
    "attention_bias": False,
    "rope_theta": 10000.0,
    "partial_rotary_factor": 1.0,
    "mamba_n_heads": 128,
    "mamba_n_groups": 1,
    "mamba_d_state": 256,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_conv_bias": True,
    "mamba_proj_bias": False,
    "projectors_bias": False,
    "mamba_rms_norm": False,
    "mamba_norm_before_gate": True,
    "embedding_multiplier": 1.0,
    "lm_head_multiplier": 1.0,
    "key_multiplier": 1.0,
    "attention_in_multiplier": 1.0,
    "attention_out_multiplier": 1.0,
    "ssm_in_multiplier": 1.0,
    "ssm_out_multiplier": 1.0,
    "ssm_multipliers": [1.0] * 5,
    "mlp_multipliers": [1.0] * 2,
}


def sizes(config):
    """Channels, heads, head width, state width, groups."""
    H = config["mamba_n_heads"]
    E = config.get("mamba_d_ssm", config["mamba_expand"] * config["hidden_size"])
    return E, H, E // H, config["mamba_d_state"], config["mamba_n_groups"]


class Mamba(mamba2.Mixer):
    def __init__(self, model, prefix):
        Layer.__init__(self, model, prefix)
        self.E, self.H, self.P, self.N, self.G = sizes(self.config)
        self.conv = self.causal_conv("conv1d")
        self.S = np.zeros((self.H, self.P, self.N))
        widths = (self.E, self.E, self.G * self.N, self.G * self.N, self.H)
        self.columns = np.repeat(self.config["ssm_multipliers"], widths)

    def project(self, name, x):
        y = super().project(name, x)
        return y * self.columns if name == "in_proj" else y

    def gated(self, y, z):
        if not self.config["mamba_rms_norm"]:
            return y * silu(z)
        first = self.config["mamba_norm_before_gate"]
        groups = np.split(y if first else y * silu(z), self.G)
        eps = self.config.norm_eps()
        y = np.concatenate([rms_norm(part, None, eps) for part in groups])
        y = y * self.tensor("norm.weight")
        return y * silu(z) if first else y


def mamba_tensors(case, p):
    config, D = case.config, case.config["hidden_size"]
    E, H, _, N, G = sizes(config)
    channels = E + 2 * G * N
    case.matrix(p + "in_proj.weight", E + channels + H, D)
    case.taps(p + "conv1d.weight", channels, config["mamba_d_conv"])
    if config["mamba_conv_bias"]:
        case.vector(p + "conv1d.bias", channels, 0.0, 0.5)
    case.vector(p + "dt_bias", H, -1.0, 1.0)
    case.vector(p + "A_log", H, 0.0, 1.5)
    case.vector(p + "D", H, 1.0, 0.5)
    if config["mamba_rms_norm"]:
        case.vector(p + "norm.weight", E, 1.0, 0.3)
    case.matrix(p + "out_proj.weight", D, E)
    if config["mamba_proj_bias"]:
        case.vector(p + "in_proj.bias", E + channels + H, 0.0, 0.5)
    if config["projectors_bias"]:
        case.vector(p + "out_proj.bias", D, 0.0, 0.5)


def attention_shape(config):
    return transformers_shape(
        config,
        kv_heads=config["num_key_value_heads"],
        biases="qkvo" if config["attention_bias"] else "",
    )


class Attention(SoftmaxAttention):
    def __init__(self, model, prefix):
        super().__init__(model, attention_shape(model.config), prefix)

    def project(self, name, x):
        share = self.config["key_multiplier"] if name == "k_proj" else 1.0
        return share * super().project(name, x)


class Mixer:
    def __init__(self, model, n, prefix):
        self.config = model.config
        self.mamba = Mamba(model, prefix + "mamba.")
        self.attention = Attention(model, prefix + "self_attn.")

    def step(self, x, position):
        def scaled(name, mixer):
            y = mixer.step(self.config[name + "_in_multiplier"] * x, position)
            return self.config[name + "_out_multiplier"] * y

        return scaled("ssm", self.mamba) + scaled("attention", self.attention)


def tensors(case, n, p):
    mamba_tensors(case, p + "mamba.")
    softmax_tensors(case, p + "self_attn.", attention_shape(case.config))


KINDS = {"hybrid": ("", Mixer, tensors)}


def layer_types(config):
    return ["hybrid"] * config["num_hidden_layers"]


class Mlp(Layer):
    def step(self, x):
        gate, down = self.config["mlp_multipliers"]
        y = silu(gate * self.project("gate_proj", x)) * self.project("up_proj", x)
        return down * self.project("down_proj", y)


class FalconBlock(Block):
    def __init__(self, model, n):
        super().__init__(model, n)
        self.mlp = Mlp(model, f"model.layers.{n}.feed_forward.")


class Model(CausalLm):
    EMBEDDINGS = "model.embed_tokens.weight"
    NORMS = ("input_layernorm", "pre_ff_layernorm")
    FINAL_NORM = "model.final_layernorm"
    MLP = "feed_forward."

    def make_block(self, n):
        return FalconBlock(self, n)

    def embed(self, token):
        return self.config["embedding_multiplier"] * self.table[token]

    def cap(self, logits):
        return logits * self.config["lm_head_multiplier"]


SMALL = {
    "norm_eps": None,
    "rms_norm_eps": 1e-5,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 40,
    "mamba_d_ssm": 48,
    "mamba_n_heads": 4,
    "mamba_d_state": 8,
}

CASES = {
    # The keys of published files.
    "falcon_h1": (
        {
            **SMALL,
            "architectures": ["FalconH1ForCausalLM"],
            "attention_bias": False,
            "attention_dropout": 0.0,
            "attention_in_multiplier": 0.9,
            "attention_out_multiplier": 0.6,
            "bos_token_id": 1,
            "embedding_multiplier": 1.6,
            "eos_token_id": 11,
            "head_dim": 12,
            "hidden_act": "silu",
            "initializer_range": 0.02,
            "key_multiplier": 0.4,
            "lm_head_multiplier": 0.3,
            "mamba_chunk_size": 128,
            "mamba_conv_bias": True,
            "mamba_d_conv": 4,
            "mamba_d_head": 12,
            "mamba_expand": 2,
            "mamba_n_groups": 1,
            "mamba_norm_before_gate": False,
            "mamba_proj_bias": False,
            "mamba_rms_norm": False,
            "mamba_use_mlp": True,
            "max_position_embeddings": 16384,
            "mlp_bias": False,
            "mlp_expansion_factor": 8,
            "mlp_multipliers": [0.8, 0.6],
            "num_logits_to_keep": 1,
            "pad_token_id": 0,
            "projectors_bias": False,
            "rope_scaling": None,
            "rope_theta": 100000000000.0,
            "ssm_in_multiplier": 1.25,
            "ssm_multipliers": [0.5, 0.875, 0.625, 0.75, 0.6875],
            "ssm_out_multiplier": 0.8,
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
            "transformers_version": "4.52.0",
            "use_cache": True,
        },
        {},
    ),
    "falcon_h1-norm": (
        {
            **SMALL,
            "mamba_rms_norm": True,
            "mamba_n_groups": 2,
            "mamba_d_head": "auto",
            "mamba_d_conv": 3,
            "mamba_conv_bias": False,
            "mamba_proj_bias": True,
            "projectors_bias": True,
            "attention_bias": True,
            "num_key_value_heads": 1,
            "ssm_in_multiplier": 0.5,
            "ssm_multipliers": [1.5, 0.75, 2.0, 0.5, 0.625],
            "attention_in_multiplier": 1.5,
            "rope_parameters": {"rope_theta": 300.0, "rope_type": "default"},
            "tie_word_embeddings": True,
        },
        {},
    ),
    "falcon_h1-gate-first": (
        {
            **SMALL,
            "mamba_d_ssm": None,
            "mamba_expand": 1,
            "mamba_rms_norm": True,
            "mamba_norm_before_gate": False,
            "time_step_limit": [0.2, 0.6],
            "rms_norm_eps": 1e-3,
            "mlp_multipliers": [2.0, 0.5],
        },
        {},
    ),
}
