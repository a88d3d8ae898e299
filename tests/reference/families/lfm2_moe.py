"""LFM2 with mixtures of experts in all layers but the first: all else is as in
lfm2, but for the width of an MLP, which is as stated.
"""

from families import lfm2
from families.lfm2 import KINDS, layer_types
from mixture import Mixture, Shape, mixture_tensors

__all__ = ["KINDS", "layer_types"]

DEFAULTS = {
    **lfm2.DEFAULTS,
    "hidden_size": 2048,
    "intermediate_size": 7168,
    "block_auto_adjust_ff_dim": False,
    "moe_intermediate_size": 1792,
    "num_dense_layers": 2,
    "num_experts": 32,
    "num_experts_per_tok": 4,
    "use_expert_bias": True,
    "norm_topk_prob": True,
    "routed_scaling_factor": 1.0,
}

respell = lfm2.respell


def is_dense(config, n):
    return n < config["num_dense_layers"]


def shape(config):
    return Shape(
        experts=config["num_experts"],
        chosen=config["num_experts_per_tok"],
        width=config["moe_intermediate_size"],
        scores="sigmoid",
        divided_with=1e-6 if config["norm_topk_prob"] else None,
        factor=config["routed_scaling_factor"],
        bias="expert_bias" if config["use_expert_bias"] else "",
        names=("w1", "w3", "w2"),
    )


class Model(lfm2.Model):
    def make_mlp(self, n, prefix):
        if is_dense(self.config, n):
            return super().make_mlp(n, prefix)
        return Mixture(self, prefix + self.MLP, shape(self.config))


def channel_tensors(case, n, p):
    p = p + Model.MLP
    if is_dense(case.config, n):
        case.mlp(p)
    else:
        fused = case.stored.get("fused", False)
        mixture_tensors(case, p, shape(case.config), fused)


SMALL = {
    **lfm2.SMALL,
    "intermediate_size": 40,
    "moe_intermediate_size": 12,
    "num_experts": 6,
    "num_experts_per_tok": 2,
    "num_dense_layers": 1,
}

CASES = {
    # The keys and names of published files.
    "lfm2_moe": (
        {
            **SMALL,
            "architectures": ["Lfm2MoeForCausalLM"],
            "bos_token_id": 1,
            "conv_L_cache": 3,
            "conv_bias": False,
            "eos_token_id": 7,
            "initializer_range": 0.02,
            "layer_types": ["conv", "full_attention", "conv"],
            "max_position_embeddings": 128000,
            "norm_topk_prob": True,
            "output_router_logits": False,
            "pad_token_id": 0,
            "rope_theta": 1000000.0,
            "routed_scaling_factor": 1.0,
            "tie_embedding": True,
            "use_cache": True,
            "use_expert_bias": True,
        },
        {"seed": 79},
    ),
    # All experts in one tensor, as transformers has them in memory.
    "lfm2_moe-fused": (
        {
            **SMALL,
            "num_hidden_layers": 2,
            "layer_types": ["conv", "full_attention"],
            "conv_L_cache": 4,
            "conv_bias": True,
            "num_dense_layers": 0,
            "num_experts": 7,
            "num_experts_per_tok": 3,
            "norm_topk_prob": False,
            "routed_scaling_factor": 1.5,
            "norm_eps": 1e-3,
        },
        {"fused": True, "seed": 32},
    ),
    "lfm2_moe-unbiased": (
        {
            **SMALL,
            "layer_types": ["full_attention", "conv", "full_attention"],
            "num_key_value_heads": 1,
            "num_dense_layers": 2,
            "use_expert_bias": False,
            "routed_scaling_factor": 2.5,
            "rope_parameters": {"rope_theta": 300.0, "rope_type": "default"},
            "tie_embedding": False,
        },
        {"dtype": "BF16", "seed": 54},
    ),
}
