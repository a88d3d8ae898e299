"""Linear attention: S = S + phi(k) v^T, o = S^T phi(q), and Z = sum phi(k).

A feature map phi is of one of three kinds:
  fla's own: o is scaled by 1 / sqrt(width of phi) and, with norm_feature_map,
    divided by the scaled phi(q).Z + 1e-10;
  others: o = S^T phi(q) / (phi(q).Z + eps), no scale;
  maps with exp of anything: o = sum_j w_j v_j with w = softmax_j(log of
    phi(q).phi(k_j)), the same number without overflow. For this the keys are
    remembered, and no sum is kept.
"""

import math

import numpy as np

from layer import Layer
from pointwise import elu_plus_one, log_sum_exp, relu, rms_norm, softmax

DEFAULTS = {
    "num_heads": 4,
    "expand_k": 1.0,
    "expand_v": 1.0,
    "feature_map": "elementwise_product",
    "tie_feature_map_qk": False,
    "norm_q": False,
    "norm_k": False,
    "norm_feature_map": False,
    "output_norm": "rmsnorm",
}

# --- feature maps of one head -------------------------------------------------
# (x [d], the tensors of the map, the head) -> phi(x), or its logarithm.


def elementwise_product(x, tensors, h):
    one = tensors["layer1.weight"] @ x + tensors["layer1.bias"]
    return one * (tensors["layer2.weight"] @ x + tensors["layer2.bias"])


def hedgehog(x, tensors, h):
    """Both halves in one softmax."""
    y = 2 * (tensors["layer.weight"] @ x + tensors["layer.bias"])
    return softmax(np.concatenate([y, -y]))


def t2r(x, tensors, h):
    return relu(tensors["layer.weight"] @ x)


def dpfp(x, tensors, h):
    """The second half is -relu(x), as in fla before 0.6."""
    y = np.concatenate([relu(x), -relu(x)])
    return np.concatenate([y * np.roll(y, j) for j in range(1, 5)])


def dpfp_paper(x, tensors, h):
    """As in the paper and in fla since 0.6."""
    y = np.concatenate([relu(x), relu(-x)])
    return np.concatenate([y * np.roll(y, j) for j in range(1, 5)])


FLA_MAPS = {
    "elementwise_product": elementwise_product,
    "elu": lambda x, tensors, h: elu_plus_one(x),
    "relu": lambda x, tensors, h: relu(x),
    "identity": lambda x, tensors, h: x,
    "hedgehog": hedgehog,
    "t2r": t2r,
    "dpfp": dpfp,
    "dpfp_paper": dpfp_paper,
}


def hedgehog_softmax(x, tensors, h):
    """Each half in a softmax of its own; a matrix [d, r] per head."""
    y = x @ tensors["layer.weight"][h]
    return np.maximum(np.concatenate([softmax(y), softmax(-y)]), 1e-12)


def cosine(x, tensors, h):
    return np.concatenate([[1.0], x / math.sqrt(np.sum(x * x) + 1e-6)])


def taylor(x, tensors, h):
    """phi(q).phi(k) = 1 + s + s^2 / 2 with s = q.k / sqrt(d)."""
    d = len(x)
    pairs = [x[i] * x[j] for i in range(d) for j in range(i + 1, d)]
    return np.concatenate(
        [
            [1.0],
            x / d**0.25,
            x * x / math.sqrt(2 * d),
            np.array(pairs) / math.sqrt(d),
        ]
    )


# With what is added to the denominator.
NORMALIZED_MAPS = {
    "hedgehog_softmax": (hedgehog_softmax, 1e-12),
    "softmax": (lambda x, tensors, h: softmax(x), 1e-12),
    "cosine": (cosine, 1e-6),
    "taylor": (taylor, 1e-12),
}


def log_hedgehog(x, tensors, h):
    y = tensors["layer.weight"] @ x
    return np.concatenate([y, -y])


def log_performer(x, tensors, h):
    """Without m^(-1/2), which the normaliser cancels."""
    scaled = x / len(x) ** 0.25
    return tensors["projection_matrix"] @ scaled - np.sum(scaled * scaled) / 2


