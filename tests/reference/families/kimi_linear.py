"""Kimi Linear: Kimi delta attention, every few layers latent attention without
positions, and mixtures of experts in all layers but the first.

The former is kda with other names and no bias of the gate, as many value heads
as key heads and as wide. linear_attn_config counts layers from 1. All channel
mixers may be called block_sparse_moe, or the MLPs mlp.
"""

from families import kda
from language_model import CausalLm, Mlp
from latent_attention import LatentAttention, latent_shape, latent_tensors
from mixture import Mixture, Shape, mixture_tensors

DEFAULTS = {
    "hidden_size": 2304,
    "num_hidden_layers": 27,
    "vocab_size": 163840,
    "intermediate_size": 9216,
    "norm_eps": 1e-5,
    "num_attention_heads": 32,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "attention_bias": False,
    "linear_num_heads": 32,
    "linear_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "use_short_conv": True,
    "allow_neg_eigval": False,
    "first_k_dense_replace": 1,
    "moe_intermediate_size": 1024,
    "num_experts": 256,
    "num_experts_per_token": 8,
    "num_shared_experts": 1,
    "num_expert_group": 1,
    "topk_group": 1,
    "moe_renormalize": True,
    "routed_scaling_factor": 2.446,
}

ALIASES = {
    "n_group": "num_expert_group",
    "n_shared_experts": "num_shared_experts",
    "norm_topk_prob": "moe_renormalize",
    "num_experts_per_tok": "num_experts_per_token",
    "num_local_experts": "num_experts",
}

INNER = {
    "head_dim": "linear_head_dim",
    "num_heads": "linear_num_heads",
    "short_conv_kernel_size": "linear_conv_kernel_dim",
}

LINEAR, FULL = "linear_attention", "full_attention"


def respell(values):
    found = {ALIASES.get(key, key): value for key, value in values.items()}
    inner = values.get("linear_attn_config") or {}
    found.update({INNER[key]: inner[key] for key in INNER if key in inner})
    layers = range(values["num_hidden_layers"])
    if found.get("layer_types") is None:
        full = [n - 1 for n in inner.get("full_attn_layers", ())]
        if not inner:
            full = [n for n in layers if n and n % 4 == 0]
        found["layer_types"] = [FULL if n in full else LINEAR for n in layers]
    if found.get("mlp_layer_types") is None:
        dense = found.get("first_k_dense_replace", DEFAULTS["first_k_dense_replace"])
        found["mlp_layer_types"] = ["dense" if n < dense else "sparse" for n in layers]
    return found


def layer_types(config):
    return config["layer_types"]


class DeltaAttention(kda.Mixer):
    DECAY_PARTS, GATE_PARTS = ("f_a_proj", "f_b_proj"), ("g_a_proj", "g_b_proj")

    def sizes(self):
        H, K = self.config["linear_num_heads"], self.config["linear_head_dim"]
        return H, H, K, K


def delta_tensors(case, n, p):
    D, config = case.config["hidden_size"], case.config
    H, K = config["linear_num_heads"], config["linear_head_dim"]
    for part in "qkv":
        case.matrix(p + part + "_proj.weight", H * K, D)
        taps = config["linear_conv_kernel_dim"]
        case.taps(p + part + "_conv1d.weight", H * K, taps)
    case.matrix(p + "b_proj.weight", H, D)
    case.uniform(p + "A_log", (1, 1, H, 1), -0.5, 1.0)
    case.vector(p + "dt_bias", H * K, -1.0, 1.0)
    for part in "fg":
        case.matrix(p + part + "_a_proj.weight", K, D)
        case.matrix(p + part + "_b_proj.weight", H * K, K)
    case.vector(p + "o_norm.weight", K, 1.0, 0.3)
    case.matrix(p + "o_proj.weight", D, H * K)


def full_attention(model, n, prefix):
    return LatentAttention(model, latent_shape(model.config), prefix)


def full_tensors(case, n, p):
    latent_tensors(case, p, latent_shape(case.config))


KINDS = {
    LINEAR: ("self_attn.", DeltaAttention, delta_tensors),
    FULL: ("self_attn.", full_attention, full_tensors),
}


def is_dense(config, n):
    return config["mlp_layer_types"][n] == "dense"


def shape(config):
    return Shape(
        experts=config["num_experts"],
        chosen=config["num_experts_per_token"],
        width=config["moe_intermediate_size"],
        scores="sigmoid",
        divided_with=1e-20 if config["moe_renormalize"] else None,
        factor=config["routed_scaling_factor"],
        bias="gate.e_score_correction_bias",
        groups=config["num_expert_group"],
        groups_kept=config["topk_group"],
        names=("w1", "w3", "w2"),
        shared="shared_experts.",
    )


