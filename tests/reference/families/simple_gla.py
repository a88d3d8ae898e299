"""GLA with one decay for all of a head: log g = logsigmoid(.) / 16."""

from families import gla
from pointwise import log_sigmoid

DEFAULTS = {**gla.DEFAULTS, "use_short_conv": True}


class Mixer(gla.Mixer):
    def log_decay(self, x):
        return log_sigmoid(self.project("gk_proj", x))[:, None] / 16


def scalar_decay(case, p, D, channels):
    """channels: of k; the decay has one per kv head."""
    heads = case.config.get("num_kv_heads", case.config["num_heads"])
    case.matrix(p + "gk_proj.weight", heads, D)
    case.vector(p + "gk_proj.bias", heads, 0.0, 3.0)


def tensors(case, n, p):
    gla.tensors(case, n, p, scalar_decay)


CASES = {
    "simple_gla": ({}, {}),
    "simple_gla-groups-no-conv": (
        {
            "num_heads": 4,
            "num_kv_heads": 2,
            "expand_k": 1.0,
            "use_short_conv": False,
            "elementwise_affine": False,
        },
        {},
    ),
    "simple_gla-relu-no-gate-conv3": (
        {
            "num_heads": 2,
            "expand_v": 1.5,
            "feature_map": "relu",
            "conv_size": 3,
            "use_output_gate": False,
        },
        {},
    ),
    "simple_gla-clamp-hybrid": (
        {
            "num_heads": 4,
            "clamp_min": -0.02,
            "attn": {"layers": [1], "num_heads": 2, "window_size": 6},
        },
        {},
    ),
}
