"""Gated DeltaNet: the delta rule with scalar decay.

Value head j uses query and key head j // (HV / H). Per value head:

    q = l2norm(q) K^-1/2,  k = l2norm(k)
    alpha = exp(-exp(A_log) softplus(a + dt_bias)),  beta = sigmoid(b)
    S <- alpha S;  u = beta (v - S^T k);  S <- S + k u^T;  o = S^T q

beta doubles with allow_neg_eigval. q, k and v are silu of a short convolution
or, without one, of the projection. Output: RMSNorm(o) per head, times silu of
a gate unless use_gate is false, or its sigmoid (output_gate_activation).
"""

import math

import numpy as np

from layer import Layer
from pointwise import ACTIVATIONS, l2_norm, rms_norm, sigmoid, silu, softplus

DEFAULTS = {
    "num_hidden_layers": 21,
    "num_heads": 6,
    "head_dim": 256,
    "expand_v": 2.0,
    "use_gate": True,
    "use_short_conv": True,
    "allow_neg_eigval": False,
    "output_gate_activation": "swish",
}


class Mixer(Layer):
    DECAY, NORM, OUT = "a_proj", "o_norm", "o_proj"

    def __init__(self, model, n, prefix):
        super().__init__(model, prefix)
        self.H, self.HV, self.K, self.V = self.sizes()
        self.S = np.zeros((self.HV, self.K, self.V))
        self.make_convolutions()

    def sizes(self):
        return sizes(self.config)

    def make_convolutions(self):
        self.convs = {}
        if self.config["use_short_conv"]:
            self.convs = {part: self.causal_conv(part + "_conv1d") for part in "qkv"}

    def part(self, name, x, heads, width):
        """q, k or v: projected, convolved, silu."""
        y = self.project(name + "_proj", x)
        y = self.convs[name].step(y) if self.convs else y
        return silu(y).reshape(heads, width)

    def parts(self, x):
        """q [H, K], k [H, K] and v [HV, V]."""
        q = self.part("q", x, self.H, self.K)
        k = self.part("k", x, self.H, self.K)
        return q, k, self.part("v", x, self.HV, self.V)

    def beta(self, x):
        beta = sigmoid(self.project("b_proj", x))
        return 2 * beta if self.config["allow_neg_eigval"] else beta

    def decay_input(self, x):
        return self.project(self.DECAY, x)

    def decay(self, x):
        """[HV, 1]: one number serves all key channels."""
        a = self.decay_input(x) + self.tensor("dt_bias")
        return np.exp(-np.exp(self.tensor("A_log")) * softplus(a))[:, None]

    def gate(self, x):
        """What multiplies the normed output, or None."""
        if not self.config["use_gate"]:
            return None
        act = ACTIVATIONS[self.config["output_gate_activation"]]
        return act(self.project("g_proj", x)).reshape(self.HV, self.V)

    def step(self, x, position):
        H, HV, K, V = self.H, self.HV, self.K, self.V
        q, k, v = self.parts(x)
        norm, eps = self.tensor(self.NORM + ".weight"), self.config.norm_eps()
        alpha, beta, gate = self.decay(x), self.beta(x), self.gate(x)
        out = np.zeros((HV, V))
        for j in range(HV):
            query = l2_norm(q[j // (HV // H)]) / math.sqrt(K)
            key = l2_norm(k[j // (HV // H)])
            S = alpha[j][:, None] * self.S[j]
            u = beta[j] * (v[j] - S.T @ key)
            self.S[j] = S + np.outer(key, u)
            o = self.S[j].T @ query
            out[j] = rms_norm(o, norm, eps)
            if gate is not None:
                out[j] *= gate[j]
        return self.project(self.OUT, out.reshape(-1))


def sizes(config):
    """Query heads, value heads, key width, value width."""
    H, K = config["num_heads"], config["head_dim"]
    return H, config.get("num_v_heads", H), K, int(K * config["expand_v"])


def gate_heads(case):
    """Heads that have a beta and a decay of their own."""
    H, HV, _, _ = sizes(case.config)
    return H if case.stored.get("shared") else HV


def common_tensors(case, p):
    """What this family and kda share."""
    D = case.config["hidden_size"]
    H, HV, K, V = sizes(case.config)
    channels = {"q": H * K, "k": H * K, "v": HV * V}
    for part, n in channels.items():
        case.matrix(p + part + "_proj.weight", n, D)
    if case.config["use_short_conv"]:
        for part, n in channels.items():
            case.taps(p + part + "_conv1d.weight", n, case.config.get("conv_size", 4))
    case.matrix(p + "b_proj.weight", gate_heads(case), D)
    case.vector(p + "A_log", gate_heads(case), -0.5, 1.0)
    case.vector(p + "o_norm.weight", V, 1.0, 0.3)
    case.matrix(p + "o_proj.weight", D, HV * V)


def tensors(case, n, p):
    D = case.config["hidden_size"]
    H, HV, K, V = sizes(case.config)
    common_tensors(case, p)
    case.matrix(p + "a_proj.weight", HV, D)
    case.vector(p + "dt_bias", HV, -1.0, 1.0)
    if case.config["use_gate"]:
        case.matrix(p + "g_proj.weight", HV * V, D)


SMALL = {"num_heads": 2, "head_dim": 8}

CASES = {
    "gated_deltanet-value-heads": (
        {**SMALL, "num_v_heads": 4, "expand_v": 1.5, "conv_size": 3},
        {},
    ),
    "gated_deltanet-no-gate": ({**SMALL, "use_gate": False, "norm_eps": 1e-4}, {}),
    "gated_deltanet-no-conv": ({**SMALL, "use_short_conv": False}, {}),
    "gated_deltanet-negative": ({**SMALL, "allow_neg_eigval": True}, {}),
    "gated_deltanet-sigmoid-gate": (
        {**SMALL, "output_gate_activation": "sigmoid"},
        {},
    ),
    "gated_deltanet-hybrid": (
        {**SMALL, "attn": {"layers": [1], "num_heads": 4, "window_size": 9}},
        {},
    ),
}
