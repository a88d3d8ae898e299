"""Gated linear attention: S = diag(alpha) S + k v^T, o = S^T q / sqrt(K)."""

import math

import numpy as np

from layer import Layer
from pointwise import ACTIVATIONS, log_sigmoid, rms_norm, silu

DEFAULTS = {
    "num_heads": 4,
    "expand_k": 0.5,
    "expand_v": 1.0,
    "use_short_conv": False,
    "use_output_gate": True,
}


class Mixer(Layer):
    def __init__(self, model, n, prefix):
        super().__init__(model, prefix)
        config, D = self.config, self.config["hidden_size"]
        self.H = config["num_heads"]
        self.G = config.get("num_kv_heads", self.H)
        self.K = int(D * config["expand_k"]) // self.H
        self.V = int(D * config["expand_v"]) // self.H
        self.S = np.zeros((self.H, self.K, self.V))
        self.convs = {}
        if config["use_short_conv"]:
            self.convs = {part: self.causal_conv(part + "_conv1d") for part in "qkv"}

    def convolved(self, part, x):
        """q, k or v: projected, then silu of the short convolution."""
        y = self.project(part + "_proj", x)
        return silu(self.convs[part].step(y)) if self.convs else y

    def log_decay(self, x):
        """[G, K], or [G, 1] where one number serves a head."""
        a = self.project("gk_proj.1", self.project("gk_proj.0", x))
        return log_sigmoid(a).reshape(self.G, self.K) / 16

    def step(self, x, position):
        config, g = self.config, self.H // self.G
        q = self.convolved("q", x).reshape(self.H, self.K)
        k = self.convolved("k", x).reshape(self.G, self.K)
        v = self.convolved("v", x).reshape(self.G, self.V)
        if config.get("feature_map"):
            act = ACTIVATIONS[config.get("feature_map")]
            q, k = act(q), act(k)
        log_alpha = self.log_decay(x)
        if config.get("clamp_min") is not None:
            log_alpha = np.maximum(log_alpha, config.get("clamp_min"))
        gated = config["use_output_gate"]
        gate = self.project("g_proj", x).reshape(self.H, self.V) if gated else None
        weight = self.tensor("g_norm_swish_gate.weight", "g_norm.weight")
        out = np.zeros((self.H, self.V))
        for h in range(self.H):
            j = h // g
            self.S[h] = np.exp(log_alpha[j])[:, None] * self.S[h]
            self.S[h] += np.outer(k[j], v[j])
            o = self.S[h].T @ q[h] / math.sqrt(self.K)
            out[h] = rms_norm(o, weight, config.norm_eps())
            if gated:
                out[h] *= silu(gate[h])
        return self.project("o_proj", out.reshape(-1))


def low_rank_decay(case, p, D, channels):
    case.matrix(p + "gk_proj.0.weight", 16, D)
    case.matrix(p + "gk_proj.1.weight", channels, 16)
    case.vector(p + "gk_proj.1.bias", channels, 0.0, 3.0)


def tensors(case, n, p, decay=low_rank_decay):
    """decay(case, p, D, channels): makes the tensors of the decay."""
    config, D = case.config, case.config["hidden_size"]
    H = config["num_heads"]
    g = H // config.get("num_kv_heads", H)
    Dk = int(D * config["expand_k"])
    Dv = int(D * config["expand_v"])
    gated = config["use_output_gate"]
    case.matrix(p + "q_proj.weight", Dk, D)
    case.matrix(p + "k_proj.weight", Dk // g, D)
    case.matrix(p + "v_proj.weight", Dv // g, D)
    if gated:
        case.matrix(p + "g_proj.weight", Dv, D)
    decay(case, p, D, Dk // g)
    case.matrix(p + "o_proj.weight", D, Dv)
    if config.get("elementwise_affine", True):
        name = "g_norm_swish_gate" if gated else "g_norm"
        case.vector(p + name + ".weight", Dv // H, 1.0, 0.3)
    if config["use_short_conv"]:
        W = config.get("conv_size", 4)
        for part, channels in (("q", Dk), ("k", Dk // g), ("v", Dv // g)):
            case.taps(p + part + "_conv1d.weight", channels, W)


def old_case(seed, change, stored=None):
    """These cases came first, with wider MLPs and seeds by number."""
    values = {"num_heads": 2, "intermediate_size": 64, **change}
    return values, {"dtype": "F32", "seed": seed, **(stored or {})}


CASES = {
    "gla-bf16-sharded": old_case(1, {}, {"dtype": "BF16", "shards": 3}),
    "gla-clamp": old_case(
        2, {"clamp_min": -0.02, "norm_eps": None, "rms_norm_eps": 1e-4}
    ),
    "gla-f16": old_case(3, {}, {"dtype": "F16"}),
    "gla-groups-conv": old_case(
        4,
        {"num_heads": 4, "num_kv_heads": 1, "use_short_conv": True, "conv_size": 3},
    ),
    "gla-groups-relu-no-gate": old_case(
        5,
        {
            "num_heads": 4,
            "num_kv_heads": 2,
            "expand_k": 1,
            "feature_map": "relu",
            "use_output_gate": False,
            "norm_eps": 1e-5,
        },
    ),
    "gla-hybrid": old_case(
        6,
        {
            "num_hidden_layers": 3,
            "attn": {
                "layers": [1],
                "num_heads": 4,
                "num_kv_heads": 2,
                "qkv_bias": True,
                "qk_norm": True,
                "rope_theta": 500.0,
            },
        },
    ),
    "gla-hybrid-window": old_case(
        7, {"attn": [{"layers": [0], "num_heads": 2, "window_size": 5}]}
    ),
    "gla-no-affine": old_case(8, {"elementwise_affine": False}),
    "gla-odd-heads": old_case(
        9,
        {"hidden_size": 24, "expand_k": 0.625, "expand_v": 1.375, "num_heads": 3},
    ),
    "gla-short-conv": old_case(10, {"use_short_conv": True}),
    "gla-tied-fused-mlp": old_case(
        11,
        {
            "num_hidden_layers": 1,
            "tie_word_embeddings": True,
            "intermediate_size": None,
        },
        {"fused_mlp": True},
    ),
}
