"""The general form: S = G o S + k v^T, o = S^T (c q), G by config `decay`.

Nothing is optimised: G is a K x V matrix per head, whatever its kind.
"""

import math

import numpy as np

from layer import Config, Layer
from pointwise import (
    elu_plus_one,
    log_sigmoid,
    relu,
    rms_norm,
    rotate_half,
    rotate_interleaved,
    sigmoid,
    silu,
    softmax,
    softplus,
)

DEFAULTS = {
    "feature_map": "identity",
    "q_scale": "rsqrt_k",
    "rotary": "none",
    "rope_theta": 10000.0,
    "conv_size": 0,
    "decay": {},
    "input": "plain",
    "normalizer": "none",
    "normalizer_eps": 1e-6,
    "output_norm": "none",
    "output_gate": "none",
}

DECAY_DEFAULTS = {"kind": "none", "activation": "sigmoid", "temperature": 1.0}

FEATURE_MAPS = {
    "identity": lambda x: x,
    "elu": elu_plus_one,
    "relu": relu,
    "softmax": softmax,
}

ROTARIES = {
    "none": lambda x, position, theta: x,
    "half": rotate_half,
    "interleaved": rotate_interleaved,
}

GATES = {"sigmoid": sigmoid, "swish": silu}


def constant_decays(values, H, layer, layers):
    """[H] numbers for the names and for lists."""
    heads = np.arange(H)
    if values == "retnet":
        return 1 - 2.0 ** (-5 - heads)
    if values == "lightning_fla":  # linear in the head
        return np.exp(-(8 / H) * (1 - layer / layers) * heads)
    if values == "lightning_minimax":  # geometric in the head
        slope = 2.0 ** (-8 * (heads + 1) / H)
        return np.exp(-slope * (1 - layer / (layers - 1 + 1e-5) + 1e-5))
    return np.array(values, np.float64)


class Decay(Layer):
    """matrices(x) -> G [H, K, V] of one token, complex for key_complex."""

    def __init__(self, model, n, prefix, H, K, V):
        super().__init__(model, prefix)
        self.options = Config(self.config["decay"], DECAY_DEFAULTS)
        self.shape = (H, K, V)
        self.layer = n
        self.matrices = getattr(self, self.options["kind"])

    def activated(self, y):
        """The decays that the pre-activations y [H] or [H, n] stand for."""
        name = self.options["activation"]
        if name == "sigmoid":
            return np.exp(log_sigmoid(y) / self.options["temperature"])
        if name == "exp_softplus":
            return np.exp(-softplus(y) * np.exp(self.tensor("decay_a")))
        assert name == "exp_exp", name
        return np.exp(-np.exp(y))

    def key_projection(self, x):
        """[H, K] before the activation; of full or of low rank."""
        if self.tensor("decay_k_proj.weight") is not None:
            y = self.project("decay_k_proj", x)
        else:
            y = self.project("decay_k_proj.1", self.project("decay_k_proj.0", x))
        return y.reshape(self.shape[:2])

    def value_projection(self, x):
        """[H, V] before the activation."""
        H, _, V = self.shape
        return self.project("decay_v_proj", x).reshape(H, V)

    def filled(self, g):
        """[H], [H, K, 1] or [H, 1, V] to [H, K, V]."""
        g = g.reshape(-1, 1, 1) if g.ndim == 1 else g
        return g * np.ones(self.shape)

    def none(self, x):
        return np.ones(self.shape)

    def constant(self, x):
        layers = self.config["num_hidden_layers"]
        values = self.options["values"]
        return self.filled(constant_decays(values, self.shape[0], self.layer, layers))

    def scalar(self, x):
        return self.filled(self.activated(self.project("decay_proj", x)))

    def key(self, x):
        return self.filled(self.activated(self.key_projection(x))[:, :, None])

    def value(self, x):
        return self.filled(self.activated(self.value_projection(x))[:, None, :])

    def outer(self, x):
        return self.key(x) * self.value(x)

    def full(self, x):
        """Mamba's: exp(-a_v exp(A))."""
        a = softplus(self.value_projection(x))
        return np.exp(-a[:, None, :] * np.exp(self.tensor("A_log")))

    def key_complex(self, x):
        phase = self.project("decay_phase_proj", x).reshape(self.shape[:2])
        return self.key(x) * np.exp(1j * phase)[:, :, None]


