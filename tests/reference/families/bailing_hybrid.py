"""Ling 3.0 (Bailing): the parts of Kimi Linear, otherwise.

Decays and gates of Kimi delta attention are of full rank, decays bounded below
(kda_safe_gate); latent attention turns what its heads share, pairs side by
side, and multiplies each head's output by the sigmoid of one number. Experts
are chosen from the best groups. What an expert's two factors are bounded by,

    E(x) = W_d (min(silu(W_g x), L) * clamp(W_u x, -L, L)),

expert_swiglu_limit_list says for each layer, and share_expert_swiglu_limit_list
for the expert that all tokens have; 0 is no bound.
"""

import dataclasses

from families import kimi_linear
from families.kimi_linear import FULL, LINEAR, is_dense, shared_tensors
from latent_attention import LatentAttention, latent_shape, latent_tensors
from mixture import Mixture, mixture_tensors
from softmax_attention import rotary_option

DEFAULTS = {
    **kimi_linear.DEFAULTS,
    "hidden_size": 2560,
    "num_hidden_layers": 42,
    "vocab_size": 157184,
    "intermediate_size": 6144,
    "norm_eps": 1e-6,
    "rope_theta": 6e6,
    "head_dim": 128,
    "layer_group_size": 6,
    "kda_safe_gate": True,
    "kda_lower_bound": -5.0,
    "first_k_dense_replace": 2,
    "moe_intermediate_size": 768,
    "num_experts": 512,
    "num_expert_group": 8,
    "topk_group": 4,
    "routed_scaling_factor": 2.5,
}


def respell(values):
    aliases = {**kimi_linear.ALIASES, "short_conv_kernel_size": "linear_conv_kernel_dim"}
    found = {aliases.get(key, key): value for key, value in values.items()}
    layers = range(values["num_hidden_layers"])

    def default(key):
        value = found.get(key)
        return DEFAULTS[key] if value is None else value

    # transformers writes the width of rotary heads as head_dim.
    found.setdefault("linear_head_dim", default("head_dim"))
    found.setdefault("linear_num_heads", default("num_attention_heads"))
    if found.get("layer_types") is None:
        group = default("layer_group_size")
        found["layer_types"] = [LINEAR if (n + 1) % group else FULL for n in layers]
    if found.get("mlp_layer_types") is None:
        dense = default("first_k_dense_replace")
        found["mlp_layer_types"] = ["dense" if n < dense else "sparse" for n in layers]
    return found


layer_types = kimi_linear.layer_types


class DeltaAttention(kimi_linear.DeltaAttention):
    DECAY_PARTS, GATE_PARTS, OUT = ("f_proj",), ("g_proj",), "dense"

    def lower_bound(self):
        safe = self.config["kda_safe_gate"]
        return self.config["kda_lower_bound"] if safe else None


def delta_tensors(case, n, p):
    D, config = case.config["hidden_size"], case.config
    H, K = config["linear_num_heads"], config["linear_head_dim"]
    for part in "qkv":
        case.matrix(p + part + "_proj.weight", H * K, D)
        taps = config["linear_conv_kernel_dim"]
        case.taps(p + part + "_conv1d.weight", H * K, taps)
    case.matrix(p + "b_proj.weight", H, D)
    case.vector(p + "A_log", H, -0.5, 1.0)
    center = -3.0 if config["kda_safe_gate"] else -1.0
    case.vector(p + "dt_bias", H * K, center, 1.0)
    case.matrix(p + "f_proj.weight", H * K, D)
    case.matrix(p + "g_proj.weight", H * K, D)
    case.vector(p + "o_norm.weight", K, 1.0, 0.3)
    case.matrix(p + "dense.weight", D, H * K)


def attention_shape(config):
    theta = rotary_option(config, "rope_theta")
    return latent_shape(config, theta=theta, gated=True, out="dense")


def full_attention(model, n, prefix):
    return LatentAttention(model, attention_shape(model.config), prefix)


def full_tensors(case, n, p):
    latent_tensors(case, p, attention_shape(case.config))


KINDS = {
    LINEAR: ("attention.", DeltaAttention, delta_tensors),
    FULL: ("attention.", full_attention, full_tensors),
}


def shape(config, n):
    def limit(key):
        limits = config.get(key, [])
        return (limits[n] if n < len(limits) else 0) or 0.0

    return dataclasses.replace(
        kimi_linear.shape(config),
        bias="gate.expert_bias",
        names=("gate_proj", "up_proj", "down_proj"),
        limit=limit("expert_swiglu_limit_list"),
        shared_limit=limit("share_expert_swiglu_limit_list"),
    )


