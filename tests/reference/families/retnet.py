"""Retention: S = (1 - 2^(-5-h)) S + k v^T, o = S^T q / sqrt(K), rotary q, k."""

import math

import numpy as np

from layer import Layer
from pointwise import ACTIVATIONS, gelu_erf, rms_norm, rotate_half

DEFAULTS = {
    "num_heads": 8,
    "expand_k": 1.0,
    "expand_v": 2.0,
    "hidden_ratio": 2,
    "use_output_gate": True,
}

# This family takes its names from transformers, where "gelu" is exact.
RETNET_ACTIVATIONS = {**ACTIVATIONS, "gelu": gelu_erf}


class Mixer(Layer):
    def __init__(self, model, n, prefix):
        super().__init__(model, prefix)
        config, D = self.config, self.config["hidden_size"]
        self.H = config["num_heads"]
        self.G = config.get("num_kv_heads", self.H)
        self.K = int(D * config["expand_k"]) // self.H
        self.V = int(D * config["expand_v"]) // self.H
        self.S = np.zeros((self.H, self.K, self.V))

    def rotated(self, name, x, heads, position):
        """[heads, K]: projected, feature map, rotary."""
        y = self.project(name, x).reshape(heads, self.K)
        if self.config.get("feature_map"):
            y = RETNET_ACTIVATIONS[self.config.get("feature_map")](y)
        return [rotate_half(head, position) for head in y]

    def step(self, x, position):
        config, g = self.config, self.H // self.G
        q = self.rotated("q_proj", x, self.H, position)
        k = self.rotated("k_proj", x, self.G, position)
        v = self.project("v_proj", x).reshape(self.G, self.V)
        gated = config["use_output_gate"]
        gate = self.project("g_proj", x).reshape(self.H, self.V) if gated else None
        act = RETNET_ACTIVATIONS[config["hidden_act"]]
        weight = self.tensor("g_norm_swish_gate.weight", "g_norm.weight")
        out = np.zeros((self.H, self.V))
        for h in range(self.H):
            gamma = 1 - 2.0 ** (-5 - h)
            self.S[h] = gamma * self.S[h] + np.outer(k[h // g], v[h // g])
            o = self.S[h].T @ q[h] / math.sqrt(self.K)
            out[h] = rms_norm(o, weight, config.norm_eps())
            if gated:
                out[h] *= act(gate[h])
        return self.project("o_proj", out.reshape(-1))


def tensors(case, n, p):
    config, D = case.config, case.config["hidden_size"]
    H = config["num_heads"]
    g = H // config.get("num_kv_heads", H)
    Dk, Dv = int(D * config["expand_k"]), int(D * config["expand_v"])
    gated = config["use_output_gate"]
    case.matrix(p + "q_proj.weight", Dk, D)
    case.matrix(p + "k_proj.weight", Dk // g, D)
    case.matrix(p + "v_proj.weight", Dv // g, D)
    if gated:
        case.matrix(p + "g_proj.weight", Dv, D)
    case.matrix(p + "o_proj.weight", D, Dv)
    if config.get("elementwise_affine", True):
        fused = gated and config.get("fuse_norm", True)
        name = "g_norm_swish_gate" if fused else "g_norm"
        case.vector(p + name + ".weight", Dv // H, 1.0, 0.3)


CASES = {
    "retnet-groups": ({"num_heads": 4, "num_kv_heads": 2, "expand_v": 1}, {}),
    "retnet-relu-no-gate": (
        {"num_heads": 2, "feature_map": "relu", "use_output_gate": False},
        {},
    ),
    "retnet-gelu": (
        {"num_heads": 2, "feature_map": "gelu", "expand_k": 0.5, "expand_v": 1},
        {},
    ),
    # num_heads 8 by default; a convolution that the library ignores.
    "retnet-plain-norm": (
        {
            "fuse_norm": False,
            "norm_eps": 1e-5,
            "use_short_conv": True,
            "conv_size": 4,
        },
        {},
    ),
    "retnet-hybrid": (
        {
            "num_heads": 2,
            "expand_v": 1,
            "elementwise_affine": False,
            "attn": {"layers": [0], "num_heads": 4, "num_kv_heads": 1},
        },
        {},
    ),
}