class Mixer(Layer):
    def __init__(self, model, n, prefix):
        super().__init__(model, prefix)
        config = self.config
        self.H = config["num_heads"]
        self.K, self.V = config["head_k_dim"], config["head_v_dim"]
        self.decay = Decay(model, n, prefix, self.H, self.K, self.V)
        self.S = np.zeros((self.H, self.K, self.V))
        self.Z = np.zeros((self.H, self.K))
        self.complement = config["input"] == "complement"
        self.c = config["q_scale"]
        if self.c == "rsqrt_k":
            self.c = 1 / math.sqrt(self.K)
        parts = "qv" if self.complement else "qkv"
        self.convs = {}
        if config["conv_size"]:
            self.convs = {part: self.causal_conv(part + "_conv1d") for part in parts}

    def convolved(self, part, x, width):
        """[H, width]: projected, then silu of the convolution."""
        y = self.project(part + "_proj", x)
        if self.convs:
            y = silu(self.convs[part].step(y))
        return y.reshape(self.H, width)

    def features(self, part, x, position):
        """q or k [H, K]: rotary, then the feature map, head by head."""
        rotate = ROTARIES[self.config["rotary"]]
        phi = FEATURE_MAPS[self.config["feature_map"]]
        theta = self.config["rope_theta"]
        heads = self.convolved(part, x, self.K)
        return np.stack([phi(rotate(head, position, theta)) for head in heads])

    def step(self, x, position):
        self.absorb(x, position)
        return self.read(x, position)

    def order_matters(self):
        return self.config["conv_size"] > 0 or self.decay.options["kind"] != "none"

    def absorb(self, x, position):
        G = self.decay.matrices(x)
        k = 1 - G[:, :, 0] if self.complement else self.features("k", x, position)
        v = self.convolved("v", x, self.V)
        S = []
        for h in range(self.H):
            S.append(G[h] * self.S[h] + np.outer(k[h], v[h]))
            if self.config["normalizer"] == "z":
                self.Z[h] = G[h, :, 0] * self.Z[h] + k[h]
        self.S = np.stack(S)

    def read(self, x, position):
        config = self.config
        q = self.c * self.features("q", x, position)
        out = np.zeros((self.H, self.V))
        for h in range(self.H):
            out[h] = (self.S[h].T @ q[h]).real
            if config["normalizer"] == "z":
                out[h] /= q[h] @ self.Z[h] + config["normalizer_eps"]
            if config["output_norm"] == "rmsnorm":
                out[h] = rms_norm(out[h], self.tensor("norm.weight"), config.norm_eps())
        if config["output_gate"] != "none":
            act = GATES[config["output_gate"]]
            out *= act(self.project("g_proj", x)).reshape(self.H, self.V)
        return self.project("o_proj", out.reshape(-1))


# --- cases --------------------------------------------------------------------


