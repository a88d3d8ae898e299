"""Olmo Hybrid: Gated DeltaNet, every fourth layer softmax attention.

The mixer is that of gated_deltanet, but that heads are normalised with 1e-5
whatever the model's eps is, and that beta doubles unless the file says
otherwise. Softmax attention normalises q and k over all heads together, and
turns them only where the file names a theta.

Linear layers are h += mixer(norm(h)), softmax layers h += norm(mixer(h)), both
likewise with the MLP. The norms of linear layers have other names in
published files than transformers gives them.
"""

from families import gated_deltanet
from language_model import CausalLm, Mlp, mixer_part
from layer import Config
from pointwise import rms_norm
from softmax_attention import Shape, SoftmaxAttention, softmax_tensors

DEFAULTS = {
    "hidden_size": 3840,
    "num_hidden_layers": 32,
    "vocab_size": 100352,
    "intermediate_size": 11008,
    "num_attention_heads": 30,
    "attention_bias": False,
    "linear_conv_kernel_dim": 4,
    "linear_allow_neg_eigval": True,
}


def layer_types(config):
    layers = config["num_hidden_layers"]
    kinds = [("linear_attention", "full_attention")[n % 4 == 3] for n in range(layers)]
    if "full_attention" not in kinds:
        kinds[-1] = "full_attention"
    return config.get("layer_types", kinds)


def sizes(config):
    """Query heads, value heads, key width, value width."""
    heads = config["num_attention_heads"]
    H = config.get("linear_num_key_heads", heads)
    K = config.get("linear_key_head_dim", int(0.75 * config["hidden_size"] / H))
    return (
        H,
        config.get("linear_num_value_heads", heads),
        K,
        config.get("linear_value_head_dim", 2 * K),
    )


def as_gated_deltanet(config):
    """The same by the names that gated_deltanet knows."""
    H, HV, K, V = sizes(config)
    values = {
        "hidden_size": config["hidden_size"],
        "num_heads": H,
        "num_v_heads": HV,
        "head_dim": K,
        "expand_v": V / K,
        "conv_size": config["linear_conv_kernel_dim"],
        "allow_neg_eigval": config["linear_allow_neg_eigval"],
        "norm_eps": 1e-5,
    }
    return Config(values, gated_deltanet.DEFAULTS)


class LinearModel:
    """The model, with the config as gated_deltanet wants it."""

    def __init__(self, model):
        self.config = as_gated_deltanet(model.config)
        self.tensors, self.rounded = model.tensors, model.rounded


def linear_attention(model, n, prefix):
    return gated_deltanet.Mixer(LinearModel(model), n, prefix)


def linear_tensors(case, n, p):
    family_config, case.config = case.config, as_gated_deltanet(case.config)
    gated_deltanet.tensors(case, n, p)
    case.config = family_config


class FullAttention(SoftmaxAttention):
    def normed(self, part, heads):
        """Over all heads together."""
        weight = self.tensor(part + "_norm.weight")
        return rms_norm(heads.reshape(-1), weight, self.shape.eps).reshape(heads.shape)


