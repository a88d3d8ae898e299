"""HGRN: h = alpha o h + (1 - alpha) o silu(i), a number for each channel.

alpha has a lower bound per layer, the same as HGRN-2's.
"""

import numpy as np

from layer import Layer
from pointwise import rms_norm, sigmoid, silu, softmax

DEFAULTS = {
    "expand_ratio": 1,
    "use_short_conv": False,
    "conv_size": 4,
    "use_lower_bound": True,
}


def channels(config):
    return config["hidden_size"] * config["expand_ratio"]


class Mixer(Layer):
    def __init__(self, model, n, prefix):
        super().__init__(model, prefix)
        self.h = np.zeros(channels(self.config))
        self.bound = np.zeros(channels(self.config))
        if self.config["use_lower_bound"] and n > 0:
            P = self.tensors["model.lower_bounds"]
            shares = np.stack([softmax(column) for column in P.T], axis=1)
            self.bound = shares[1 : n + 1].sum(axis=0)
        self.convs = {}
        if self.config["use_short_conv"]:
            self.convs = {part: self.causal_conv(part + "_conv1d") for part in "if"}

    def convolved(self, part, x):
        """Projected, then the short convolution, which has no activation."""
        y = self.project(part + "_proj", x)
        return self.convs[part].step(y) if self.convs else y

    def step(self, x, position):
        f = self.convolved("f", x)
        alpha = self.bound + (1 - self.bound) * sigmoid(f)
        rest = (1 - self.bound) * sigmoid(-f)  # 1 - alpha
        self.h = alpha * self.h + rest * silu(self.convolved("i", x))
        y = rms_norm(self.h, self.tensor("g_norm.weight"), self.config.norm_eps())
        return self.project("o_proj", y * silu(self.project("g_proj", x)))


def tensors(case, n, p):
    D, E = case.config["hidden_size"], channels(case.config)
    case.matrix(p + "i_proj.weight", E, D)
    case.matrix(p + "f_proj.weight", E, D, 2.0)
    case.matrix(p + "g_proj.weight", E, D)
    if case.config.get("elementwise_affine", True):
        case.vector(p + "g_norm.weight", E, 1.0, 0.3)
    case.matrix(p + "o_proj.weight", D, E)
    if case.config["use_short_conv"]:
        for part in "if":
            case.taps(p + part + "_conv1d.weight", E, case.config["conv_size"])


def model_tensors(case):
    if case.config["use_lower_bound"]:
        layers = case.config["num_hidden_layers"]
        case.uniform(
            "model.lower_bounds", (layers, channels(case.config)), 0.0, 2.0
        )


CASES = {
    "hgrn": ({"num_hidden_layers": 3}, {}),
    "hgrn-conv-wide": (
        {
            "expand_ratio": 2,
            "use_short_conv": True,
            "conv_size": 3,
            "use_lower_bound": False,
            "elementwise_affine": False,
            "norm_eps": 1e-3,
        },
        {},
    ),
}