class Model(kimi_linear.Model):
    EMBEDDINGS = "model.word_embeddings.weight"
    EXPERTS = "mlp."

    def make_mlp(self, n, prefix):
        if is_dense(self.config, n):
            return super().make_mlp(n, prefix)
        return Mixture(self, prefix + self.EXPERTS, shape(self.config, n))


def channel_tensors(case, n, p):
    p = p + Model.EXPERTS
    if is_dense(case.config, n):
        case.mlp(p)
        return
    fused = case.stored.get("fused", False)
    mixture_tensors(case, p, shape(case.config, n), fused)
    shared_tensors(case, p)


# Sizes that tell all widths apart.
SMALL = {
    **kimi_linear.SMALL,
    "rms_norm_eps": 1e-6,
    "head_dim": 8,
    "num_experts": 8,
}
del SMALL["num_experts_per_token"]

CASES = {
    # The keys and names of published files.
    "bailing_hybrid": (
        {
            **SMALL,
            "num_hidden_layers": 3,
            "architectures": ["BailingMoeV3ForCausalLM"],
            "attention_dropout": 0.0,
            "auto_map": {
                "AutoConfig": "configuration_bailing_moe_v3.BailingMoeV3Config",
                "AutoModel": "modeling_bailing_moe_v3.BailingMoeV3Model",
                "AutoModelForCausalLM": "modeling_bailing_moe_v3.BailingMoeV3ForCausalLM",
            },
            "dtype": "bfloat16",
            "embedding_dropout": 0.0,
            "eos_token_id": 3,
            "expert_swiglu_limit_list": None,
            "first_k_dense_replace": 2,
            "gated_attention_proj_granularity_type": "head_wise",
            "group_norm_size": 1,
            "hidden_act": "silu",
            "initializer_range": 0.02,
            "kda_lower_bound": -5.0,
            "kda_safe_gate": True,
            "layer_group_size": 3,
            "linear_silu": True,
            "max_position_embeddings": 131072,
            "max_window_layers": 20,
            "moe_router_enable_expert_bias": True,
            "moe_shared_expert_intermediate_size": 12,
            "mtp_loss_scaling_factor": 0,
            "mtp_use_kda": False,
            "n_group": 4,
            "no_kda_lora": True,
            "norm_topk_prob": True,
            "num_experts_per_tok": 2,
            "num_kv_heads_for_linear_attn": 0,
            "num_nextn_predict_layers": 0,
            "num_shared_experts": 1,
            "output_dropout": 0.0,
            "output_router_logits": False,
            "partial_rotary_factor": 0.5,
            "q_lora_rank": None,
            "qk_head_dim": 18,
            "rope_interleave": True,
            "rope_scaling": None,
            "rope_theta": 1000,
            "rotary_dim": 6,
            "routed_scaling_factor": 2.5,
            "router_dtype": "fp32",
            "scale_router_input": False,
            "score_function": "sigmoid",
            "share_expert_swiglu_limit_list": None,
            "short_conv_kernel_size": 4,
            "tie_word_embeddings": False,
            "topk_group": 2,
            "use_bias": False,
            "use_cache": True,
            "use_kda_lora": False,
            "use_mla_nope": False,
            "use_qk_norm": True,
            "use_qkv_bias": False,
        },
        {"dtype": "BF16", "seed": 107},
    ),
    # As transformers writes it, longer than a chunk.
    "bailing_hybrid-long": (
        {
            **SMALL,
            "attention_bias": True,
            "head_dim": 6,
            "kda_safe_gate": False,
            "layer_types": [FULL, LINEAR],
            "linear_conv_kernel_dim": 3,
            "linear_head_dim": 12,
            "linear_num_heads": 6,
            "mlp_layer_types": ["sparse", "dense"],
            "model_max_length": 4096,
            "moe_renormalize": False,
            "num_expert_group": 2,
            "num_experts_per_token": 3,
            "num_shared_experts": 2,
            "rope_parameters": {"rope_theta": 300.0, "rope_type": "default"},
            "routed_scaling_factor": 1.5,
            "short_conv_kernel_size": 3,
            "topk_group": 1,
        },
        {"tokens": 90, "seed": 32},
    ),
    # What experts put out is bounded, and queries are of low rank.
    "bailing_hybrid-limits": (
        {
            **SMALL,
            "expert_swiglu_limit_list": [0.5, 0.0],
            "first_k_dense_replace": 0,
            "kda_lower_bound": -2.0,
            "layer_group_size": 2,
            "n_group": 1,
            "num_experts": 5,
            "num_experts_per_tok": 2,
            "q_lora_rank": 16,
            "share_expert_swiglu_limit_list": [0, 0.25, 0],
            "topk_group": 1,
        },
        {"fused": True, "seed": 5},
    ),
}
