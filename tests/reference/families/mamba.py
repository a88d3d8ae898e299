"""Mamba-1. Per channel e:

    x, z = in_proj u;  x <- silu(conv(x));  low, B, C = x_proj x
    dt = softplus(dt_proj low + bias),  A = -exp(A_log)
    h[e] <- exp(dt_e A[e]) h[e] + dt_e x_e B;  y_e = h[e] . C + D_e x_e
    out = out_proj (y silu(z))

Layers are h += mixer(norm(h)) and nothing else. Transformers and fla share
the names of the tensors; keys of transformers that fla has renamed:
layer_norm_epsilon (norm_eps), time_step_rank (dt_rank).
"""

import math

import numpy as np

from language_model import CausalLm
from layer import Layer
from pointwise import rms_norm, silu, softplus

DEFAULTS = {
    "state_size": 16,
    "expand": 2,
    "conv_kernel": 4,
    "use_bias": False,
    "use_conv_bias": True,
    "norm_eps": 1e-5,
}


class Mixer(Layer):
    def __init__(self, model, n, prefix):
        super().__init__(model, prefix)
        self.conv = self.causal_conv("conv1d")
        self.A = -np.exp(self.tensor("A_log"))
        self.E, self.N = self.A.shape
        self.R = self.tensor("dt_proj.weight").shape[1]
        self.h = np.zeros((self.E, self.N))

    def low_parts(self, x):
        """What dt is made of, B and C."""
        return np.split(self.project("x_proj", x), [self.R, self.R + self.N])

    def step(self, u, position):
        x, z = np.split(self.project("in_proj", u), 2)
        x = silu(self.conv.step(x))
        low, B, C = self.low_parts(x)
        dt = softplus(self.project("dt_proj", low))
        D = self.tensor("D")
        y = np.zeros(self.E)
        for e in range(self.E):
            self.h[e] = np.exp(dt[e] * self.A[e]) * self.h[e] + dt[e] * x[e] * B
            y[e] = self.h[e] @ C + D[e] * x[e]
        return self.project("out_proj", y * silu(z))


class Block:
    def __init__(self, model, n):
        prefix = "backbone.layers.%d." % n
        self.eps = model.config.norm_eps()
        self.mixer = model.family.Mixer(model, n, prefix + "mixer.")
        self.norm = model.tensors[prefix + "norm.weight"]

    def order_matters(self):
        return True

    def step(self, h, position):
        return h + self.mixer.step(rms_norm(h, self.norm, self.eps), position)


class Model(CausalLm):
    """Tied where the file has no head, whatever the library's default."""

    EMBEDDINGS = "backbone.embeddings.weight"

    def make_block(self, n):
        return Block(self, n)

    def final_norm(self, h):
        weight = self.tensors["backbone.norm_f.weight"]
        return rms_norm(h, weight, self.config.norm_eps())


def all_tensors(case):
    """stored "tied": no head, for configurations that are silent about it."""
    D = case.config["hidden_size"]
    case.embeddings(Model.EMBEDDINGS)
    for n in range(case.config["num_hidden_layers"]):
        p = "backbone.layers.%d." % n
        case.vector(p + "norm.weight", D, 1.0, 0.3)
        case.family.tensors(case, n, p + "mixer.")
    case.vector("backbone.norm_f.weight", D, 1.0, 0.3)
    if not case.stored.get("tied"):
        case.head("lm_head.weight")


def linear(case, p, name, rows, columns):
    """in_proj or out_proj."""
    case.matrix(p + name + ".weight", rows, columns)
    if case.config["use_bias"]:
        case.vector(p + name + ".bias", rows, 0.0, 0.5)


def convolution(case, p, channels):
    case.taps(p + "conv1d.weight", channels, case.config["conv_kernel"])
    if case.config["use_conv_bias"]:
        case.vector(p + "conv1d.bias", channels, 0.0, 0.5)


def width(config):
    return int(config["expand"] * config["hidden_size"])


def rank(config):
    R = config.get("time_step_rank", config.get("dt_rank", "auto"))
    return math.ceil(config["hidden_size"] / 16) if R == "auto" else R


def layer_tensors(case, p, E):
    """Of E channels."""
    config, D = case.config, case.config["hidden_size"]
    N, R = config["state_size"], rank(config)
    linear(case, p, "in_proj", 2 * E, D)
    convolution(case, p, E)
    case.matrix(p + "x_proj.weight", R + 2 * N, E)
    case.matrix(p + "dt_proj.weight", E, R)
    case.vector(p + "dt_proj.bias", E, -1.0, 1.0)
    case.uniform(p + "A_log", (E, N), 0.0, 1.5)
    case.vector(p + "D", E, 1.0, 0.5)
    linear(case, p, "out_proj", D, E)


def tensors(case, n, p):
    layer_tensors(case, p, width(case.config))


# Keys of the common frame that these configurations do not have.
BARE = {"intermediate_size": None, "norm_eps": None}
SMALL = {**BARE, "state_size": 8, "layer_norm_epsilon": 1e-5}

CASES = {
    "mamba": (
        {**BARE, "layer_norm_epsilon": 1e-5, "time_step_rank": "auto"},
        {"tied": True, "dtype": "F32"},
    ),
    "mamba-bias": ({**SMALL, "use_bias": True, "tie_word_embeddings": False}, {}),
    "mamba-rank": (
        {**SMALL, "time_step_rank": 5, "expand": 1, "conv_kernel": 3},
        {"tied": True},
    ),
    "mamba-no-conv-bias": (
        {**SMALL, "use_conv_bias": False, "tie_word_embeddings": True},
        {},
    ),
    "mamba-fla": ({**BARE, "state_size": 8, "norm_eps": 1e-4, "dt_rank": 3}, {}),
}
