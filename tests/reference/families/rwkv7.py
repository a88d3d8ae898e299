"""RWKV-7. Time mixing, with d = x_before - x and X_c = x + d x_c:

    r = R X_r,  k = K X_k,  v = V X_v
    w = -e^(-1/2) sigmoid(W2 tanh(W1 X_w) + b)         log decay
    a = sigmoid(A2 A1 X_a + b),  g = G2 sigmoid(G1 X_g)
    v <- v + (v_0 - v) sigmoid(V2 V1 X_v + b)          v_0: v of layer 0, which
                                                       does not do this
    kappa = l2norm(k k_k),  k <- k (1 + (a - 1) k_a)   kappa: from the raw k
    S <- diag(e^w) S - (kappa a)(kappa^T S) + k v^T    per head; the old S twice
    o = LayerNorm(S^T r) weight + bias                 eps = head_dim norm_eps
    out = O ((o + (sum_c r_c k_c r_k_c) v) g)

kappa's norm is fla's (eps under the root) or, with fuse_norm false, the plain
one. Channel mixing: V act(K (x + d x_k)), act (hidden_act) relu squared. The
frame is that of RWKV-6.
"""

import math

import numpy as np

from families import rwkv6
from layer import Layer
from pointwise import ACTIVATIONS, l2_norm, layer_norm, sigmoid

Model, all_tensors = rwkv6.Model, rwkv6.all_tensors

DEFAULTS = {
    "head_dim": 64,
    "hidden_ratio": 4,
    "hidden_act": "sqrelu",
    "norm_first": True,
    "norm_bias": True,
    "norm_eps": 1e-5,
    "fuse_norm": True,
}


class Mixer(Layer):
    """Time mixing."""

    def __init__(self, model, n, prefix):
        super().__init__(model, prefix)
        self.model, self.n = model, n
        self.H, self.K = self.tensor("r_k").shape
        self.V = len(self.tensor("v_proj.weight")) // self.H
        self.S = np.zeros((self.H, self.K, self.V))
        self.before = np.zeros(self.config["hidden_size"])

    def mixed(self, x):
        """The inputs of r, w, k, v, a and g."""
        d, self.before = self.before - x, x
        shares = self.tensor("x_x")  # the first releases stacked them
        if shares is None:
            shares = [self.tensor("x_" + c).reshape(-1) for c in "rwkvag"]
        return [x + d * share for share in shares]

    def low_rank(self, name, x, activation=None):
        hidden = self.project(name + "_lora.lora.0", x)
        hidden = activation(hidden) if activation else hidden
        return self.project(name + "_lora.lora.2", hidden)

    def value(self, x):
        """v with that of layer 0 mixed in."""
        v = self.project("v_proj", x)
        if self.n == 0:
            self.model.first_value = v
            return v
        return v + (self.model.first_value - v) * sigmoid(self.low_rank("v", x))

    def kappa(self, k):
        """Of one head."""
        if self.config["fuse_norm"]:
            return l2_norm(k)
        return k / max(math.sqrt(k @ k), 1e-12)

    def read_out(self, h, r, k, v):
        """Of one head, before the gate."""
        weight = self.tensor("g_norm.weight").reshape(self.H, self.V)
        bias = self.tensor("g_norm.bias").reshape(self.H, self.V)
        eps = self.K * self.config.norm_eps()
        o = layer_norm(self.S[h].T @ r, weight[h], bias[h], eps)
        return o + np.sum(r * k * self.tensor("r_k")[h]) * v

    def step(self, x, position):
        H, K, V = self.H, self.K, self.V
        xr, xw, xk, xv, xa, xg = self.mixed(x)
        r = self.project("r_proj", xr)
        k = self.project("k_proj", xk)
        v = self.value(xv).reshape(H, V)
        w = -math.exp(-0.5) * sigmoid(self.low_rank("w", xw, np.tanh))
        a = sigmoid(self.low_rank("a", xa))
        g = self.low_rank("g", xg, sigmoid)
        raw = (k * self.tensor("k_k")).reshape(H, K)
        k = k * (1 + (a - 1) * self.tensor("k_a"))
        r, k, w, a = (y.reshape(H, K) for y in (r, k, w, a))
        out = np.zeros((H, V))
        for h in range(H):
            kappa = self.kappa(raw[h])
            removed = np.outer(kappa * a[h], kappa @ self.S[h])
            self.S[h] = np.exp(w[h])[:, None] * self.S[h] - removed
            self.S[h] += np.outer(k[h], v[h])
            out[h] = self.read_out(h, r[h], k[h], v[h])
        return self.project("o_proj", out.reshape(-1) * g)


