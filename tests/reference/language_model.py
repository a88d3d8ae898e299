"""The common causal language model: embedding, layers, norm, head.

Every layer is h += mixer(norm(h)); h += mlp(norm(h)). A family whose layers
or frame differ derives its own class from CausalLm (its `Model`).
"""

import numpy as np

from layer import Config, Layer
from pointwise import ACTIVATIONS, rms_norm
from softmax_attention import SoftmaxAttention, fla_shape, softmax_tensors

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


# Of parts that are no language model.
FOREIGN = ("model.visual.", "visual.", "vision_tower.", "mtp.", "model.mtp.")


def is_foreign(name):
    """Whether the tensor is there in vain."""
    return name.startswith(FOREIGN)


def own_tensors(tensors):
    """Those of the language model, by the names that they have without others
    beside it."""
    own = {}
    for name, tensor in tensors.items():
        short = name.removeprefix("language_model.")
        short = short.replace("model.language_model.", "model.", 1)
        if not is_foreign(name):
            own[short] = tensor
    return own


def language_values(values):
    """The config of the language model, which others may stand beside: then
    whether the head is tied is said outside."""
    if values.get("text_config") is None:
        return values
    inner, tied = values["text_config"], "tie_word_embeddings"
    return {**inner, tied: values[tied]} if tied in values else inner


def model_config(family, values):
    """With the defaults of the family, its aliases spelt as the rest."""
    values = getattr(family, "respell", dict)(language_values(values))
    return Config(values, {**DEFAULTS, **family.DEFAULTS})


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


def mixer_part(family, config, n):
    """Of layer n: the prefix of its mixer's tensors, what makes the mixer
    (model, n, prefix) and what makes random tensors (case, n, prefix).

    The family's only one, softmax in a hybrid of fla's, or that of the
    layer's kind where the family has KINDS.
    """
    if hasattr(family, "KINDS"):
        return family.KINDS[family.layer_types(config)[n]]
    group = hybrid_group(config, n)
    if group is None:
        return "attn.", family.Mixer, family.tensors
    shape = fla_shape(config, Config(group))
    return (
        "attn.",
        lambda model, n, p: SoftmaxAttention(model, shape, p),
        lambda case, n, p: softmax_tensors(case, p, shape),
    )


def mlp_width(config):
    """intermediate_size or what fla derives without it."""
    width = int(config["hidden_size"] * config["hidden_ratio"] * 2 / 3)
    return config.get("intermediate_size", -(-width // 256) * 256)


class Mlp(Layer):
    def __init__(self, model, prefix):
        super().__init__(model, prefix)
        self.parts = model.MLP_PARTS

    def step(self, x):
        gate, up, down = self.parts
        if self.tensor(up + ".weight") is None:  # both in the gate's
            gate, up = np.split(self.project(gate, x), 2)
        else:
            gate, up = self.project(gate, x), self.project(up, x)
        act = ACTIVATIONS[self.config["hidden_act"]]
        return self.project(down, act(gate) * up)


class Block:
    """One layer of the common frame."""

    def __init__(self, model, n):
        prefix = "model.layers.%d." % n
        self.eps = model.config.norm_eps()
        self.mixer = model.make_mixer(n, prefix)
        self.mlp = model.make_mlp(n, prefix)
        self.mixer_norm, self.mlp_norm = (
            model.tensors[prefix + name + ".weight"] for name in model.NORMS
        )

    def step(self, h, position):
        h = h + self.mixer.step(rms_norm(h, self.mixer_norm, self.eps), position)
        return h + self.mlp.step(rms_norm(h, self.mlp_norm, self.eps))

    def order_matters(self):
        return getattr(self.mixer, "order_matters", lambda: True)()

    def bidirectional(self, rows):
        """Every row of [tokens, D] sees all of them."""
        inputs = [rms_norm(h, self.mixer_norm, self.eps) for h in rows]
        for t, x in enumerate(inputs):
            self.mixer.absorb(x, t)
        mixed = [self.mixer.read(x, t) for t, x in enumerate(inputs)]
        rows = [h + y for h, y in zip(rows, mixed)]
        return [h + self.mlp.step(rms_norm(h, self.mlp_norm, self.eps)) for h in rows]


class CausalLm:
    """One sequence, fed token by token.

    family: a module of families/. rounded: applied to every weight matrix
    and its input, see tensor_file. What a family may replace: the names, here
    fla's, `make_block`, `embed`, `final_norm`, `cap`.
    """

    EMBEDDINGS = "model.embeddings.weight"
    NORMS = ("attn_norm", "mlp_norm")  # of a layer, before mixer and MLP
    MLP = "mlp."
    MLP_PARTS = ("gate_proj", "up_proj", "down_proj")
    FINAL_NORM = "model.norm"
    HEAD = "lm_head.weight"

    def __init__(self, family, values, tensors, rounded):
        self.family = family
        self.config = model_config(family, values)
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
        """The mixer of layer n, whose tensors are below the prefix."""
        part, mixer, _ = mixer_part(self.family, self.config, n)
        return mixer(self, n, prefix + part)

    def make_mlp(self, n, prefix):
        """What mixes the channels of layer n."""
        return Mlp(self, prefix + self.MLP)

    def final_norm(self, h):
        weight = self.tensors[self.FINAL_NORM + ".weight"]
        return rms_norm(h, weight, self.config.norm_eps())

    def embed(self, token):
        return self.table[token].copy()

    def cap(self, logits):
        return logits

    def step(self, token, position):
        """Logits [vocab] after this token."""
        h = self.embed(token)
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
