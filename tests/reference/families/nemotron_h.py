"""Nemotron-H: Mamba-2, softmax attention without positions, an MLP without a
gate, or a mixture of such in each layer.

    h += mixer(norm h)
    mlp:  y = down_proj relu(up_proj x)^2

hybrid_override_pattern has a letter for each layer: M (Mamba-2), * (attention),
- (MLP), E (mixture); or layers_block_type, or layer_types, its name. The layers are as many
as that says. Mamba-2 is that of mamba2.py with channels of its own number, its
norm over each group. Published files call the whole model backbone, newer ones
model.
"""

import numpy as np

from families import mamba, mamba2
from language_model import CausalLm, mixer_part
from layer import Layer
from mixture import Mixture, Shape, mixture_tensors
from pointwise import relu, rms_norm, silu
from softmax_attention import (
    SoftmaxAttention,
    softmax_tensors,
    transformers_shape,
)

DEFAULTS = {
    "hidden_size": 4096,
    "vocab_size": 131072,
    "intermediate_size": 21504,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "norm_eps": 1e-5,
    "mlp_bias": False,
    "use_bias": False,
    "use_conv_bias": True,
    "conv_kernel": 4,
    "n_groups": 8,
    "ssm_state_size": 128,
    "mamba_num_heads": 128,
    "mamba_head_dim": 64,
    "rope_theta": 10000.0,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 7688,
    "moe_shared_expert_intermediate_size": 7688,
    "routed_scaling_factor": 1.0,
    "n_group": 1,
    "topk_group": 1,
    "norm_topk_prob": True,
}

# Keys of older files.
ALIASES = {
    "mamba_n_groups": "n_groups",
    "mamba_d_conv": "conv_kernel",
    "mamba_conv_bias": "use_conv_bias",
    "mamba_dt_limit": "time_step_limit",
}

LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


def respell(values):
    found = {ALIASES[key]: values[key] for key in ALIASES if key in values}
    found = {**values, **found}
    for key in ("layer_types", "layers_block_type"):
        if key in values:
            kinds = values[key]
            break
    else:
        kinds = [LETTERS[letter] for letter in values["hybrid_override_pattern"]]
    return {**found, "layer_types": kinds, "num_hidden_layers": len(kinds)}


def layer_types(config):
    return config["layer_types"]


def sizes(config):
    """Channels, heads, head width, state width, groups."""
    H, P = config["mamba_num_heads"], config["mamba_head_dim"]
    return H * P, H, P, config["ssm_state_size"], config["n_groups"]


class Mamba(mamba2.Mixer):
    def __init__(self, model, n, prefix):
        Layer.__init__(self, model, prefix)
        self.E, self.H, self.P, self.N, self.G = sizes(self.config)
        self.conv = self.causal_conv("conv1d")
        self.S = np.zeros((self.H, self.P, self.N))

    def gated(self, y, z):
        eps = self.config.norm_eps()
        groups = np.split(y * silu(z), self.G)
        y = np.concatenate([rms_norm(part, None, eps) for part in groups])
        return y * self.tensor("norm.weight")


def mamba_tensors(case, n, p):
    D = case.config["hidden_size"]
    E, H, P, N, G = sizes(case.config)
    channels = E + 2 * G * N
    mamba.linear(case, p, "in_proj", E + channels + H, D)
    mamba.convolution(case, p, channels)
    case.vector(p + "dt_bias", H, -1.0, 1.0)
    case.vector(p + "A_log", H, 0.0, 1.5)
    case.vector(p + "D", H, 1.0, 0.5)
    case.vector(p + "norm.weight", E, 1.0, 0.3)
    mamba.linear(case, p, "out_proj", D, E)


class Mlp(Layer):
    def __init__(self, model, n, prefix):
        super().__init__(model, prefix)

    def step(self, x, position):
        return self.project("down_proj", relu(self.project("up_proj", x)) ** 2)


def mlp_tensors(case, n, p):
    D, width = case.config["hidden_size"], case.config["intermediate_size"]
    for name, rows, columns in (("up_proj", width, D), ("down_proj", D, width)):
        case.matrix(p + name + ".weight", rows, columns)
        if case.config["mlp_bias"]:
            case.vector(p + name + ".bias", rows, 0.0, 0.5)


