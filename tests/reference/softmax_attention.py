"""Softmax attention with rotary positions: `transformer`, hybrid layers."""

import math

import numpy as np

from layer import Layer
from pointwise import rms_norm, rotate_half, softmax


class SoftmaxAttention(Layer):
    """options: the model's config or one entry of its `attn`."""

    def __init__(self, model, options, prefix):
        super().__init__(model, prefix)
        self.options = options
        self.H = options.get("num_heads", 32)
        self.G = options.get("num_kv_heads", self.H)
        self.d = self.config["hidden_size"] // self.H
        self.keys, self.values = [], []

    def rotate(self, x, position):
        return rotate_half(x, position, self.options.get("rope_theta", 10000.0))

    def step(self, x, position):
        q = self.project("q_proj", x).reshape(self.H, self.d)
        k = self.project("k_proj", x).reshape(self.G, self.d)
        v = self.project("v_proj", x).reshape(self.G, self.d)
        if self.options.get("qk_norm", False):
            q = np.stack([rms_norm(y, self.tensor("q_norm.weight"), 1e-5) for y in q])
            k = np.stack([rms_norm(y, self.tensor("k_norm.weight"), 1e-5) for y in k])
        self.keys.append([self.rotate(y, position) for y in k])
        self.values.append(v)
        window = self.options.get("window_size") or len(self.keys)
        first = max(0, len(self.keys) - window)
        out = np.zeros((self.H, self.d))
        for h in range(self.H):
            j = h // (self.H // self.G)
            query = self.rotate(q[h], position)
            scores = np.array([key[j] @ query for key in self.keys[first:]])
            weights = softmax(scores / math.sqrt(self.d))
            out[h] = sum(s * u[j] for s, u in zip(weights, self.values[first:]))
        return self.project("o_proj", out.reshape(-1))


def softmax_tensors(case, p, options):
    """Random tensors of one layer."""
    D, H = case.config["hidden_size"], options["num_heads"]
    d, G = D // H, options.get("num_kv_heads") or H
    for part, n in (("q", D), ("k", G * d), ("v", G * d)):
        case.matrix(p + part + "_proj.weight", n, D)
        if options.get("qkv_bias", False):
            case.vector(p + part + "_proj.bias", n, 0.0, 0.5)
    if options.get("qk_norm", False):
        case.vector(p + "q_norm.weight", d, 1.5, 0.3)
        case.vector(p + "k_norm.weight", d, 1.5, 0.3)
    case.matrix(p + "o_proj.weight", D, D)
