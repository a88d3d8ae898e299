"""RecurrentGemma: the RG-LRU in most layers, softmax attention over a window in
the others, an MLP with biases in all.

    y = gelu(linear_y x),  u = conv(linear_x x)
    i = sigmoid(u A_i + b_i),  r = sigmoid(u A_r + b_r)   a block for each head
    a = exp(-8 r softplus(p)),  h <- a o h + sqrt(1 - a^2) o i o u
    out = linear_out (h o y)

The first token has 1 in place of sqrt(1 - a^2). gelu is that by tanh. The
table is multiplied by the root of hidden_size, rounded to bf16; norms multiply
by 1 + weight; logits have a soft cap. A_i and A_r are never rounded: they
decide how the past fades.
"""

import numpy as np

from language_model import CausalLm, Mlp
from layer import Layer
from pointwise import gelu_tanh, sigmoid, softplus
from softmax_attention import (
    SoftmaxAttention,
    softmax_tensors,
    transformers_shape,
)
from tensor_file import round_bf16

DEFAULTS = {
    "hidden_size": 2560,
    "num_hidden_layers": 26,
    "vocab_size": 256000,
    "intermediate_size": 7680,
    "num_attention_heads": 10,
    "norm_eps": 1e-6,
    "attention_window_size": 2048,
    "conv1d_width": 4,
    "logits_soft_cap": 30.0,
    "block_types": ["recurrent", "recurrent", "attention"],
    "attention_bias": False,
    "rope_theta": 10000.0,
    "partial_rotary_factor": 0.5,
    "tie_word_embeddings": True,
}


def layer_types(config):
    kinds = config["block_types"]
    return [kinds[n % len(kinds)] for n in range(config["num_hidden_layers"])]


def channels(config):
    return config.get("lru_width", config["hidden_size"])


def mlp_width(config):
    return config["intermediate_size"] // 2


class RgLru(Layer):
    def __init__(self, model, n, prefix):
        super().__init__(model, prefix)
        self.conv = self.causal_conv("conv_1d")
        self.rate = 8 * softplus(self.tensor("rg_lru.recurrent_param"))
        self.h = np.zeros(channels(self.config))

    def gate(self, name, u):
        blocks = self.tensor("rg_lru.%s_gate_weight" % name)
        parts = np.split(u, len(blocks))
        y = np.concatenate([part @ block for part, block in zip(parts, blocks)])
        return sigmoid(y + self.tensor("rg_lru.%s_gate_bias" % name).reshape(-1))

    def step(self, x, position):
        y = gelu_tanh(self.project("linear_y", x))
        u = self.conv.step(self.project("linear_x", x))
        log_a = -self.gate("recurrent", u) * self.rate
        factor = np.sqrt(-np.expm1(2 * log_a)) if position > 0 else 1.0
        self.h = np.exp(log_a) * self.h + factor * self.gate("input", u) * u
        return self.project("linear_out", self.h * y)


def linear(case, name, rows, columns):
    case.matrix(name + ".weight", rows, columns)
    case.vector(name + ".bias", rows, 0.0, 0.5)


def lru_tensors(case, n, p):
    D, E = case.config["hidden_size"], channels(case.config)
    H = case.config["num_attention_heads"]
    w = E // H
    linear(case, p + "linear_y", E, D)
    linear(case, p + "linear_x", E, D)
    case.taps(p + "conv_1d.weight", E, case.config["conv1d_width"])
    case.vector(p + "conv_1d.bias", E, 0.0, 0.5)
    for name in ("input", "recurrent"):
        q = p + "rg_lru.%s_gate_" % name
        case.uniform(q + "weight", (H, w, w), 0.0, (3 / w) ** 0.5)
        case.uniform(q + "bias", (H, w), 0.0, 1.0)
    # Decays from 0.9 to 0.02 where r is 1/2.
    case.vector(p + "rg_lru.recurrent_param", E, -1.7, 2.0)
    linear(case, p + "linear_out", D, E)


def attention_shape(config):
    heads = config["num_attention_heads"]
    return transformers_shape(
        config,
        kv_heads=config.get("num_key_value_heads", heads),
        window=config["attention_window_size"],
        biases="qkvo" if config["attention_bias"] else "o",
    )