LOG_MAPS = {"hedgehog_exp": log_hedgehog, "performer": log_performer}


# --- attention of one head ----------------------------------------------------


class Sums:
    """S and Z of one head; scaled: by 1 / sqrt(width of the features)."""

    def __init__(self, normalize, eps, scaled):
        self.S = self.Z = 0.0
        self.normalize, self.eps, self.scaled = normalize, eps, scaled

    def absorb(self, k, v):
        """k: after the feature map, as q."""
        self.S = self.S + np.outer(k, v)
        self.Z = self.Z + k

    def read(self, q):
        scale = 1 / math.sqrt(len(q)) if self.scaled else 1.0
        o = scale * (self.S.T @ q)
        return o / (scale * (q @ self.Z) + self.eps) if self.normalize else o


class LogWeights:
    """All keys of one head, for maps given by their logarithm."""

    def __init__(self):
        self.keys, self.values = [], []

    def absorb(self, k, v):
        """k: logarithms of the features, as q."""
        self.keys.append(k)
        self.values.append(v)

    def read(self, q):
        weights = softmax(np.array([log_sum_exp(q + key) for key in self.keys]))
        return weights @ np.array(self.values)


class Efficient:
    """Causal Efficient Attention: a softmax over time for each feature."""

    def __init__(self):
        self.keys, self.values = [], []

    def absorb(self, k, v):
        self.keys.append(k)
        self.values.append(v)

    def read(self, q):
        keys, values = np.array(self.keys), np.array(self.values)
        shares = softmax(q)
        return sum(shares[c] * (softmax(keys[:, c]) @ values) for c in range(len(q)))


def identity(x, tensors, h):
    return x


def mechanism(config):
    """(the map, a function that makes the attention of a head)."""
    name = config["feature_map"]
    if name in FLA_MAPS:
        normalize = config["norm_feature_map"]
        return FLA_MAPS[name], lambda: Sums(normalize, 1e-10, scaled=True)
    if name in NORMALIZED_MAPS:
        phi, eps = NORMALIZED_MAPS[name]
        return phi, lambda: Sums(True, eps, scaled=False)
    if name in LOG_MAPS:
        return LOG_MAPS[name], LogWeights
    if name == "efficient":
        return identity, Efficient
    raise ValueError(name)


# --- the layer ----------------------------------------------------------------


