"""LFM3: LFM2 with norms before and behind each mixer, heads of a width of their
own, and two kinds of softmax layers.

    h += post_norm(mixer(norm h))
    o_h <- o_h sigmoid((g_proj x)_h)   of softmax layers

Those of sliding_attention see a window. rope_parameters has an object for each
kind; of "proportional" the first pairs alone turn, at the angles that they have
where all turn.
"""

import math

from families import lfm2
from language_model import Block
from pointwise import rms_norm
from softmax_attention import Shape, SoftmaxAttention, softmax_tensors

DEFAULTS = {
    "hidden_size": 2048,
    "num_hidden_layers": 24,
    "vocab_size": 128000,
    "intermediate_size": 7680,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "norm_eps": 1e-5,
    "tie_word_embeddings": True,
    "conv_bias": False,
    "conv_L_cache": 7,
    "attention_bias": False,
    "sliding_window": 256,
    "use_sandwich_norm": True,
    "use_attention_gate": True,
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        "full_attention": {
            "rope_type": "proportional",
            "rope_theta": 1000000.0,
            "partial_rotary_factor": 0.5,
        },
    },
}


def mlp_width(config):
    return config["intermediate_size"]


def layer_types(config):
    kinds = ["conv", "conv", "full_attention", "conv", "sliding_attention", "conv"]
    layers = config["num_hidden_layers"]
    usual = [kinds[n if n < 2 else 2 + (n - 2) % 4] for n in range(layers)]
    return config.get("layer_types", usual)


def attention_shape(config, kind, published=False):
    rope, d = config["rope_parameters"][kind], config["head_dim"]
    turning = None
    if rope.get("rope_type", "default") == "proportional":
        turning = math.floor(rope.get("partial_rotary_factor", 1.0) * d / 2)
    gate = "gate_proj" if published else "g_proj"
    return Shape(
        H=config["num_attention_heads"],
        G=config["num_key_value_heads"],
        d=d,
        rotary=d,
        turning=turning,
        theta=rope.get("rope_theta", 1000000.0),
        window=config["sliding_window"] if kind == "sliding_attention" else 0,
        norms=("q_norm", "k_norm"),
        eps=config.norm_eps(),
        head_gate=gate if config["use_attention_gate"] else "",
        biases="qkvo" if config["attention_bias"] else "",
    )


def attention_of(kind):
    def attention(model, n, prefix):
        published = prefix + "gate_proj.weight" in model.tensors
        shape = attention_shape(model.config, kind, published)
        return SoftmaxAttention(model, shape, prefix)

    def tensors(case, n, p):
        published = case.stored.get("published", False)
        softmax_tensors(case, p, attention_shape(case.config, kind, published))

    return "self_attn.", attention, tensors


KINDS = {
    "conv": ("conv.", lfm2.ShortConv, lfm2.conv_tensors),
    "sliding_attention": attention_of("sliding_attention"),
    "full_attention": attention_of("full_attention"),
}

POST_NORMS = ("post_operator_norm", "post_ffn_norm")


class Sandwich(Block):
    def __init__(self, model, n):
        super().__init__(model, n)
        self.post_norms = [
            model.tensors["model.layers.%d.%s.weight" % (n, name)] for name in POST_NORMS
        ]

    def step(self, h, position):
        mixed = self.mixer.step(rms_norm(h, self.mixer_norm, self.eps), position)
        h = h + rms_norm(mixed, self.post_norms[0], self.eps)
        mixed = self.mlp.step(rms_norm(h, self.mlp_norm, self.eps))
        return h + rms_norm(mixed, self.post_norms[1], self.eps)


class Model(lfm2.Model):
    def make_block(self, n):
        make = Sandwich if self.config["use_sandwich_norm"] else Block
        return make(self, n)


def model_tensors(case):
    if not case.config["use_sandwich_norm"]:
        return
    for n in range(case.config["num_hidden_layers"]):
        for name in POST_NORMS:
            prefix = "model.layers.%d." % n
            case.vector(prefix + name + ".weight", case.config["hidden_size"], 1.0, 0.3)


SMALL = {
    "norm_eps": 1e-5,
    "intermediate_size": 40,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 12,
    # The library's own are in no small vocabulary.
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}

CASES = {
    # All that the library has where the config is silent, and the names that
    # it renames.
    "lfm3": (
        {**SMALL, "num_hidden_layers": 5, "sliding_window": 8},
        {"published": True},
    ),
    # The keys that it writes.
    "lfm3-written": (
        {
            **SMALL,
            "architectures": ["Lfm3ForCausalLM"],
            "attention_bias": True,
            "attention_dropout": 0.0,
            "conv_L_cache": 4,
            "conv_bias": True,
            "dtype": "float32",
            "initializer_range": 0.02,
            "layer_types": ["full_attention", "conv", "sliding_attention"],
            "max_position_embeddings": 128000,
            "norm_eps": 1e-3,
            "num_hidden_layers": 3,
            "num_key_value_heads": 1,
            "rope_parameters": {
                "full_attention": {
                    "partial_rotary_factor": 0.4,
                    "rope_theta": 300.0,
                    "rope_type": "proportional",
                },
                "sliding_attention": {"rope_theta": 50.0, "rope_type": "default"},
            },
            "sliding_window": 20,
            "tie_word_embeddings": False,
            "use_attention_gate": True,
            "use_cache": True,
            "use_sandwich_norm": True,
        },
        {"dtype": "BF16"},
    ),
    "lfm3-plain": (
        {
            **SMALL,
            "layer_types": ["conv", "full_attention", "conv"],
            "num_hidden_layers": 3,
            "num_key_value_heads": 4,
            "rope_parameters": {
                "full_attention": {"rope_theta": 1000.0, "rope_type": "default"},
            },
            "use_attention_gate": False,
            "use_sandwich_norm": False,
        },
        {},
    ),
}
