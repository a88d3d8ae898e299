"""Softmax attention in every layer."""

from softmax_attention import SoftmaxAttention, fla_shape, softmax_tensors

DEFAULTS = {"num_heads": 32}


class Mixer(SoftmaxAttention):
    def __init__(self, model, n, prefix):
        shape = fla_shape(model.config, model.config)
        super().__init__(model, shape, prefix)


def tensors(case, n, p):
    softmax_tensors(case, p, fla_shape(case.config, case.config))


CASES = {
    "transformer-groups-norm-bias": (
        {
            "num_heads": 4,
            "num_kv_heads": 2,
            "qkv_bias": True,
            "qk_norm": True,
            "rope_theta": 500.0,
        },
        {},
    ),
    "transformer-window": ({"num_heads": 2, "window_size": 7}, {}),
}