class Model(CausalLm):
    EMBEDDINGS = "model.embed_tokens.weight"
    NORMS = ("input_layernorm", "post_attention_layernorm")
    EXPERTS = "block_sparse_moe."

    def make_mlp(self, n, prefix):
        experts = prefix + self.EXPERTS
        if not is_dense(self.config, n):
            return Mixture(self, experts, shape(self.config))
        # By the one name or the other.
        if experts + "up_proj.weight" in self.tensors:
            return Mlp(self, experts)
        return super().make_mlp(n, prefix)


def shared_tensors(case, p):
    """Of the experts that all tokens have."""
    D, config = case.config["hidden_size"], case.config
    width = config["moe_intermediate_size"] * config["num_shared_experts"]
    p = p + "shared_experts."
    case.matrix(p + "gate_proj.weight", width, D)
    case.matrix(p + "up_proj.weight", width, D)
    case.matrix(p + "down_proj.weight", D, width)


def channel_tensors(case, n, p):
    """Stored "written": as transformers writes them."""
    if is_dense(case.config, n):
        case.mlp(p + (Model.EXPERTS if case.stored.get("written") else Model.MLP))
        return
    fused = case.stored.get("fused", False)
    mixture_tensors(case, p + Model.EXPERTS, shape(case.config), fused)
    shared_tensors(case, p + Model.EXPERTS)


# Sizes that tell all widths apart.
SMALL = {
    "norm_eps": None,
    "rms_norm_eps": 1e-5,
    "intermediate_size": 40,
    "pad_token_id": 0,
    "num_attention_heads": 6,
    "num_key_value_heads": 6,
    "kv_lora_rank": 20,
    "qk_nope_head_dim": 12,
    "qk_rope_head_dim": 6,
    "v_head_dim": 10,
    "moe_intermediate_size": 12,
    "num_experts": 6,
    "num_experts_per_token": 2,
}

CASES = {
    # The keys and names of published files.
    "kimi_linear": (
        {
            **SMALL,
            "num_hidden_layers": 3,
            "architectures": ["KimiLinearForCausalLM"],
            "auto_map": {
                "AutoConfig": "configuration_kimi.KimiLinearConfig",
                "AutoModel": "modeling_kimi.KimiLinearModel",
                "AutoModelForCausalLM": "modeling_kimi.KimiLinearForCausalLM",
            },
            "bos_token_id": 1,
            "dtype": "bfloat16",
            "eos_token_id": 2,
            "first_k_dense_replace": 1,
            "head_dim": 8,
            "hidden_act": "silu",
            "initializer_range": 0.02,
            "linear_attn_config": {
                "full_attn_layers": [3],
                "head_dim": 8,
                "kda_layers": [1, 2],
                "num_heads": 4,
                "short_conv_kernel_size": 4,
            },
            "mla_use_nope": True,
            "model_max_length": 1048576,
            "moe_layer_freq": 1,
            "moe_renormalize": True,
            "moe_router_activation_func": "sigmoid",
            "num_expert_group": 1,
            "num_nextn_predict_layers": 0,
            "num_shared_experts": 1,
            "q_lora_rank": None,
            "rope_scaling": None,
            "rope_theta": 10000.0,
            "routed_scaling_factor": 2.446,
            "tie_word_embeddings": False,
            "topk_group": 1,
            "use_cache": True,
            "use_grouped_topk": True,
        },
        {"dtype": "BF16", "seed": 102},
    ),
    # As transformers writes it, of the best groups.
    "kimi_linear-groups": (
        {
            **SMALL,
            "layer_types": [FULL, LINEAR],
            "linear_conv_kernel_dim": 3,
            "linear_head_dim": 16,
            "linear_num_heads": 2,
            "mlp_layer_types": ["sparse", "dense"],
            "moe_renormalize": False,
            "num_expert_group": 4,
            "num_experts": 12,
            "num_experts_per_token": 3,
            "num_shared_experts": 2,
            "rms_norm_eps": 1e-3,
            "routed_scaling_factor": 1.5,
            "topk_group": 2,
        },
        {"written": True, "seed": 116},
    ),
    # Longer than a chunk, with queries of low rank.
    "kimi_linear-long": (
        {
            **SMALL,
            "attention_bias": True,
            "linear_attn_config": {
                "full_attn_layers": [2],
                "head_dim": 12,
                "kda_layers": [1],
                "num_heads": 2,
                "short_conv_kernel_size": 4,
            },
            "first_k_dense_replace": 0,
            "num_experts": 5,
            "q_lora_rank": 16,
            "tie_word_embeddings": False,
        },
        {"fused": True, "tokens": 90, "seed": 17},
    ),
}
