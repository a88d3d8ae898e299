"""Multi-head latent attention, as DeepSeek-V2 and -V3 have it.

    q = W_q x, or W_qb norm(W_qa x): per head [n, r]
    c [latent], s [r] = W_kva x (+ b);  c <- norm(c)
    k [n], v per head = W_kvb c
    o_h = sum softmax((n + r)^-1/2 [q_n, q_r] . [k_j, s_j]) v_j
    o_h <- o_h sigmoid(w_h . x);  y = W_o o (+ b)

q_r and s turn by their position where the layer is rotary, pairs side by side.
Every token's keys and values are made and kept here.
"""

import math
from dataclasses import dataclass

import numpy as np

from layer import Layer
from pointwise import rms_norm, sigmoid, softmax

EPS = 1e-6  # of the norms in here, whatever the model's


@dataclass(frozen=True)
class Shape:
    """What a layer has and how its output is called."""

    H: int
    latent: int
    query_latent: int  # 0: queries are of full rank
    nope: int
    rope: int
    value: int
    bias: bool = False
    theta: float = 0.0  # 0: nothing turns
    gated: bool = False
    out: str = "o_proj"


class LatentAttention(Layer):
    def __init__(self, model, shape, prefix):
        super().__init__(model, prefix)
        self.shape = shape
        self.keys, self.values = [], []

    def queries(self, x):
        """[H, n + r]"""
        if not self.shape.query_latent:
            q = self.project("q_proj", x)
        else:
            weight = self.tensor("q_a_layernorm.weight")
            q = rms_norm(self.project("q_a_proj", x), weight, EPS)
            q = self.project("q_b_proj", q)
        return q.reshape(self.shape.H, -1)

    def turn(self, x, position):
        """Of one head, or the shared key: pairs (2i, 2i + 1)."""
        if not self.shape.theta:
            return x
        pairs = x.reshape(-1, 2)
        angles = position * self.shape.theta ** (
            -np.arange(len(pairs)) / len(pairs)
        )
        c, s = np.cos(angles), np.sin(angles)
        a, b = pairs[:, 0], pairs[:, 1]
        return np.stack([a * c - b * s, b * c + a * s], axis=1).reshape(-1)

    def step(self, x, position):
        shape = self.shape
        latent, shared = np.split(
            self.project("kv_a_proj_with_mqa", x), [shape.latent]
        )
        latent = rms_norm(latent, self.tensor("kv_a_layernorm.weight"), EPS)
        made = self.project("kv_b_proj", latent).reshape(shape.H, -1)
        shared = self.turn(shared, position)
        self.keys.append(
            [np.concatenate([k, shared]) for k in made[:, : shape.nope]]
        )
        self.values.append(made[:, shape.nope :])
        queries = self.queries(x)
        out = np.zeros((shape.H, shape.value))
        for h in range(shape.H):
            own, turned = np.split(queries[h], [shape.nope])
            query = np.concatenate([own, self.turn(turned, position)])
            scores = np.array([keys[h] @ query for keys in self.keys])
            weights = softmax(scores / math.sqrt(len(query)))
            out[h] = sum(w * values[h] for w, values in zip(weights, self.values))
        if shape.gated:
            out *= sigmoid(self.project("g_proj", x))[:, None]
        return self.project(shape.out, out.reshape(-1))


def latent_shape(config, **more):
    """Of the keys of DeepSeek-V3's config."""
    return Shape(
        H=config["num_attention_heads"],
        latent=config["kv_lora_rank"],
        query_latent=config.get("q_lora_rank", 0),
        nope=config["qk_nope_head_dim"],
        rope=config["qk_rope_head_dim"],
        value=config["v_head_dim"],
        bias=config["attention_bias"],
        **more,
    )


def latent_tensors(case, p, shape):
    """Random tensors of one layer."""
    D = case.config["hidden_size"]

    def linear(name, rows, columns, bias=False):
        case.matrix(p + name + ".weight", rows, columns)
        if bias:
            case.vector(p + name + ".bias", rows, 0.0, 0.5)

    rows = shape.H * (shape.nope + shape.rope)
    if shape.query_latent:
        linear("q_a_proj", shape.query_latent, D, shape.bias)
        case.vector(p + "q_a_layernorm.weight", shape.query_latent, 1.5, 0.3)
        linear("q_b_proj", rows, shape.query_latent)
    else:
        linear("q_proj", rows, D)
    linear("kv_a_proj_with_mqa", shape.latent + shape.rope, D, shape.bias)
    case.vector(p + "kv_a_layernorm.weight", shape.latent, 1.5, 0.3)
    linear("kv_b_proj", shape.H * (shape.nope + shape.value), shape.latent)
    if shape.gated:
        linear("g_proj", shape.H, D)
    linear(shape.out, D, shape.H * shape.value, shape.bias)
