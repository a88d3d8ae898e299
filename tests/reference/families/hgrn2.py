"""HGRN-2: a key decay alpha with a lower bound per layer, and k = 1 - alpha.

S = diag(alpha) S + (1 - alpha) v^T, o = S^T silu(q) / sqrt(K).
"""

import math

import numpy as np

from layer import Layer
from pointwise import rms_norm, sigmoid, silu, softmax

DEFAULTS = {
    "expand_ratio": 128,
    "use_short_conv": False,
    "conv_size": 4,
    "use_lower_bound": True,
}


def shape(config):
    """Heads, K and V. "expand_ratio": null leaves K to num_heads."""
    D = config["hidden_size"]
    ratio = config.get("expand_ratio")
    if "expand_ratio" in config.values and config.values["expand_ratio"] is None:
        ratio = D // config["num_heads"]
    heads = D // ratio
    return heads, ratio, D // heads


class Mixer(Layer):
    def __init__(self, model, n, prefix):
        super().__init__(model, prefix)
        self.H, self.K, self.V = shape(self.config)
        self.S = np.zeros((self.H, self.K, self.V))
        self.lower_bound = self.bound_of_layer(n)
        self.convs = {}
        if self.config["use_short_conv"]:
            self.convs = {part: self.causal_conv(part + "_conv1d") for part in "qfi"}

    def bound_of_layer(self, n):
        """[K of all heads]: the softmax over layers, summed up to layer n,
        without layer 0."""
        if not self.config["use_lower_bound"] or n == 0:
            return np.zeros(self.H * self.K)
        P = self.tensors["model.lower_bounds"]
        shares = np.stack([softmax(P[:, c]) for c in range(P.shape[1])], axis=1)
        return shares[: n + 1].sum(axis=0) - shares[0]

    def convolved(self, part, x):
        """Projected, then the short convolution, which has no activation."""
        y = self.project(part + "_proj", x)
        return self.convs[part].step(y) if self.convs else y

    def step(self, x, position):
        q = silu(self.convolved("q", x)).reshape(self.H, self.K)
        f = self.convolved("f", x)
        v = self.convolved("i", x).reshape(self.H, self.V)
        bound = self.lower_bound
        alpha = (bound + (1 - bound) * sigmoid(f)).reshape(self.H, self.K)
        k = ((1 - bound) * sigmoid(-f)).reshape(self.H, self.K)  # 1 - alpha
        out = np.zeros((self.H, self.V))
        for h in range(self.H):
            self.S[h] = alpha[h][:, None] * self.S[h] + np.outer(k[h], v[h])
            out[h] = self.S[h].T @ q[h] / math.sqrt(self.K)
        # Over the full width, and whatever norm_eps says.
        y = rms_norm(out.reshape(-1), self.tensor("g_norm.weight"), 1e-5)
        return self.project("o_proj", y)


def tensors(case, n, p):
    D = case.config["hidden_size"]
    H, K, _ = shape(case.config)
    case.matrix(p + "q_proj.weight", H * K, D)
    case.matrix(p + "f_proj.weight", H * K, D, 2.0)
    case.matrix(p + "i_proj.weight", D, D)
    if case.config.get("elementwise_affine", True):
        case.vector(p + "g_norm.weight", D, 1.0, 0.3)
    case.matrix(p + "o_proj.weight", D, D)
    if case.config["use_short_conv"]:
        for part, channels in (("q", H * K), ("f", H * K), ("i", D)):
            case.taps(p + part + "_conv1d.weight", channels, case.config["conv_size"])


def model_tensors(case):
    if case.config["use_lower_bound"]:
        H, K, _ = shape(case.config)
        layers = case.config["num_hidden_layers"]
        case.uniform("model.lower_bounds", (layers, H * K), 0.0, 2.0)


CASES = {
    "hgrn2-no-bounds": ({"expand_ratio": 16, "use_lower_bound": False}, {}),
    "hgrn2-three-layers": (
        {"hidden_size": 24, "num_hidden_layers": 3, "expand_ratio": 12},
        {},
    ),
    "hgrn2-conv-heads": (
        {
            "expand_ratio": None,
            "num_heads": 4,
            "use_short_conv": True,
            "conv_size": 3,
            "norm_eps": 1e-3,
        },
        {},
    ),
    "hgrn2-hybrid-no-affine": (
        {
            "num_hidden_layers": 3,
            "expand_ratio": 8,
            "elementwise_affine": False,
            "intermediate_size": 16,
            "attn": {"layers": [1], "num_heads": 2, "qkv_bias": True},
        },
        {},
    ),
}
