"""Qwen3.5: Gated DeltaNet, every few layers gated softmax attention.

The mixer is that of gated_deltanet with other names, q, k and v in one matrix
and one convolution. Softmax attention turns the first part of a head
(partial_rotary_factor) and multiplies each head's output by the sigmoid of
its gate, whose rows in q_proj follow those of its query.

Norms multiply by 1 + weight, all but that of a linear layer's heads: 1 is
added to their weights on reading, and all else is as elsewhere.

config.json is that of the language model (qwen3_5_text), or that has it in
text_config (qwen3_5) and tensors below model.language_model.
"""

import numpy as np

from families import gated_deltanet
from language_model import CausalLm, own_tensors
from pointwise import sigmoid, silu
from softmax_attention import (
    SoftmaxAttention,
    softmax_tensors,
    transformers_shape,
)

DEFAULTS = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "vocab_size": 248320,
    "intermediate_size": 12288,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "attention_bias": False,
    "rope_theta": 10000.0,
    "partial_rotary_factor": 0.25,
    "full_attention_interval": 4,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}


def layer_types(config):
    interval = config["full_attention_interval"]
    return config.get(
        "layer_types",
        [
            "linear_attention" if (n + 1) % interval else "full_attention"
            for n in range(config["num_hidden_layers"])
        ],
    )


def sizes(config):
    """Query heads, value heads, key width, value width."""
    return (
        config["linear_num_key_heads"],
        config["linear_num_value_heads"],
        config["linear_key_head_dim"],
        config["linear_value_head_dim"],
    )


class LinearAttention(gated_deltanet.Mixer):
    DECAY, NORM, OUT = "in_proj_a", "norm", "out_proj"

    def sizes(self):
        return sizes(self.config)

    def make_convolutions(self):
        self.conv = self.causal_conv("conv1d")

    def parts(self, x):
        u = silu(self.conv.step(self.project("in_proj_qkv", x)))
        width = self.H * self.K
        q, k, v = np.split(u, [width, 2 * width])
        heads = q.reshape(self.H, self.K), k.reshape(self.H, self.K)
        return *heads, v.reshape(self.HV, self.V)

    def beta(self, x):
        return sigmoid(self.project("in_proj_b", x))

    def gate(self, x):
        return silu(self.project("in_proj_z", x)).reshape(self.HV, self.V)


def linear_tensors(case, n, p):
    D = case.config["hidden_size"]
    H, HV, K, V = sizes(case.config)
    channels = 2 * H * K + HV * V
    case.matrix(p + "in_proj_qkv.weight", channels, D)
    case.matrix(p + "in_proj_z.weight", HV * V, D)
    case.matrix(p + "in_proj_b.weight", HV, D)
    case.matrix(p + "in_proj_a.weight", HV, D)
    W = case.config["linear_conv_kernel_dim"]
    case.taps(p + "conv1d.weight", channels, W)
    case.vector(p + "A_log", HV, -0.5, 1.0)
    case.vector(p + "dt_bias", HV, -1.0, 1.0)
    case.vector(p + "norm.weight", V, 1.0, 0.3)
    case.matrix(p + "out_proj.weight", D, HV * V)


def attention_shape(config):
    return transformers_shape(
        config,
        norms=("q_norm", "k_norm"),
        gated=True,
        biases="qkvo" if config["attention_bias"] else "",
    )


def full_attention(model, n, prefix):
    return SoftmaxAttention(model, attention_shape(model.config), prefix)


def full_tensors(case, n, p):
    softmax_tensors(case, p, attention_shape(case.config))


KINDS = {
    "linear_attention": ("linear_attn.", LinearAttention, linear_tensors),
    "full_attention": ("self_attn.", full_attention, full_tensors),
}


def is_centered(name):
    """Whether the tensor is the weight of a norm around 0."""
    of_heads = name.endswith("linear_attn.norm.weight")
    return name.endswith("norm.weight") and not of_heads


class Model(CausalLm):
    EMBEDDINGS = "model.embed_tokens.weight"
    NORMS = ("input_layernorm", "post_attention_layernorm")

    def __init__(self, family, values, tensors, rounded):
        tensors = {
            name: 1 + tensor if is_centered(name) else tensor
            for name, tensor in own_tensors(tensors).items()
        }
        super().__init__(family, values, tensors, rounded)


def foreign_tensors(case):
    """What stands beside the language model in published files."""
    D = case.config["hidden_size"]
    case.matrix("model.visual.blocks.0.attn.qkv.weight", 24, 8)
    case.vector("model.visual.blocks.0.norm1.weight", 8, 1.0, 0.3)
    case.matrix("mtp.fc.weight", 4, 2 * D)
    case.vector("mtp.layers.0.input_layernorm.weight", D, 0.0, 0.3)


def all_tensors(case):
    """Stored "nested": by the names of published files, with others beside."""
    case.causal_lm()
    nested = case.stored.get("nested", False)
    for name in list(case.tensors):
        tensor = case.tensors.pop(name)
        if nested:
            name = name.replace("model.", "model.language_model.", 1)
        case.tensors[name] = tensor - 1 if is_centered(name) else tensor
    if nested:
        foreign_tensors(case)


# Sizes that tell all widths apart.
SMALL = {
    "model_type": "qwen3_5_text",
    "norm_eps": None,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 12,
    "linear_conv_kernel_dim": 4,
}

PATTERN = ["linear_attention"] * 3 + ["full_attention"]

# The other keys that transformers writes.
WRITTEN = {
    "architectures": ["Qwen3_5ForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": None,
    "dtype": "float32",
    "eos_token_id": None,
    "initializer_range": 0.02,
    "layer_types": PATTERN,
    "max_position_embeddings": 32768,
    "pad_token_id": None,
    "rope_parameters": {
        "partial_rotary_factor": 0.25,
        "rope_theta": 500.0,
        "rope_type": "default",
    },
    "tie_word_embeddings": True,
    "use_cache": True,
}

CASES = {
    "qwen3_5": ({"num_hidden_layers": 4, **WRITTEN, **SMALL}, {}),
    "qwen3_5-nested": (
        {
            "architectures": ["Qwen3_5ForConditionalGeneration"],
            "image_token_id": 56,
            "video_token_id": 57,
            "vision_start_token_id": 53,
            "vision_end_token_id": 54,
            "tie_word_embeddings": True,
            "text_config": {
                **SMALL,
                "num_hidden_layers": 4,
                "full_attention_interval": 2,
                "attn_output_gate": True,
                "mamba_ssm_dtype": "float32",
                "mtp_num_hidden_layers": 1,
                "rope_theta": 1000.0,
                "partial_rotary_factor": 0.5,
            },
            "vision_config": {
                "model_type": "qwen3_5",
                "depth": 1,
                "hidden_size": 8,
                "num_heads": 2,
            },
        },
        {"nested": True},
    ),
    "qwen3_5-three-values": (
        {
            **SMALL,
            "num_hidden_layers": 4,
            "layer_types": [
                "full_attention",
                "linear_attention",
                "linear_attention",
                "full_attention",
            ],
            "attention_bias": True,
            "linear_num_value_heads": 6,
            "linear_value_head_dim": 8,
            "rms_norm_eps": 1e-4,
        },
        {"dtype": "BF16"},
    ),
    "qwen3_5-one-value": (
        {
            **SMALL,
            "num_hidden_layers": 4,
            "hidden_size": 48,
            "num_key_value_heads": 1,
            "head_dim": 8,
            "linear_num_value_heads": 2,
            "linear_value_head_dim": 16,
            "linear_conv_kernel_dim": 3,
            "tie_word_embeddings": False,
        },
        {},
    ),
}
