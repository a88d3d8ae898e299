"""Kimi delta attention: the delta rule with a decay per key channel.

As Gated DeltaNet, but for

    f = f_proj.1(f_proj.0 x) + dt_bias                 [HV, K]
    log alpha = -exp(A_log) softplus(f), or with lower_bound (below 0)
    log alpha = lower_bound sigmoid(exp(A_log) f)
    S <- diag(alpha) S, then as there

and the output RMSNorm(o) sigmoid(g_proj.1(g_proj.0 x)), per head. Stored
"shared", b_proj, f_proj.1, A_log and dt_bias are those of key heads, which all
value heads of a key head have in common: fla 0.4.1 and 0.4.2.
"""

import numpy as np

from families import gated_deltanet
from pointwise import sigmoid, softplus

DEFAULTS = {
    "num_heads": 16,
    "head_dim": 128,
    "expand_v": 1.0,
    "use_short_conv": True,
    "allow_neg_eigval": False,
}


class Mixer(gated_deltanet.Mixer):
    DECAY_PARTS, GATE_PARTS = ("f_proj.0", "f_proj.1"), ("g_proj.0", "g_proj.1")

    def chain(self, names, x):
        """Of several matrices, one after the other."""
        for name in names:
            x = self.project(name, x)
        return x

    def per_value_head(self, x):
        """[HV, ...] of what is stored per value head or per key head."""
        return np.repeat(x, self.HV // len(x), axis=0)

    def beta(self, x):
        return self.per_value_head(super().beta(x))

    def decay(self, x):
        """[HV, K]"""
        f = self.chain(self.DECAY_PARTS, x)
        f = (f + self.tensor("dt_bias")).reshape(-1, self.K)
        f = self.per_value_head(f)
        rate = self.per_value_head(np.exp(self.tensor("A_log")).reshape(-1, 1))
        bound = self.lower_bound()
        if bound is not None:
            return np.exp(bound * sigmoid(rate * f))
        return np.exp(-rate * softplus(f))

    def lower_bound(self):
        """Of log decays, or None."""
        return self.config.get("lower_bound")

    def gate(self, x):
        g = self.chain(self.GATE_PARTS, x)
        return sigmoid(g).reshape(self.HV, self.V)


def tensors(case, n, p):
    D = case.config["hidden_size"]
    H, HV, K, V = gated_deltanet.sizes(case.config)
    channels = gated_deltanet.gate_heads(case) * K
    gated_deltanet.common_tensors(case, p)
    case.matrix(p + "f_proj.0.weight", V, D)
    case.matrix(p + "f_proj.1.weight", channels, V)
    bounded = case.config.get("lower_bound") is not None
    case.vector(p + "dt_bias", channels, -3.0 if bounded else -1.0, 1.0)
    case.matrix(p + "g_proj.0.weight", V, D)
    case.matrix(p + "g_proj.1.weight", HV * V, V)
    case.vector(p + "g_proj.1.bias", HV * V, 0.0, 1.0)


SMALL = {"num_heads": 2, "head_dim": 8}

CASES = {
    "kda": ({**SMALL}, {"dtype": "F32"}),
    "kda-lower-bound": ({**SMALL, "safe_gate": True, "lower_bound": -5.0}, {}),
    "kda-negative": ({**SMALL, "allow_neg_eigval": True}, {}),
    "kda-value-heads": ({**SMALL, "num_v_heads": 4, "expand_v": 1.5}, {}),
    "kda-shared-gates": (
        {**SMALL, "num_v_heads": 4, "allow_neg_eigval": True},
        {"shared": True},
    ),
    "kda-no-conv": ({**SMALL, "use_short_conv": False, "norm_eps": 1e-4}, {}),
    "kda-hybrid": ({**SMALL, "attn": {"layers": [0], "num_heads": 2}}, {}),
}
