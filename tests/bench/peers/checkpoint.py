"""A Mamba-2 checkpoint as the peers need it: configuration and tensors."""

import numpy as np
import paths  # noqa: F401  where the reference is
from families import mamba2
from layer import Config
from tensor_file import read_config
from tensors import Tensors

# What the peers are written for; anything else would change the formulas.
EXPECTED = {"use_bias": False, "use_conv_bias": True, "rmsnorm": True,
            "D_has_hdim": False, "norm_scope": "group", "hidden_act": "silu"}


class Checkpoint:
    """config.json and model.safetensors of model_type "mamba2".

    Raises ValueError for what the peers would compute otherwise.
    """

    def __init__(self, folder):
        config = Config(read_config(folder), mamba2.DEFAULTS)
        refuse_others(config)
        self.D = config["hidden_size"]
        self.layers = config["num_hidden_layers"]
        self.vocab = config["vocab_size"]
        # Channels, heads, head width, state width, groups.
        self.E, self.H, self.P, self.N, self.G = mamba2.sizes(config)
        self.taps = config["conv_kernel"]
        self.eps = config.norm_eps()
        self.tied = config.get("tie_word_embeddings", False)
        self._tensors = Tensors(folder)
        self.floats = self._tensors.floats

    def names(self):
        return self._tensors.names(self.tied)


def refuse_others(config):
    if config["model_type"] != "mamba2":
        raise ValueError(f"model_type is {config['model_type']!r}: only "
                         "'mamba2' can be compared")
    for key, value in EXPECTED.items():
        if config.get(key, value) != value:
            raise ValueError(f"{key} is {config[key]!r}: the peers are asked "
                             f"for {value!r} only")
    if config["norm_before_gate"] and mamba2.is_fla(config):
        raise ValueError("norm_before_gate is true: the peers gate first")
    limit = mamba2.time_limit(config)
    if limit != [0.0, np.inf]:
        raise ValueError(f"the limit of dt is {limit}: the peers have none")