def mixture_shape(config):
    return Shape(
        experts=config["n_routed_experts"],
        chosen=config["num_experts_per_tok"],
        width=config["moe_intermediate_size"],
        scores="sigmoid",
        divided_with=1e-20 if config["norm_topk_prob"] else None,
        factor=config["routed_scaling_factor"],
        act="sqrelu",
        bias="gate.e_score_correction_bias",
        groups=config["n_group"],
        groups_kept=config["topk_group"],
        names=(None, "up_proj", "down_proj"),
        fused=("experts.up_proj", "experts.down_proj"),
        shared="shared_experts.",
        shared_names=(None, "up_proj", "down_proj"),
    )


class Experts(Mixture):
    def __init__(self, model, n, prefix):
        super().__init__(model, prefix, mixture_shape(model.config))

    def step(self, x, position):
        if self.config.get("moe_latent_size") is None:
            return super().step(x)
        latent = self.project("fc1_latent_proj", x)
        parts = [weight * self.expert(e, latent) for e, weight in self.choose(x)]
        return self.project("fc2_latent_proj", sum(parts)) + self.shared(x)


def experts_tensors(case, n, p):
    fused = case.stored.get("fused", False)
    latent = case.config.get("moe_latent_size")
    D = case.config["hidden_size"]
    mixture_tensors(case, p, mixture_shape(case.config), fused, latent or D)
    if latent:
        for name, rows, columns in (("fc1", latent, D), ("fc2", D, latent)):
            q = p + name + "_latent_proj."
            case.matrix(q + "weight", rows, columns)
            if case.config["mlp_bias"]:
                case.vector(q + "bias", rows, 0.0, 0.5)
    width = case.config["moe_shared_expert_intermediate_size"]
    q = p + "shared_experts."
    for name, rows, columns in (("up_proj", width, D), ("down_proj", D, width)):
        case.matrix(q + name + ".weight", rows, columns)
        if case.config["mlp_bias"]:
            case.vector(q + name + ".bias", rows, 0.0, 0.5)


def attention_shape(config):
    return transformers_shape(config, share=0.0)


def attention(model, n, prefix):
    return SoftmaxAttention(model, attention_shape(model.config), prefix)


def attention_tensors(case, n, p):
    softmax_tensors(case, p, attention_shape(case.config))


MAMBA = ("mixer.", Mamba, mamba_tensors)
ATTENTION = ("mixer.", attention, attention_tensors)
# By either name.
KINDS = {
    "mamba": MAMBA,
    "linear_attention": MAMBA,
    "attention": ATTENTION,
    "full_attention": ATTENTION,
    "mlp": ("mixer.", Mlp, mlp_tensors),
    "moe": ("mixer.", Experts, experts_tensors),
}


class Block(mamba.Block):
    def __init__(self, model, n):
        prefix = "model.layers.%d." % n
        self.eps = model.config.norm_eps()
        self.mixer = model.make_mixer(n, prefix)
        self.norm = model.tensors[prefix + "norm.weight"]


class Model(CausalLm):
    EMBEDDINGS = "model.embeddings.weight"
    FINAL_NORM = "model.norm_f"

    def __init__(self, family, values, tensors, rounded):
        own = {name.replace("backbone.", "model."): tensors[name] for name in tensors}
        super().__init__(family, values, own, rounded)

    def make_block(self, n):
        return Block(self, n)


def all_tensors(case):
    """stored "root": what all names but the head's begin with."""
    D, root = case.config["hidden_size"], case.stored.get("root", "model.")
    case.embeddings(root + "embeddings.weight")
    for n in range(case.config["num_hidden_layers"]):
        p = root + "layers.%d." % n
        case.vector(p + "norm.weight", D, 1.0, 0.3)
        part, _, tensors = mixer_part(case.family, case.config, n)
        tensors(case, n, p + part)
    case.vector(root + "norm_f.weight", D, 1.0, 0.3)
    case.head("lm_head.weight")


SMALL = {
    "norm_eps": None,
    "num_hidden_layers": None,
    "intermediate_size": 40,
    "layer_norm_epsilon": 1e-5,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "mamba_num_heads": 4,
    "mamba_head_dim": 12,
    "ssm_state_size": 8,
    # The library raises steps of time to this in one of its paths.
    "time_step_min": 1e-30,
}