def attention(model, n, prefix):
    return SoftmaxAttention(model, attention_shape(model.config), prefix)


def attention_tensors(case, n, p):
    softmax_tensors(case, p, attention_shape(case.config))


KINDS = {
    "recurrent": ("temporal_block.", RgLru, lru_tensors),
    "attention": ("temporal_block.", attention, attention_tensors),
}


def channel_tensors(case, n, p):
    D, width, q = case.config["hidden_size"], mlp_width(case.config), p + Model.MLP
    linear(case, q + "gate_proj", width, D)
    linear(case, q + "up_proj", width, D)
    linear(case, q + "down_proj", D, width)


class GeluMlp(Mlp):
    def step(self, x):
        gate = gelu_tanh(self.project("gate_proj", x))
        return self.project("down_proj", gate * self.project("up_proj", x))


class Model(CausalLm):
    EMBEDDINGS = "model.embed_tokens.weight"
    NORMS = ("temporal_pre_norm", "channel_pre_norm")
    MLP = "mlp_block."
    FINAL_NORM = "model.final_norm"

    def __init__(self, family, values, tensors, rounded):
        own = {
            name: 1 + tensor if name.endswith("norm.weight") else tensor
            for name, tensor in tensors.items()
        }
        super().__init__(family, values, own, rounded)
        self.factor = round_bf16(np.sqrt([self.config["hidden_size"]]))[0]

    def make_mlp(self, n, prefix):
        return GeluMlp(self, prefix + self.MLP)

    def embed(self, token):
        return self.factor * self.table[token]

    def cap(self, logits):
        soft_cap = self.config["logits_soft_cap"]
        return soft_cap * np.tanh(logits / soft_cap)


def all_tensors(case):
    """Norms are stored less 1."""
    case.causal_lm()
    for name, tensor in case.tensors.items():
        if name.endswith("norm.weight"):
            case.tensors[name] = tensor - 1


SMALL = {
    "norm_eps": None,
    "rms_norm_eps": 1e-6,
    "num_hidden_layers": 3,
    "intermediate_size": 80,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "attention_window_size": 16,
}

CASES = {
    # The keys of published files.
    "recurrent_gemma": (
        {
            **SMALL,
            "_block_types": ["recurrent", "recurrent", "attention"],
            "architectures": ["RecurrentGemmaForCausalLM"],
            "attention_bias": False,
            "attention_dropout": 0.0,
            "block_types": ["recurrent", "recurrent", "attention"],
            "bos_token_id": 2,
            "conv1d_width": 4,
            "embeddings_scale_by_sqrt_dim": True,
            "eos_token_id": 1,
            "final_w_init_variance_scale": 0.08,
            "head_dim": 8,
            "hidden_activation": "gelu_pytorch_tanh",
            "initializer_range": 0.02,
            "logits_soft_cap": 30.0,
            "lru_width": 32,
            "pad_token_id": 0,
            "partial_rotary_factor": 0.5,
            "rope_theta": 10000.0,
            "torch_dtype": "bfloat16",
            "transformers_version": "4.40.0",
            "use_cache": True,
            "w_init_variance_scale": 0.01,
        },
        {},
    ),
    # Those that transformers writes since its version 5.
    "recurrent_gemma-wide": (
        {
            **SMALL,
            "block_types": ["attention", "recurrent"],
            "lru_width": 48,
            "num_key_value_heads": 2,
            "attention_bias": True,
            "attention_window_size": 100,
            "conv1d_width": 3,
            "logits_soft_cap": 5.0,
            "rope_parameters": {
                "partial_rotary_factor": 0.5,
                "rope_theta": 300.0,
                "rope_type": "default",
            },
            "tie_word_embeddings": False,
        },
        {"dtype": "BF16"},
    ),
    "recurrent_gemma-plain": (
        {
            **SMALL,
            "num_hidden_layers": 4,
            "num_attention_heads": 2,
            "num_key_value_heads": None,
            "attention_window_size": 3,
            "rms_norm_eps": 1e-3,
            "lru_width": None,
        },
        {},
    ),
}