class Mixer(Layer):
    def __init__(self, model, n, prefix):
        super().__init__(model, prefix)
        config, D = self.config, self.config["hidden_size"]
        self.H = config["num_heads"]
        self.G = config.get("num_kv_heads", self.H)
        self.K = int(D * config["expand_k"]) // self.H
        self.V = int(D * config["expand_v"]) // self.H
        self.phi, make = mechanism(config)
        self.heads = [make() for h in range(self.H)]
        self.map_q = self.map_tensors("q", "k")
        self.map_k = self.map_tensors("k", "q")
        if config["norm_q"] or config["norm_k"]:
            assert isinstance(self.heads[0], Sums), "needs the features themselves"

    def map_tensors(self, own, other):
        """Tensors of the map of q or k; a tied one may have either name."""
        names = ["feature_map_%s." % own, "feature_map."]
        if self.config["tie_feature_map_qk"]:
            names.insert(1, "feature_map_%s." % other)
        for name in names:
            p = self.prefix + name
            found = {t[len(p) :]: x for t, x in self.tensors.items() if t.startswith(p)}
            if found:
                return found
        return {}

    def features(self, x, tensors, h, normalize):
        y = self.phi(x, tensors, h)
        return y / (y.sum() + 1e-4) if normalize else y

    def step(self, x, position):
        self.absorb(x, position)
        return self.read(x, position)

    def order_matters(self):
        return False

    def absorb(self, x, position):
        g = self.H // self.G
        k = self.project("k_proj", x).reshape(self.G, self.K)
        v = self.project("v_proj", x).reshape(self.G, self.V)
        for h in range(self.H):
            fk = self.features(k[h // g], self.map_k, h, self.config["norm_k"])
            self.heads[h].absorb(fk, v[h // g])

    def read(self, x, position):
        config = self.config
        q = self.project("q_proj", x).reshape(self.H, self.K)
        out = np.zeros((self.H, self.V))
        for h in range(self.H):
            fq = self.features(q[h], self.map_q, h, config["norm_q"])
            out[h] = self.heads[h].read(fq)
            if config["output_norm"] == "rmsnorm":
                out[h] = rms_norm(out[h], self.tensor("norm.weight"), config.norm_eps())
        return self.project("o_proj", out.reshape(-1))


# --- cases --------------------------------------------------------------------


def map_tensors(case, p, H, d):
    """Random tensors of one map. Stored options: "rank" r, "map_size"."""
    name = case.config["feature_map"]
    r, size = case.stored.get("rank", d), case.stored.get("map_size", 1.0)
    if name == "elementwise_product":
        for layer in ("layer1", "layer2"):
            case.matrix(p + layer + ".weight", d, d)
            case.vector(p + layer + ".bias", d, 0.0, 0.5)
    if name in ("hedgehog", "t2r"):
        case.matrix(p + "layer.weight", d, d)
    if name == "hedgehog":
        case.vector(p + "layer.bias", d, 0.0, 0.5)
    if name == "hedgehog_exp":
        case.matrix(p + "layer.weight", r, d, size)
    if name == "hedgehog_softmax":
        case.uniform(p + "layer.weight", (H, d, r), 0.0, size * math.sqrt(3.0 / d))


def tensors(case, n, p):
    """Stored options: "qk_size" of q and k, "map_names" that are there."""
    config, D = case.config, case.config["hidden_size"]
    H = config["num_heads"]
    g = H // config.get("num_kv_heads", H)
    Dk, Dv = int(D * config["expand_k"]), int(D * config["expand_v"])
    size = case.stored.get("qk_size", 1.0)
    case.matrix(p + "q_proj.weight", Dk, D, size)
    case.matrix(p + "k_proj.weight", Dk // g, D, size)
    case.matrix(p + "v_proj.weight", Dv // g, D)
    case.matrix(p + "o_proj.weight", D, Dv)
    affine = config.get("elementwise_affine", True)
    if config["output_norm"] == "rmsnorm" and affine:
        case.vector(p + "norm.weight", Dv // H, 1.0, 0.3)
    for part in case.stored.get("map_names", "qk"):
        map_tensors(case, p + "feature_map_%s." % part, H, Dk // H)
    if config["feature_map"] == "performer":
        rows, d = case.stored["rank"], Dk // H
        # Of the size of normal numbers.
        case.uniform(p + "feature_map.projection_matrix", (rows, d), 0.0, math.sqrt(3))


def linear_attn(feature_map, change=None, stored=None):
    values = {"num_heads": 4, "feature_map": feature_map, **(change or {})}
    return values, stored or {}


# Arguments of exp of several hundred. Where two keys are near a tie, float32
# cannot tell their shares: the seeds of these cases are such that noise of
# float32's size in every product moves the logits by less than 2e-6.
HUGE = 100.0

CASES = {
    "linear_attn": ({}, {}),
    "linear_attn-product-tied-groups": (
        {"num_heads": 4, "num_kv_heads": 2, "tie_feature_map_qk": True},
        {"map_names": "k"},
    ),
    "linear_attn-elu": linear_attn("elu", {"expand_k": 0.5, "expand_v": 1.5}),
    "linear_attn-elu-z-groups": linear_attn(
        "elu",
        {
            "num_kv_heads": 1,
            "norm_feature_map": True,
            "output_norm": "identity",
        },
    ),
    "linear_attn-elu-norm-qk": linear_attn(
        "elu",
        {
            "norm_q": True,
            "norm_k": True,
            "norm_feature_map": True,
            "elementwise_affine": False,
        },
    ),
    "linear_attn-relu-norm-q": linear_attn("relu", {"norm_q": True}),
    "linear_attn-relu-norm-k-z": linear_attn(
        "relu", {"num_heads": 2, "norm_k": True, "norm_feature_map": True}
    ),
    "linear_attn-identity": linear_attn("identity", {"norm_eps": 1e-5}),
    "linear_attn-identity-no-norm": linear_attn(
        "identity", {"output_norm": "identity"}
    ),
    "linear_attn-t2r": linear_attn("t2r", {"hidden_act": "powlu"}),
    "linear_attn-t2r-tied-z": linear_attn(
        "t2r",
        {
            "num_heads": 2,
            "num_kv_heads": 1,
            "tie_feature_map_qk": True,
            "norm_feature_map": True,
        },
        {"map_names": "q"},
    ),
    "linear_attn-dpfp": linear_attn("dpfp"),
    "linear_attn-dpfp_paper": linear_attn("dpfp_paper"),
    "linear_attn-hedgehog-tied-z": linear_attn(
        "hedgehog",
        {"tie_feature_map_qk": True, "norm_feature_map": True},
        {"map_names": "q"},
    ),
    "linear_attn-hybrid": linear_attn(
        "elu",
        {
            "norm_feature_map": True,
            "attn": [
                {"layers": [0], "num_heads": 2, "qk_norm": True},
                {"layers": [2], "num_heads": 4, "num_kv_heads": 2, "window_size": 9},
            ],
            "num_hidden_layers": 3,
            "intermediate_size": 16,
        },
    ),
    "linear_attn-hedgehog_exp": linear_attn("hedgehog_exp"),
    "linear_attn-hedgehog_exp-tied-groups": linear_attn(
        "hedgehog_exp",
        {
            "num_kv_heads": 2,
            "tie_feature_map_qk": True,
            "output_norm": "identity",
        },
        {"map_names": "k", "rank": 5},
    ),
    "linear_attn-hedgehog_exp-huge": linear_attn(
        # Keys nearly tie once every query sees all of them.
        "hedgehog_exp",
        {},
        {"map_size": HUGE, "seed": 17, "one_way": True},
    ),
    "linear_attn-hedgehog_softmax": linear_attn(
        "hedgehog_softmax", {}, {"map_size": 2.0}
    ),
    "linear_attn-hedgehog_softmax-tied-groups": linear_attn(
        "hedgehog_softmax",
        {
            "num_kv_heads": 2,
            "tie_feature_map_qk": True,
            "output_norm": "identity",
        },
        {"map_names": "q", "rank": 5},
    ),
    "linear_attn-hedgehog_softmax-huge": linear_attn(
        "hedgehog_softmax", {"num_heads": 2}, {"map_size": HUGE}
    ),
    "linear_attn-softmax": linear_attn("softmax", {}, {"qk_size": 2.0}),
    "linear_attn-softmax-groups": linear_attn(
        "softmax", {"num_kv_heads": 2, "output_norm": "identity"}
    ),
    "linear_attn-efficient": linear_attn("efficient", {}, {"qk_size": 2.0}),
    "linear_attn-efficient-groups": linear_attn(
        "efficient",
        {"num_kv_heads": 1, "expand_v": 0.5, "output_norm": "identity"},
    ),
    "linear_attn-efficient-huge": linear_attn(
        "efficient", {}, {"qk_size": HUGE, "seed": 20}
    ),
    "linear_attn-cosine": linear_attn("cosine"),
    "linear_attn-cosine-groups": linear_attn(
        "cosine", {"num_kv_heads": 2, "output_norm": "identity"}
    ),
    "linear_attn-taylor": linear_attn("taylor"),
    "linear_attn-taylor-groups": linear_attn(
        "taylor",
        {"num_kv_heads": 1, "expand_k": 0.5, "output_norm": "identity"},
        {"qk_size": 2.0},
    ),
    "linear_attn-performer": linear_attn("performer", {}, {"rank": 16}),
    "linear_attn-performer-groups": linear_attn(
        "performer",
        {"num_kv_heads": 2, "output_norm": "identity"},
        {"rank": 6},
    ),
    "linear_attn-performer-huge": linear_attn(
        "performer", {}, {"rank": 16, "qk_size": 9.0, "seed": 10}
    ),
}
