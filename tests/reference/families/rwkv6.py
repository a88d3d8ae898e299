"""RWKV-6. Time mixing, per head, reads out before it updates:

    o = (S + diag(u) k v^T)^T r;  S <- diag(exp(-exp(w))) S + k v^T

With d = x_before - x, each of r, w, k, v, g projects x + d m_i, where m comes
from x itself:  m_i = X2_i p_i + x_bias_i,  p = tanh(X0 (x + d mu)).
Output: LayerNorm of each head with weight and bias over all, times silu(g).

Channel mixing: sigmoid(R (x + d mu_r)) V act(K (x + d mu_k)), act (hidden_act)
relu squared.

Norms are LayerNorms. Layer 0 norms the embedding first (pre_norm), which
becomes the residual stream, unless norm_first is false.
"""

import numpy as np

from language_model import CausalLm
from layer import Layer
from pointwise import ACTIVATIONS, layer_norm, sigmoid, silu

DEFAULTS = {
    "num_heads": 4,
    "expand_k": 0.5,
    "expand_v": 1.0,
    "proj_low_rank_dim": 32,
    "gate_low_rank_dim": 64,
    "hidden_ratio": 3.5,
    "hidden_act": "sqrelu",
    "norm_first": True,
    "norm_bias": True,
    "norm_eps": 1e-5,
}


class Mixer(Layer):
    """Time mixing."""

    def __init__(self, model, n, prefix):
        super().__init__(model, prefix)
        self.H, self.K, self.V = sizes(self.config)
        self.S = np.zeros((self.H, self.K, self.V))
        self.before = np.zeros(self.config["hidden_size"])

    def mixed(self, x):
        """The inputs of r, w, k, v and g."""
        d, self.before = self.before - x, x
        p = self.project("x_proj.0.linear", x + d * self.tensor("x_proj.0.mu"))
        p = np.tanh(p).reshape(5, -1)
        X2 = self.tensor("x_proj.2.weight").reshape(len(x), 5, -1)
        bias = self.tensor("x_bias")
        return [x + d * (self.multiply(X2[:, i], p[i]) + bias[i]) for i in range(5)]

    def log_decay(self, x):
        """[H, K]"""
        w = np.tanh(self.project("w_proj.linear.lora.0", x))
        w = self.project("w_proj.linear.lora.2", w)
        return -np.exp(w).reshape(self.H, self.K)

    def step(self, x, position):
        H, K, V = self.H, self.K, self.V
        xr, xw, xk, xv, xg = self.mixed(x)
        r = self.project("r_proj.linear", xr).reshape(H, K)
        k = self.project("k_proj.linear", xk).reshape(H, K)
        v = self.project("v_proj.linear", xv).reshape(H, V)
        g = self.project("g_proj.linear", xg)
        w, u = self.log_decay(xw), self.tensor("bonus")
        out = np.zeros((H, V))
        for h in range(H):
            kv = np.outer(k[h], v[h])
            o = (self.S[h] + u[h][:, None] * kv).T @ r[h]
            self.S[h] = np.exp(w[h])[:, None] * self.S[h] + kv
            out[h] = layer_norm(o, None, None, self.config.norm_eps())
        out = out.reshape(-1) * self.tensor("g_norm.weight")
        return self.project("o_proj", (out + self.tensor("g_norm.bias")) * silu(g))


class ChannelMixing(Layer):
    def __init__(self, model, prefix):
        super().__init__(model, prefix)
        self.before = np.zeros(self.config["hidden_size"])

    def step(self, x):
        act = ACTIVATIONS[self.config["hidden_act"]]
        d, self.before = self.before - x, x
        key = self.project("key.linear", x + d * self.tensor("key.mu"))
        value = self.project("value", act(key))
        r = self.project("receptance.linear", x + d * self.tensor("receptance.mu"))
        return sigmoid(r) * value


class Block(Layer):
    """One layer of RWKV-6 or RWKV-7."""

    def __init__(self, model, n):
        super().__init__(model, "model.layers.%d." % n)
        self.pre = n == 0 and self.config["norm_first"]
        self.mixer = model.make_mixer(n, self.prefix)
        self.channels = model.family.ChannelMixing(model, self.prefix + "ffn.")

    def norm(self, name, h):
        weight, bias = self.tensor(name + ".weight"), self.tensor(name + ".bias")
        return layer_norm(h, weight, bias, self.config.norm_eps())

    def step(self, h, position):
        if self.pre:
            h = self.norm("pre_norm", h)
        h = h + self.mixer.step(self.norm("attn_norm", h), position)
        return h + self.channels.step(self.norm("ffn_norm", h))


