"""Softmax attention with rotary positions: `transformer`, hybrid layers.

    q, k, v = W x (+ b);  q, k <- norm per head;  q, k <- rotary
    o_h = sum softmax(scale q_h . k_j) v_j;  o <- o sigmoid(gate)
    y = W_o o (+ b)

Which of that a layer has is its Shape; query head h reads key head
h // (H / G).
"""

import math
from dataclasses import dataclass

import numpy as np

from layer import Layer
from pointwise import rms_norm, rotate_half, sigmoid, softmax


@dataclass(frozen=True)
class Shape:
    """What a layer has and how its tensors are called."""

    H: int
    G: int
    d: int
    rotary: int  # the first dimensions of a head, which turn
    theta: float
    window: int = 0  # 0: none
    scale: float = 0.0  # of scores; 0: d^-1/2
    norms: tuple = ()  # the names of those of q and k
    eps: float = 1e-5  # of norms
    gated: bool = False  # q_proj has a head's rows of q, then of its gate
    head_gate: str = ""  # a gate of one number for each head
    turning: int | None = None  # of the pairs that turn, the first; None: all
    out: str = "o_proj"
    biases: str = ""  # of which of q, k, v, o


class SoftmaxAttention(Layer):
    def __init__(self, model, shape, prefix):
        super().__init__(model, prefix)
        self.shape = shape
        self.keys, self.values = [], []

    def normed(self, part, heads):
        """q or k."""
        if not self.shape.norms:
            return heads
        weight = self.tensor(self.shape.norms["qk".index(part)] + ".weight")
        return np.stack([rms_norm(y, weight, self.shape.eps) for y in heads])

    def rotate(self, x, position):
        turned, rest = np.split(x, [self.shape.rotary])
        turned = rotate_half(
            turned, position, self.shape.theta, self.shape.turning)
        return np.concatenate([turned, rest])

    def step(self, x, position):
        H, G, d = self.shape.H, self.shape.G, self.shape.d
        rows = self.project("q_proj", x).reshape(H, -1, d)
        q, gate = self.normed("q", rows[:, 0]), rows[:, -1]
        k = self.normed("k", self.project("k_proj", x).reshape(G, d))
        self.keys.append([self.rotate(y, position) for y in k])
        self.values.append(self.project("v_proj", x).reshape(G, d))
        first = max(0, len(self.keys) - (self.shape.window or len(self.keys)))
        out = np.zeros((H, d))
        for h in range(H):
            j = h // (H // G)
            query = self.rotate(q[h], position)
            scores = np.array([key[j] @ query for key in self.keys[first:]])
            weights = softmax(scores * (self.shape.scale or 1 / math.sqrt(d)))
            out[h] = sum(s * u[j] for s, u in zip(weights, self.values[first:]))
        if self.shape.gated:
            out *= sigmoid(gate)
        if self.shape.head_gate:
            out *= sigmoid(self.project(self.shape.head_gate, x))[:, None]
        return self.project(self.shape.out, out.reshape(-1))


def softmax_tensors(case, p, shape):
    """Random tensors of one layer."""
    D, H, G, d = case.config["hidden_size"], shape.H, shape.G, shape.d
    q_rows = 2 * H * d if shape.gated else H * d
    for part, n in (("q", q_rows), ("k", G * d), ("v", G * d)):
        case.matrix(p + part + "_proj.weight", n, D)
        if part in shape.biases:
            case.vector(p + part + "_proj.bias", n, 0.0, 0.5)
    if shape.head_gate:
        case.matrix(p + shape.head_gate + ".weight", H, D)
    for name in shape.norms:
        case.vector(p + name + ".weight", d, 1.5, 0.3)
    case.matrix(p + shape.out + ".weight", D, H * d)
    if "o" in shape.biases:
        case.vector(p + shape.out + ".bias", D, 0.0, 0.5)


def fla_shape(config, options):
    """options: the model's config or one entry of its `attn`."""
    H = options.get("num_heads", 32)
    d = config["hidden_size"] // H
    return Shape(
        H=H,
        G=options.get("num_kv_heads", H),
        d=d,
        rotary=d,
        theta=options.get("rope_theta", 10000.0),
        window=options.get("window_size", 0),
        norms=("q_norm", "k_norm") if options.get("qk_norm", False) else (),
        biases="qkv" if options.get("qkv_bias", False) else "",
    )


def rotary_option(config, key):
    """In rope_parameters or, as transformers before 5, beside the others."""
    value = config.get("rope_parameters", {}).get(key)
    return config[key] if value is None else value


def transformers_shape(config, kv_heads=None, share=None, **more):
    """Of the keys that transformers' models have in common, but for the heads
    of keys and the share of a head that turns, where they are given."""
    H = config["num_attention_heads"]
    d = config.get("head_dim", config["hidden_size"] // H)
    if share is None:
        share = rotary_option(config, "partial_rotary_factor")
    return Shape(
        H=H,
        G=kv_heads or config["num_key_value_heads"],
        d=d,
        rotary=int(d * share),
        theta=rotary_option(config, "rope_theta"),
        eps=config.norm_eps(),
        **more,
    )
