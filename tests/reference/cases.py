"""Golden cases: random checkpoints small enough to keep.

A case is (config values, options of storage). The values are added to BASE;
None removes a key of BASE, other keys are null then. Options: "dtype" (F16), "shards" (1), "fused_mlp"
(gate and up in one matrix), "seed" (of the name), "one_way" (no bidirectional
pass), "tokens" (40), and what a family's own functions ask for.
"""

import json
import math
import os
import zlib

import numpy as np

from families import FAMILIES, family_of
from language_model import CausalLm, mixer_part, mlp_width, model_config
from tensor_file import write_weights

VOCAB, TOKENS = 61, 40

BASE = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "vocab_size": VOCAB,
    "intermediate_size": 32,
    "norm_eps": 1e-6,
}

# name: (model_type, config values, options of storage)
CASES = {
    name: (model_type, values, stored)
    for model_type, family in FAMILIES.items()
    for name, (values, stored) in family.CASES.items()
}


class Case:
    """Random tensors of one case, in the order in which they are asked for."""

    def __init__(self, family, values, stored, seed):
        self.config = model_config(family, values)
        self.family = family
        self.model = getattr(family, "Model", CausalLm)  # its names
        self.stored = stored
        self.random = np.random.default_rng(seed)
        self.tensors = {}

    def uniform(self, name, shape, center, width):
        """Uniform in center +- width."""
        self.tensors[name] = center + self.random.uniform(-width, width, shape)

    def matrix(self, name, rows, columns, size=1.0):
        """[rows, columns]; inputs of size 1 give outputs of that size."""
        self.uniform(name, (rows, columns), 0.0, size * math.sqrt(3.0 / columns))

    def vector(self, name, n, center, width):
        self.uniform(name, n, center, width)

    def taps(self, name, channels, W):
        """Of a causal convolution."""
        self.uniform(name, (channels, 1, W), 0.0, 1.0)

    def mlp(self, p):
        D = self.config["hidden_size"]
        width = getattr(self.family, "mlp_width", mlp_width)(self.config)
        gate, up, down = self.model.MLP_PARTS
        if self.stored.get("fused_mlp") or not up:
            self.matrix(p + gate + ".weight", 2 * width, D)
        else:
            self.matrix(p + gate + ".weight", width, D)
            self.matrix(p + up + ".weight", width, D)
        self.matrix(p + down + ".weight", D, width)

    def channels(self, n, p):
        """What mixes the channels of layer n, whose tensors are below p."""
        tensors = getattr(self.family, "channel_tensors", None)
        if tensors is None:
            self.mlp(p + self.model.MLP)
        else:
            tensors(self, n, p)

    def mixer(self, n, p):
        """Of layer n, whose tensors are below p."""
        part, _, tensors = mixer_part(self.family, self.config, n)
        tensors(self, n, p + part)

    def embeddings(self, name):
        D = self.config["hidden_size"]
        self.matrix(name, VOCAB, D, math.sqrt(D / 3.0))

    def head(self, name):
        if not self.config["tie_word_embeddings"]:
            self.matrix(name, VOCAB, self.config["hidden_size"])

    def causal_lm(self):
        """All tensors of the common frame."""
        D, model = self.config["hidden_size"], self.model
        self.embeddings(model.EMBEDDINGS)
        for n in range(self.config["num_hidden_layers"]):
            p = "model.layers.%d." % n
            mixer_norm, mlp_norm = model.NORMS
            self.vector(p + mixer_norm + ".weight", D, 1.0, 0.3)
            self.mixer(n, p)
            self.vector(p + mlp_norm + ".weight", D, 1.0, 0.3)
            self.channels(n, p)
        if hasattr(self.family, "model_tensors"):
            self.family.model_tensors(self)
        self.vector(model.FINAL_NORM + ".weight", D, 1.0, 0.3)
        self.head(model.HEAD)

    def make(self):
        getattr(self.family, "all_tensors", Case.causal_lm)(self)
        return self.tensors


def case_values(model_type, change):
    """config.json: model_type first, then BASE with the case's changes, where
    there is a text_config in that."""
    if "text_config" in change:
        inner = case_values(model_type, change["text_config"])
        return {"model_type": model_type, **change, "text_config": inner}
    values = {"model_type": model_type, **BASE, **change}
    return {
        k: value for k, value in values.items() if value is not None or k not in BASE
    }


def write_case(root, name):
    """config.json, weights and tokens of one case; returns its folder."""
    model_type, change, stored = CASES[name]
    values = case_values(model_type, change)
    folder = os.path.join(root, name)
    os.makedirs(folder, exist_ok=True)
    seed = stored.get("seed", zlib.crc32(name.encode()))
    tensors = Case(family_of(model_type), values, stored, seed).make()
    tokens = np.random.default_rng(100 + seed).integers(0, VOCAB, stored.get("tokens", TOKENS))
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(values, file, indent=1)
        file.write("\n")
    with open(os.path.join(folder, "token_ids.json"), "w") as file:
        file.write(json.dumps([int(token) for token in tokens]) + "\n")
    write_weights(folder, tensors, stored.get("dtype", "F16"), stored.get("shards", 1))
    return folder