def decay_tensors(case, p, H, K, V):
    """Random tensors of the decay. Stored options: "rank" of a low-rank one,
    "bias" (center, width) of the biases."""
    D = case.config["hidden_size"]
    options = Config(case.config["decay"], DECAY_DEFAULTS)
    kind = options["kind"]
    # Half-lives of some tokens, whatever the activation.
    center = {"sigmoid": 3.0, "exp_softplus": -2.0, "exp_exp": -2.0}
    center = center[options["activation"]] / max(options["temperature"] - 1, 1)
    center, width = case.stored.get("bias", (center, 1.5))
    if kind == "scalar":
        case.matrix(p + "decay_proj.weight", H, D)
        case.vector(p + "decay_proj.bias", H, center, width)
        if options["activation"] == "exp_softplus":
            case.vector(p + "decay_a", H, 0.0, 1.0)
    if kind in ("key", "outer", "key_complex"):
        rank, name = case.stored.get("rank"), "decay_k_proj"
        if rank:
            case.matrix(p + name + ".0.weight", rank, D)
            case.matrix(p + name + ".1.weight", H * K, rank)
            case.vector(p + name + ".1.bias", H * K, center, width)
        else:
            case.matrix(p + name + ".weight", H * K, D)
            case.vector(p + name + ".bias", H * K, center, width)
    if kind in ("value", "outer", "full"):
        if kind == "full" and "bias" not in case.stored:
            center = -2.0
        case.matrix(p + "decay_v_proj.weight", H * V, D)
        case.vector(p + "decay_v_proj.bias", H * V, center, width)
    if kind == "full":
        case.uniform(p + "A_log", (H, K, V), 0.0, 1.0)
    if kind == "key_complex":
        case.matrix(p + "decay_phase_proj.weight", H * K, D)
        case.vector(p + "decay_phase_proj.bias", H * K, 0.0, 3.0)


def tensors(case, n, p):
    config, D = case.config, case.config["hidden_size"]
    H, K, V = config["num_heads"], config["head_k_dim"], config["head_v_dim"]
    channels = {"q": H * K, "k": H * K, "v": H * V}
    if config["input"] == "complement":
        del channels["k"]
    for part, rows in channels.items():
        case.matrix(p + part + "_proj.weight", rows, D)
    decay_tensors(case, p, H, K, V)
    if config["conv_size"]:
        for part, rows in channels.items():
            case.taps(p + part + "_conv1d.weight", rows, config["conv_size"])
    if config["output_norm"] == "rmsnorm":
        case.vector(p + "norm.weight", V, 1.0, 0.3)
    if config["output_gate"] != "none":
        case.matrix(p + "g_proj.weight", H * V, D)
    case.matrix(p + "o_proj.weight", D, H * V)


def general(decay, change=None, stored=None):
    """decay: the kind or the whole object."""
    decay = {"kind": decay} if isinstance(decay, str) else decay
    values = {"num_heads": 2, "head_k_dim": 8, "head_v_dim": 12}
    return {**values, "decay": decay, **(change or {})}, stored or {}