def attention_shape(config):
    H = config["num_attention_heads"]
    d = config.get("head_dim", config["hidden_size"] // H)
    theta = config.get("rope_parameters", {}).get("rope_theta")
    theta = config.get("rope_theta") if theta is None else theta
    return Shape(
        H=H,
        G=config.get("num_key_value_heads", H),
        d=d,
        rotary=0 if theta is None else d,
        theta=theta or 1.0,
        norms=(),  # of another shape, below
        eps=config.norm_eps(),
        biases="qkvo" if config["attention_bias"] else "",
    )


def full_attention(model, n, prefix):
    return FullAttention(model, attention_shape(model.config), prefix)


def full_tensors(case, n, p):
    shape = attention_shape(case.config)
    softmax_tensors(case, p, shape)
    case.vector(p + "q_norm.weight", shape.H * shape.d, 1.5, 0.3)
    case.vector(p + "k_norm.weight", shape.G * shape.d, 1.5, 0.3)


KINDS = {
    "linear_attention": ("linear_attn.", linear_attention, linear_tensors),
    "full_attention": ("self_attn.", full_attention, full_tensors),
}

# The two norms of a layer: as transformers calls them, and as published files
# and those that it writes do.
NORMS = {
    "linear_attention": (
        ("input_layernorm", "post_attention_layernorm"),
        ("attention_layer_norm", "feedforward_layer_norm"),
    ),
    "full_attention": (
        ("post_attention_layernorm", "post_feedforward_layernorm"),
        ("feedforward_layer_norm", "post_feedforward_layernorm"),
    ),
}


class Block:
    """One layer."""

    def __init__(self, model, n):
        prefix = "model.layers.%d." % n
        kind = layer_types(model.config)[n]
        self.after = kind == "full_attention"
        self.eps = model.config.norm_eps()
        self.mixer = model.make_mixer(n, prefix)
        self.mlp = Mlp(model, prefix + "mlp.")
        published = prefix + NORMS[kind][1][0] + ".weight" in model.tensors
        self.norms = [
            model.tensors[prefix + name + ".weight"] for name in NORMS[kind][published]
        ]

    def added(self, h, norm, mix):
        if self.after:
            return rms_norm(mix(h), norm, self.eps)
        return mix(rms_norm(h, norm, self.eps))

    def step(self, h, position):
        h = h + self.added(h, self.norms[0], lambda x: self.mixer.step(x, position))
        return h + self.added(h, self.norms[1], self.mlp.step)

    def order_matters(self):
        return True


class Model(CausalLm):
    EMBEDDINGS = "model.embed_tokens.weight"

    def make_block(self, n):
        return Block(self, n)


def all_tensors(case):
    """stored "published": norms are called as in published files."""
    D, published = case.config["hidden_size"], case.stored.get("published", False)
    case.embeddings("model.embed_tokens.weight")
    for n in range(case.config["num_hidden_layers"]):
        p = "model.layers.%d." % n
        part, _, tensors = mixer_part(case.family, case.config, n)
        tensors(case, n, p + part)
        case.mlp(p + "mlp.")
        for name in NORMS[layer_types(case.config)[n]][published]:
            case.vector(p + name + ".weight", D, 1.0, 0.3)
    case.vector("model.norm.weight", D, 1.0, 0.3)
    case.head("lm_head.weight")


SMALL = {
    "norm_eps": None,
    "rms_norm_eps": 1e-6,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "pad_token_id": 56,  # the library's own default is in no small vocabulary
}

CASES = {
    # The keys of published files.
    "olmo_hybrid": (
        {
            **SMALL,
            "architectures": ["OlmoHybridForCausalLM"],
            "attention_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": None,
            "dtype": "float32",
            "eos_token_id": 57,
            "hidden_act": "silu",
            "initializer_range": 0.02,
            "layer_types": ["linear_attention"] * 3 + ["full_attention"],
            "linear_a_log_max": 16.0,
            "linear_a_log_min": 0.0,
            "linear_allow_neg_eigval": True,
            "linear_conv_kernel_dim": 4,
            "linear_dt_init_floor": 0.0001,
            "linear_dt_max": 0.1,
            "linear_dt_min": 0.001,
            "linear_key_head_dim": 6,
            "linear_num_key_heads": 4,
            "linear_num_value_heads": 4,
            "linear_value_head_dim": 12,
            "max_position_embeddings": 65536,
            "num_key_value_heads": 4,
            "rope_parameters": {"rope_theta": None, "rope_type": "default"},
            "tie_word_embeddings": False,
            "use_cache": True,
        },
        {"published": True},
    ),
    "olmo_hybrid-turning": (
        {
            **SMALL,
            "layer_types": [
                "full_attention",
                "linear_attention",
                "linear_attention",
                "full_attention",
            ],
            "attention_bias": True,
            "num_key_value_heads": 2,
            "head_dim": 12,
            "rope_parameters": {"rope_theta": 500.0, "rope_type": "default"},
            "linear_num_key_heads": 2,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 12,
            "linear_conv_kernel_dim": 3,
            "linear_allow_neg_eigval": False,
            "rms_norm_eps": 1e-3,
        },
        {},
    ),
    # All that the file may leave out; transformers turns heads then.
    "olmo_hybrid-defaults": ({**SMALL, "num_hidden_layers": 2}, {}),
}
