"""Falcon Mamba: Mamba-1 whose dt's low-rank input, B and C are normalised by
their root mean squares, without weights, before they are used. The width is
intermediate_size, whatever expand says.
"""

import numpy as np

from families import mamba
from pointwise import rms_norm

DEFAULTS = {**mamba.DEFAULTS, "mixer_rms_eps": 1e-6}


class Mixer(mamba.Mixer):
    def low_parts(self, x):
        eps = self.config["mixer_rms_eps"]
        return [
            rms_norm(part, np.ones(len(part)), eps)
            for part in super().low_parts(x)
        ]


Model = mamba.Model
all_tensors = mamba.all_tensors


def tensors(case, n, p):
    stated = case.config.get("intermediate_size")
    mamba.layer_tensors(case, p, stated or mamba.width(case.config))


BARE = {**mamba.BARE, "layer_norm_epsilon": 1e-5}

# The other keys that transformers writes.
WRITTEN = {
    "architectures": ["FalconMambaForCausalLM"],
    "bos_token_id": 0,
    "conv_kernel": 4,
    "dtype": "float32",
    "eos_token_id": 0,
    "expand": 2,
    "hidden_act": "silu",
    "initializer_range": 0.1,
    "intermediate_size": 64,
    "mixer_rms_eps": 1e-6,
    "pad_token_id": 0,
    "rescale_prenorm_residual": False,
    "residual_in_fp32": True,
    "state_size": 8,
    "tie_word_embeddings": False,
    "time_step_floor": 0.0001,
    "time_step_init_scheme": "random",
    "time_step_max": 0.1,
    "time_step_min": 0.001,
    "time_step_rank": 4,
    "time_step_scale": 1.0,
    "use_associative_scan": True,
    "use_bias": False,
    "use_cache": True,
    "use_conv_bias": True,
    "use_mambapy": False,
}

CASES = {
    "falcon_mamba": ({**BARE, **WRITTEN}, {}),
    # As published: an expand that does not count, the rank by default.
    "falcon_mamba-wide": (
        {
            **BARE,
            "expand": 16,
            "intermediate_size": 80,
            "mixer_rms_eps": 1e-5,
            "tie_word_embeddings": False,
        },
        {"dtype": "BF16"},
    ),
    "falcon_mamba-bias": (
        {**BARE, "use_bias": True, "use_conv_bias": False, "conv_kernel": 3,
         "state_size": 6, "mixer_rms_eps": 1e-2},
        {"tied": True},
    ),
}