CASES = {
    # No decay: all defaults, `decay` itself among them.
    "linear_recurrence": (
        {"num_heads": 2, "head_k_dim": 8, "head_v_dim": 16},
        {},
    ),
    "linear_recurrence-katharopoulos": general(
        "none", {"feature_map": "elu", "normalizer": "z", "q_scale": 1}
    ),
    "linear_recurrence-relu-conv-rotary": general(
        "none",
        {
            "feature_map": "relu",
            "conv_size": 4,
            "rotary": "half",
            "rope_theta": 100.0,
            "output_norm": "rmsnorm",
            "output_gate": "swish",
            "q_scale": 0.7,
        },
    ),
    # With a bidirectional pass in which positions show.
    "linear_recurrence-rotary": general(
        "none", {"rotary": "half", "rope_theta": 100.0, "output_norm": "rmsnorm"}
    ),
    "linear_recurrence-softmax-z": general(
        "none",
        {"feature_map": "softmax", "normalizer": "z", "normalizer_eps": 0.125},
    ),
    "linear_recurrence-constant": general(
        {"kind": "constant", "values": [0.5, 1.0, 0.9]},
        {"num_heads": 3, "head_k_dim": 5, "head_v_dim": 7, "output_norm": "rmsnorm"},
    ),
    "linear_recurrence-constant-z": general(
        {"kind": "constant", "values": [0.75, 0.875]},
        {"feature_map": "elu", "normalizer": "z"},
    ),
    "linear_recurrence-retnet": general(
        {"kind": "constant", "values": "retnet"}, {"num_heads": 4, "q_scale": 1}
    ),
    "linear_recurrence-lightning_fla": general(
        {"kind": "constant", "values": "lightning_fla"},
        {"num_heads": 4, "num_hidden_layers": 3, "intermediate_size": 16},
    ),
    "linear_recurrence-lightning_minimax": general(
        {"kind": "constant", "values": "lightning_minimax"},
        {
            "num_heads": 4,
            "num_hidden_layers": 3,
            "intermediate_size": 16,
            "q_scale": 1.0,
            "output_gate": "sigmoid",
        },
    ),
    # Gated retention.
    "linear_recurrence-scalar": general(
        {"kind": "scalar", "activation": "sigmoid", "temperature": 16},
        {
            "rotary": "interleaved",
            "output_norm": "rmsnorm",
            "output_gate": "swish",
        },
    ),
    "linear_recurrence-scalar-z": general(
        {"kind": "scalar", "activation": "exp_exp"},
        {"feature_map": "elu", "normalizer": "z", "output_gate": "sigmoid"},
    ),
    # The core of Mamba-2.
    "linear_recurrence-scalar-exp_softplus": general(
        {"kind": "scalar", "activation": "exp_softplus"}, {"conv_size": 3}
    ),
    "linear_recurrence-key": general("key"),
    # GLA as in textbooks.
    "linear_recurrence-key-low-rank": general(
        "key", {"output_gate": "sigmoid", "q_scale": 1}, {"rank": 5}
    ),
    "linear_recurrence-key-z": general(
        {"kind": "key", "temperature": 4},
        {"feature_map": "softmax", "normalizer": "z", "output_norm": "rmsnorm"},
    ),
    "linear_recurrence-key-exp_exp": general({"kind": "key", "activation": "exp_exp"}),
    # The core of HGRN-2.
    "linear_recurrence-key-complement": general(
        "key", {"input": "complement", "output_norm": "rmsnorm"}
    ),
    "linear_recurrence-key-complement-conv-z": general(
        "key",
        {
            "input": "complement",
            "feature_map": "elu",
            "conv_size": 2,
            "normalizer": "z",
        },
        {"rank": 4},
    ),
    "linear_recurrence-value": general("value"),
    "linear_recurrence-value-exp_exp": general(
        {"kind": "value", "activation": "exp_exp"}, {"output_norm": "rmsnorm"}
    ),
    "linear_recurrence-outer": general("outer", {"output_gate": "swish"}),
    "linear_recurrence-outer-low-rank": general(
        {"kind": "outer", "temperature": 8}, {"rotary": "half"}, {"rank": 3}
    ),
    "linear_recurrence-full": general("full"),
    "linear_recurrence-full-odd": general(
        "full",
        {
            "num_heads": 3,
            "head_k_dim": 7,
            "head_v_dim": 5,
            "conv_size": 4,
            "output_norm": "rmsnorm",
            "output_gate": "swish",
        },
    ),
    "linear_recurrence-key_complex": general("key_complex"),
    "linear_recurrence-key_complex-low-rank": general(
        {"kind": "key_complex", "temperature": 2},
        {
            "rotary": "interleaved",
            "output_norm": "rmsnorm",
            "output_gate": "sigmoid",
        },
        {"rank": 6},
    ),
    # From no decay at all to one that forgets everything.
    "linear_recurrence-key-strong": general("key", {}, {"bias": (0.0, 40.0)}),
    "linear_recurrence-scalar-strong": general(
        {"kind": "scalar", "activation": "exp_exp"},
        {"num_heads": 4, "feature_map": "elu", "normalizer": "z"},
        {"bias": (0.0, 8.0)},
    ),
    "linear_recurrence-outer-strong": general("outer", {}, {"bias": (0.0, 40.0)}),
    "linear_recurrence-full-strong": general("full", {}, {"bias": (0.0, 40.0)}),
    "linear_recurrence-hybrid": general(
        "outer",
        {
            "output_norm": "rmsnorm",
            "attn": {"layers": [1], "num_heads": 4, "window_size": 8},
        },
    ),
}