CASES = {
    # The keys of published files.
    "nemotron_h": (
        {
            **SMALL,
            "architectures": ["NemotronHForCausalLM"],
            "attention_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": 1,
            "chunk_size": 128,
            "conv_kernel": 4,
            "eos_token_id": 2,
            "expand": 2,
            "hidden_dropout": 0.0,
            "hybrid_override_pattern": "M-M*-",
            "initializer_range": 0.02,
            "mamba_hidden_act": "silu",
            "n_groups": 2,
            "mamba_proj_bias": False,
            "max_position_embeddings": 262144,
            "mlp_bias": False,
            "mlp_hidden_act": "relu2",
            "num_hidden_layers": 5,
            "num_logits_to_keep": 1,
            "pad_token_id": 0,
            "rescale_prenorm_residual": True,
            "residual_in_fp32": False,
            "sliding_window": None,
            "tie_word_embeddings": False,
            "time_step_floor": 0.0001,
            "time_step_limit": [0.0, float("inf")],
            "time_step_max": 0.1,
            "torch_dtype": "bfloat16",
            "transformers_version": "4.55.4",
            "use_bias": False,
            "use_cache": True,
            "use_conv_bias": True,
            "use_mamba_kernels": True,
        },
        {"root": "backbone."},
    ),
    "nemotron_h-biases": (
        {
            **SMALL,
            "layers_block_type": [
                "full_attention",
                "mlp",
                "linear_attention",
                "full_attention",
            ],
            "mlp_bias": True,
            "n_groups": 2,
            "use_bias": True,
            "use_conv_bias": False,
            "conv_kernel": 3,
            "num_key_value_heads": 1,
            "layer_norm_epsilon": 1e-3,
        },
        {},
    ),
    "nemotron_h-older-keys": (
        {
            **SMALL,
            "layers_block_type": ["mlp", "mamba", "mamba"],
            "mamba_n_groups": 4,
            "mamba_d_conv": 2,
            "mamba_conv_bias": True,
            "mamba_dt_limit": [0.2, 0.6],
        },
        {},
    ),
    # As published.
    "nemotron_h-experts": (
        {
            **SMALL,
            "hybrid_override_pattern": "ME*E",
            "n_groups": 2,
            "moe_intermediate_size": 12,
            "moe_shared_expert_intermediate_size": 20,
            "n_group": 1,
            "n_routed_experts": 6,
            "n_shared_experts": 1,
            "norm_topk_prob": True,
            "num_experts_per_tok": 2,
            "routed_scaling_factor": 2.5,
            "topk_group": 1,
        },
        {"root": "backbone.", "seed": 35},
    ),
    # Experts in a latent width, as published.
    "nemotron_h-latent": (
        {
            **SMALL,
            "hybrid_override_pattern": "EM*E",
            "n_groups": 1,
            "moe_intermediate_size": 20,
            "moe_latent_size": 16,
            "moe_shared_expert_intermediate_size": 24,
            "n_routed_experts": 5,
            "num_experts_per_tok": 2,
            "routed_scaling_factor": 5.0,
        },
        {"root": "backbone.", "dtype": "BF16", "seed": 35},
    ),
    # The same in the layout of transformers, with biases.
    "nemotron_h-latent-wide": (
        {
            **SMALL,
            "layers_block_type": ["linear_attention", "moe"],
            "n_groups": 2,
            "mlp_bias": True,
            "moe_intermediate_size": 12,
            "moe_latent_size": 40,
            "moe_shared_expert_intermediate_size": 16,
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
        },
        {"fused": True, "seed": 5},
    ),
    # As transformers has them in memory, of the best groups.
    "nemotron_h-expert-groups": (
        {
            **SMALL,
            "layers_block_type": ["moe", "linear_attention"],
            "n_groups": 2,
            "mlp_bias": True,
            "moe_intermediate_size": 16,
            "moe_shared_expert_intermediate_size": 12,
            "n_group": 4,
            "n_routed_experts": 12,
            "norm_topk_prob": False,
            "num_experts_per_tok": 3,
            "topk_group": 2,
        },
        {"fused": True, "dtype": "BF16", "seed": 67},
    ),
}