class Model(CausalLm):
    """Of RWKV-6 or RWKV-7."""

    def make_block(self, n):
        return Block(self, n)

    def final_norm(self, h):
        weight = self.tensors["model.norm.weight"]
        bias = self.tensors.get("model.norm.bias")
        return layer_norm(h, weight, bias, self.config.norm_eps())


def sizes(config):
    """Heads, key width, value width."""
    D, H = config["hidden_size"], config["num_heads"]
    K, V = round(D * config["expand_k"]) // H, round(D * config["expand_v"]) // H
    return H, K, V


def norm(case, name):
    """The weight and, with norm_bias, the bias of a LayerNorm."""
    D = case.config["hidden_size"]
    case.vector(name + ".weight", D, 1.0, 0.3)
    if case.config["norm_bias"]:
        case.vector(name + ".bias", D, 0.0, 0.3)


def all_tensors(case):
    """Of RWKV-6 or RWKV-7."""
    case.embeddings("model.embeddings.weight")
    for n in range(case.config["num_hidden_layers"]):
        p = "model.layers.%d." % n
        if n == 0 and case.config["norm_first"]:
            norm(case, p + "pre_norm")
        norm(case, p + "attn_norm")
        case.mixer(n, p)
        norm(case, p + "ffn_norm")
        case.family.channel_tensors(case, p + "ffn.")
    norm(case, "model.norm")
    case.head("lm_head.weight")


def channel_width(config):
    derived = -(-int(config["hidden_size"] * config["hidden_ratio"]) // 32) * 32
    return config.get("intermediate_size", derived)


def channel_tensors(case, p):
    D, width = case.config["hidden_size"], channel_width(case.config)
    case.vector(p + "key.mu", D, 0.5, 0.5)
    case.matrix(p + "key.linear.weight", width, D)
    case.matrix(p + "value.weight", D, width)
    case.vector(p + "receptance.mu", D, 0.5, 0.5)
    case.matrix(p + "receptance.linear.weight", D, D)


def tensors(case, n, p):
    config, D = case.config, case.config["hidden_size"]
    H, K, V = sizes(config)
    R, W = config["proj_low_rank_dim"], config["gate_low_rank_dim"]
    case.matrix(p + "x_proj.0.linear.weight", 5 * R, D)
    case.vector(p + "x_proj.0.mu", D, 0.5, 0.5)
    # Each row serves five products of R inputs each.
    case.matrix(p + "x_proj.2.weight", D, 5 * R, 0.5 * 5**0.5)
    case.uniform(p + "x_bias", (5, D), 0.5, 0.5)
    for name, width in (("r", H * K), ("k", H * K), ("v", H * V), ("g", H * V)):
        case.matrix(p + name + "_proj.linear.weight", width, D)
    case.matrix(p + "w_proj.linear.lora.0.weight", W, D)
    case.matrix(p + "w_proj.linear.lora.2.weight", H * K, W)
    case.vector(p + "w_proj.linear.lora.2.bias", H * K, -2.0, 2.0)
    case.uniform(p + "bonus", (H, K), 0.5, 1.0)
    case.vector(p + "g_norm.weight", H * V, 1.0, 0.3)
    case.vector(p + "g_norm.bias", H * V, 0.0, 0.3)
    case.matrix(p + "o_proj.weight", D, H * V)


SMALL = {
    "num_heads": 2,
    "proj_low_rank_dim": 8,
    "gate_low_rank_dim": 8,
    "norm_eps": 1e-5,
}

CASES = {
    "rwkv6": ({**SMALL, "intermediate_size": None}, {}),
    "rwkv6-ranks": (
        {
            **SMALL,
            "num_heads": 4,
            "proj_low_rank_dim": 5,
            "gate_low_rank_dim": 7,
            "expand_k": 1.0,
            "expand_v": 0.75,
        },
        {},
    ),
    "rwkv6-no-pre-norm": (
        {**SMALL, "norm_first": False, "norm_bias": False, "norm_eps": 1e-3},
        {},
    ),
    "rwkv6-tied": ({**SMALL, "tie_word_embeddings": True, "hidden_ratio": 2}, {}),
    "rwkv6-hybrid": ({**SMALL, "attn": {"layers": [1], "num_heads": 2}}, {}),
}
