"""DeltaNet: the delta rule without decay. Per head:

    q = norm(act(q)) K^-1/2,  k = norm(act(k)),  beta = sigmoid(b_proj x)
    u = beta (v - S^T k);  S <- S + k u^T;  o = S^T q

act (qk_activation): silu, relu, elu + 1 or identity, after the convolution
where there is one; v is always silu. norm (qk_norm): "l2", or "sum" (divide
by the sum; of magnitudes, as fla since 0.6). beta is 1 without use_beta and doubles with allow_neg_eigval.
Output: RMSNorm(o) per head, times silu of a gate if use_gate.
"""

import math

import numpy as np

from layer import Layer, is_before_fla_06
from pointwise import elu_plus_one, l2_norm, relu, rms_norm, sigmoid, silu

DEFAULTS = {
    "num_heads": 16,
    "expand_k": 1.0,
    "expand_v": 1.0,
    "use_beta": True,
    "use_gate": False,
    "use_short_conv": True,
    "allow_neg_eigval": False,
    "qk_activation": "silu",
    "qk_norm": "l2",
}

QK_ACTIVATIONS = {
    "silu": silu,
    "relu": relu,
    "elu": elu_plus_one,
    "identity": lambda x: x,
}



def qk_norm(config):
    if config["qk_norm"] == "l2":
        return l2_norm
    if is_before_fla_06(config):
        return lambda x: x / np.sum(x)
    return lambda x: x / np.sum(np.abs(x))


class Mixer(Layer):
    def __init__(self, model, n, prefix):
        super().__init__(model, prefix)
        self.H, self.K, self.V = sizes(self.config)
        self.S = np.zeros((self.H, self.K, self.V))
        self.convs = {}
        if self.config["use_short_conv"]:
            self.convs = {part: self.causal_conv(part + "_conv1d") for part in "qkv"}

    def part(self, name, x, act, width):
        """q, k or v: projected, convolved, activated."""
        y = self.project(name + "_proj", x)
        y = self.convs[name].step(y) if self.convs else y
        return act(y).reshape(self.H, width)

    def beta(self, x):
        beta = np.ones(self.H)
        if self.config["use_beta"]:
            beta = sigmoid(self.project("b_proj", x))
        return 2 * beta if self.config["allow_neg_eigval"] else beta

    def step(self, x, position):
        config, H, K, V = self.config, self.H, self.K, self.V
        act = QK_ACTIVATIONS[config["qk_activation"]]
        norm = qk_norm(config)
        q = self.part("q", x, act, K)
        k = self.part("k", x, act, K)
        v = self.part("v", x, silu, V)
        beta = self.beta(x)
        gated = config["use_gate"]
        gate = self.project("g_proj", x).reshape(H, V) if gated else None
        out = np.zeros((H, V))
        for h in range(H):
            query, key = norm(q[h]) / math.sqrt(K), norm(k[h])
            u = beta[h] * (v[h] - self.S[h].T @ key)
            self.S[h] += np.outer(key, u)
            o = self.S[h].T @ query
            out[h] = rms_norm(o, self.tensor("o_norm.weight"), config.norm_eps())
            if gated:
                out[h] *= silu(gate[h])
        return self.project("o_proj", out.reshape(-1))


def sizes(config):
    """Heads, key width, value width."""
    D, H = config["hidden_size"], config["num_heads"]
    K, V = round(D * config["expand_k"]) // H, round(D * config["expand_v"]) // H
    return H, K, V


def tensors(case, n, p):
    config, D = case.config, case.config["hidden_size"]
    H, K, V = sizes(config)
    channels = {"q": H * K, "k": H * K, "v": H * V}
    for part, width in channels.items():
        case.matrix(p + part + "_proj.weight", width, D)
    if config["use_short_conv"]:
        for part, width in channels.items():
            case.taps(p + part + "_conv1d.weight", width, config.get("conv_size", 4))
    if config["use_beta"]:
        case.matrix(p + "b_proj.weight", H, D)
    if config["use_gate"]:
        case.matrix(p + "g_proj.weight", H * V, D)
    case.vector(p + "o_norm.weight", V, 1.0, 0.3)
    case.matrix(p + "o_proj.weight", D, H * V)


SMALL = {"num_heads": 2, "expand_k": 0.5}

CASES = {
    "delta_net": ({"num_heads": 4}, {"dtype": "F32"}),
    "delta_net-no-beta": ({**SMALL, "use_beta": False}, {}),
    "delta_net-elu-sum": (
        {**SMALL, "qk_activation": "elu", "qk_norm": "sum", "norm_eps": 1e-4},
        {},
    ),
    "delta_net-sum-magnitudes": (
        {**SMALL, "qk_norm": "sum", "transformers_version": "5.23.0"},
        {},
    ),
    "delta_net-relu": (
        {"num_heads": 2, "qk_activation": "relu", "expand_v": 0.75, "conv_size": 3},
        {},
    ),
    "delta_net-identity": ({**SMALL, "qk_activation": "identity"}, {}),
    "delta_net-gate": ({**SMALL, "use_gate": True}, {}),
    "delta_net-no-conv": ({**SMALL, "use_short_conv": False}, {}),
    "delta_net-no-conv-identity": (
        {**SMALL, "use_short_conv": False, "qk_activation": "identity"},
        {},
    ),
    "delta_net-negative": ({**SMALL, "allow_neg_eigval": True}, {}),
    # 25 times 1.16 is a little less than 29.
    "delta_net-rounded-heads": (
        {"hidden_size": 25, "num_heads": 1, "expand_k": 1.16, "expand_v": 1.16},
        {},
    ),
    "delta_net-hybrid": (
        {**SMALL, "attn": {"layers": [1], "num_heads": 4, "num_kv_heads": 2}},
        {},
    ),
}
