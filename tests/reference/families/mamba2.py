"""Mamba-2. Per head h, with B and C of group h // (H / G):

    z, x, B, C, dt = in_proj u;  [x, B, C] <- silu(conv([x, B, C]))
    dt = clamp(softplus(dt + dt_bias), limit),  A = -exp(A_log)
    S <- exp(dt A) S + dt x B^T;  y = S C + D x        S: [P, N]
    out = out_proj(RMSNorm(y silu(z)))

The norm is over each group of channels by itself (what such checkpoints were
trained with), with "norm_scope": "full" over all; without it over all in files
of transformers before 5.23. fla's configurations know
more: norm_before_gate (RMSNorm(y) silu(z)), rmsnorm false (y silu(z), no
norm), D_has_hdim (D per channel). Transformers' may say norm_before_gate, too;
there it changes nothing.
"""

import numpy as np

from families import mamba
from layer import Layer, written_before
from pointwise import rms_norm, silu, softplus

Model, all_tensors = mamba.Model, mamba.all_tensors

DEFAULTS = {
    "head_dim": 64,
    "state_size": 128,
    "expand": 2,
    "conv_kernel": 4,
    "use_bias": False,
    "use_conv_bias": True,
    "rmsnorm": True,
    "norm_before_gate": False,
    "D_has_hdim": False,
    "norm_eps": 1e-5,
}

# Keys of fla's configurations alone.
FLA_KEYS = ("norm_eps", "rmsnorm", "D_has_hdim", "dt_limit")


def is_fla(config):
    return any(key in config.values for key in FLA_KEYS)


def groups(config):
    return config.get("n_groups", 1 if is_fla(config) else 8)


def time_limit(config):
    """Bounds of dt. Infinity has two spellings in config.json."""
    key = "dt_limit" if is_fla(config) else "time_step_limit"
    bounds = config.get(key, [0.0, np.inf])
    return [float(x["__float__"] if isinstance(x, dict) else x) for x in bounds]


def sizes(config):
    """Channels, heads, head width, state width, groups."""
    E, P = int(config["expand"] * config["hidden_size"]), config["head_dim"]
    return E, E // P, P, config["state_size"], groups(config)


class Mixer(Layer):
    def __init__(self, model, n, prefix):
        super().__init__(model, prefix)
        self.E, self.H, self.P, self.N, self.G = sizes(self.config)
        self.conv = self.causal_conv("conv1d")
        self.S = np.zeros((self.H, self.P, self.N))

    def norm(self, y):
        config = self.config
        old = written_before(config, [5, 23, 0], False) and not is_fla(config)
        scope = config.get("norm_scope", "full" if old else "group")
        G = 1 if scope == "full" else self.G
        parts = [rms_norm(part, None, config.norm_eps()) for part in np.split(y, G)]
        return np.concatenate(parts) * self.tensor("norm.weight")

    def gated(self, y, z):
        config = self.config
        if not config["rmsnorm"]:
            return y * silu(z)
        if config["norm_before_gate"] and is_fla(config):
            return self.norm(y) * silu(z)
        return self.norm(y * silu(z))

    def step(self, u, position):
        E, H, P, N, G = self.E, self.H, self.P, self.N, self.G
        z, xBC, dt = np.split(self.project("in_proj", u), [E, 2 * E + 2 * G * N])
        x, B, C = np.split(silu(self.conv.step(xBC)), [E, E + G * N])
        x, B, C = x.reshape(H, P), B.reshape(G, N), C.reshape(G, N)
        low, high = time_limit(self.config)
        dt = np.clip(softplus(dt + self.tensor("dt_bias")), low, high)
        A = -np.exp(self.tensor("A_log"))
        D = self.tensor("D").reshape(H, -1)  # [H, 1] or, fla, [H, P]
        y = np.zeros((H, P))
        for h in range(H):
            j = h // (H // G)
            self.S[h] = np.exp(dt[h] * A[h]) * self.S[h]
            self.S[h] += dt[h] * np.outer(x[h], B[j])
            y[h] = self.S[h] @ C[j] + D[h] * x[h]
        return self.project("out_proj", self.gated(y.reshape(-1), z))


def tensors(case, n, p):
    config, D = case.config, case.config["hidden_size"]
    E, H, P, N, G = sizes(config)
    channels = E + 2 * G * N
    mamba.linear(case, p, "in_proj", E + channels + H, D)
    mamba.convolution(case, p, channels)
    case.vector(p + "dt_bias", H, -1.0, 1.0)
    case.vector(p + "A_log", H, 0.0, 1.5)
    case.vector(p + "D", E if config["D_has_hdim"] else H, 1.0, 0.5)
    if config["rmsnorm"]:
        case.vector(p + "norm.weight", E, 1.0, 0.3)
    mamba.linear(case, p, "out_proj", D, E)


SMALL = {
    **mamba.BARE,
    "head_dim": 16,
    "num_heads": 4,
    "state_size": 8,
    "n_groups": 1,
    "layer_norm_epsilon": 1e-5,
}
# fla writes no num_heads and other defaults.
FLA = {**mamba.BARE, "norm_eps": 1e-5, "head_dim": 16, "state_size": 8}

CASES = {
    "mamba2-groups": (
        {**SMALL, "n_groups": 2, "time_step_limit": [0.0, {"__float__": "Infinity"}]},
        {},
    ),
    "mamba2-groups-full-norm": (
        {**SMALL, "n_groups": 2, "norm_scope": "full", "conv_kernel": 3},
        {},
    ),
    "mamba2-groups-old-norm": (
        {**SMALL, "n_groups": 2, "transformers_version": "4.57.6"},
        {},
    ),
    "mamba2-clamp": ({**SMALL, "time_step_limit": [0.2, 0.6]}, {}),
    "mamba2-tied": (
        {
            **SMALL,
            "expand": 1,
            "num_heads": 2,
            "tie_word_embeddings": True,
            "norm_before_gate": True,
            "time_step_limit": [0.0, float("inf")],
        },
        {},
    ),
    "mamba2-bias": ({**SMALL, "use_bias": True}, {}),
    "mamba2-no-conv-bias": ({**SMALL, "use_conv_bias": False}, {}),
    "mamba2-fla": (
        {**FLA, "D_has_hdim": True, "dt_limit": [0.0, float("inf")]},
        {},
    ),
    "mamba2-fla-norm-before-gate": (
        {**FLA, "n_groups": 2, "norm_before_gate": True, "norm_eps": 1e-3},
        {},
    ),
    "mamba2-fla-no-norm": ({**FLA, "rmsnorm": False, "dt_limit": [0.2, 0.6]}, {}),
}