class ChannelMixing(Layer):
    def __init__(self, model, prefix):
        super().__init__(model, prefix)
        self.before = np.zeros(self.config["hidden_size"])

    def step(self, x):
        act = ACTIVATIONS[self.config["hidden_act"]]
        d, self.before = self.before - x, x
        key = self.project("key", x + d * self.tensor("x_k"))
        return self.project("value", act(key))


def channel_tensors(case, p):
    D, width = case.config["hidden_size"], rwkv6.channel_width(case.config)
    case.vector(p + "x_k", D, 0.5, 0.5)
    case.matrix(p + "key.weight", width, D)
    case.matrix(p + "value.weight", D, width)


def low_rank(case, p, rows, rank, columns, center=None):
    """center: of the bias, if there is one."""
    case.matrix(p + "_lora.lora.0.weight", rank, columns)
    case.matrix(p + "_lora.lora.2.weight", rows, rank)
    if center is not None:
        case.vector(p + "_lora.lora.2.bias", rows, center, 1.0)


def value_width(config, n):
    width = config.get("value_dim", config["hidden_size"])
    return width[n] if isinstance(width, list) else width


def tensors(case, n, p):
    """Ranks are in the config of a case, though only shapes count."""
    config, D = case.config, case.config["hidden_size"]
    H, Dv = D // config["head_dim"], value_width(config, n)
    if case.stored.get("stacked"):
        case.uniform(p + "x_x", (6, D), 0.5, 0.5)
    else:
        for c in "rwkvag":
            case.uniform(p + "x_" + c, (1, 1, D), 0.5, 0.5)
    case.vector(p + "k_k", D, 0.7, 0.5)
    case.vector(p + "k_a", D, 0.7, 0.5)
    case.uniform(p + "r_k", (H, D // H), 0.0, 0.5)
    for name, rows in (("r", D), ("k", D), ("v", Dv)):
        case.matrix(p + name + "_proj.weight", rows, D)
    low_rank(case, p + "w", D, config["decay_low_rank_dim"], D, -1.0)
    low_rank(case, p + "a", D, config["a_low_rank_dim"], D, 0.0)
    if n > 0:
        low_rank(case, p + "v", Dv, config["v_low_rank_dim"], D, 0.0)
    low_rank(case, p + "g", Dv, config["gate_low_rank_dim"], D)
    case.vector(p + "g_norm.weight", Dv, 1.0, 0.3)
    case.vector(p + "g_norm.bias", Dv, 0.0, 0.3)
    case.matrix(p + "o_proj.weight", D, Dv)


SMALL = {
    "head_dim": 16,
    "decay_low_rank_dim": 8,
    "gate_low_rank_dim": 8,
    "a_low_rank_dim": 4,
    "v_low_rank_dim": 4,
    "norm_eps": 1e-5,
}

CASES = {
    "rwkv7": ({**SMALL, "intermediate_size": None}, {}),
    "rwkv7-stacked": (
        {**SMALL, "num_hidden_layers": 3, "value_dim": [32, 32, 32]},
        {"stacked": True},
    ),
    "rwkv7-plain-norm": (
        {**SMALL, "fuse_norm": False, "norm_eps": 1e-3, "norm_bias": False},
        {},
    ),
    "rwkv7-ranks": (
        {
            **SMALL,
            "head_dim": 8,
            "decay_low_rank_dim": 5,
            "gate_low_rank_dim": 7,
            "a_low_rank_dim": 3,
            "v_low_rank_dim": 2,
            "norm_first": False,
        },
        {},
    ),
    "rwkv7-value-widths": ({**SMALL, "value_dim": [64, 64]}, {}),
}
