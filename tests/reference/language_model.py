"""The common causal language model: embedding, layers, norm, head.

Every layer is h += mixer(norm(h)); h += mlp(norm(h)). A family whose layers
or frame differ derives its own class from CausalLm (its `Model`).
"""

import numpy as np

from layer import Config, Layer
from pointwise import ACTIVATIONS, rms_norm
from softmax_attention import SoftmaxAttention

# Keys that every family shares; a family's DEFAULTS come before these.
DEFAULTS = {
    "hidden_size": 2048,
    "num_hidden_layers": 24,
    "vocab_size": 32000,
    "hidden_ratio": 4,
    "hidden_act": "swish",
    "norm_eps": 1e-6,
    "tie_word_embeddings": False,
}


def hybrid_groups(config):
    """The entries of `attn`: one object, a list of them, or none."""
    groups = config.get("attn", [])
    return groups if isinstance(groups, list) else [groups]


def hybrid_group(config, n):
    """What makes layer n a softmax layer, or None."""
    for group in hybrid_groups(config):
        if n in group["layers"]:
            return group
    return None


class Mlp(Layer):
    def step(self, x):
        if self.tensor("up_proj.weight") is None:  # both in gate_proj
            gate, up = np.split(self.project("gate_proj", x), 2)
        else:
            gate, up = self.project("gate_proj", x), self.project("up_proj", x)
        act = ACTIVATIONS[self.config["hidden_act"]]
        return self.project("down_proj", act(gate) * up)


class Block:
    """One layer of the common frame."""

    def __init__(self, model, n):
        prefix = "model.layers.%d." % n
        self.eps = model.config.norm_eps()
        self.mixer = model.make_mixer(n, prefix + "attn.")
        self.mlp = Mlp(model, prefix + "mlp.")
        self.attn_norm = model.tensors[prefix + "attn_norm.weight"]
        self.mlp_norm = model.tensors[prefix + "mlp_norm.weight"]

    def step(self, h, position):
        h = h + self.mixer.step(rms_norm(h, self.attn_norm, self.eps), position)
        return h + self.mlp.step(rms_norm(h, self.mlp_norm, self.eps))

    def order_matters(self):
        return getattr(self.mixer, "order_matters", lambda: True)()

    def bidirectional(self, rows):
        """Every row of [tokens, D] sees all of them."""
        inputs = [rms_norm(h, self.attn_norm, self.eps) for h in rows]
        for t, x in enumerate(inputs):
            self.mixer.absorb(x, t)
        mixed = [self.mixer.read(x, t) for t, x in enumerate(inputs)]
        rows = [h + y for h, y in zip(rows, mixed)]
        return [h + self.mlp.step(rms_norm(h, self.mlp_norm, self.eps)) for h in rows]


class CausalLm:
    """One sequence, fed token by token.

    family: a module of families/. rounded: applied to every weight matrix
    and its input, see tensor_file. What a family may replace: the names of
    the embeddings and of the head, `make_block`, `final_norm`, `cap`.
    """

    EMBEDDINGS = "model.embeddings.weight"
    HEAD = "lm_head.weight"

    def __init__(self, family, values, tensors, rounded):
        self.family = family
        self.config = Config(values, {**DEFAULTS, **family.DEFAULTS})
        self.tensors, self.rounded = tensors, rounded
        self.table = rounded(tensors[self.EMBEDDINGS])
        head = tensors.get(self.HEAD)
        if head is None or self.config["tie_word_embeddings"]:
            head = self.table
        self.head = rounded(head)
        layers = self.config["num_hidden_layers"]
        self.blocks = [self.make_block(n) for n in range(layers)]

    def make_block(self, n):
        return Block(self, n)

    def make_mixer(self, n, prefix):
        """The mixer of layer n: the family's, or softmax in a hybrid."""
        group = hybrid_group(self.config, n)
        if group is not None:
            return SoftmaxAttention(self, Config(group), prefix)
        return self.family.Mixer(self, n, prefix)

    def final_norm(self, h):
        return rms_norm(h, self.tensors["model.norm.weight"], self.config.norm_eps())

    def cap(self, logits):
        return logits

    def step(self, token, position):
        """Logits [vocab] after this token."""
        h = self.table[token].copy()
        for block in self.blocks:
            h = block.step(h, position)
        return self.cap(self.head @ self.rounded(self.final_norm(h)))

    def order_matters(self):
        """Whether there is no bidirectional pass."""
        return any(block.order_matters() for block in self.blocks)

    def bidirectional(self, tokens):
        """Hidden vectors [tokens, D] where every token sees all of them."""
        rows = [self.table[token] for token in tokens]
        for block in self.blocks:
            rows = block.bidirectional(rows)
        return np.array([self.final_norm(h) for h in rows])

    def logits(self, tokens):
        """[tokens, vocab], row t after tokens 0..t."""
        return np.array([self.step(token, t) for t, token in enumerate(tokens)])
