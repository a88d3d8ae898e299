"""Qwen3-Next: Qwen3.5 with mixtures of experts, written otherwise.

The projections of a linear layer are two matrices, by key head: of each its
query, its key, the values that share it and their gates; and their betas and
decays. Layers that mlp_only_layers names, or that decoder_sparse_step passes
over, have an MLP. The weights of the experts are divided by their sum if
norm_topk_prob says so.
"""

import dataclasses

import numpy as np

from families import qwen3_5, qwen3_5_moe
from families.qwen3_5 import WRITTEN, layer_types, sizes
from mixture import Mixture
from pointwise import sigmoid, silu

__all__ = ["layer_types"]

DEFAULTS = {
    **qwen3_5_moe.DEFAULTS,
    "num_hidden_layers": 48,
    "vocab_size": 151936,
    "intermediate_size": 5632,
    "num_experts": 512,
    "num_experts_per_tok": 10,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "norm_topk_prob": True,
}


class LinearAttention(qwen3_5.LinearAttention):
    def of_each(self, name, x, first, rows, blocks):
        """Rows of every key head's block of a projection, [H, rows]."""
        y = self.project(name, x).reshape(self.H, blocks)
        return y[:, first : first + rows]

    def wide(self, x, first, rows):
        blocks = 2 * self.K + 2 * self.HV // self.H * self.V
        return self.of_each("in_proj_qkvz", x, first, rows, blocks)

    def narrow(self, x, first):
        shared = self.HV // self.H
        return self.of_each("in_proj_ba", x, first * shared, shared, 2 * shared)

    def parts(self, x):
        H, K, values = self.H, self.K, self.HV // self.H * self.V
        q, k, v = (
            self.wide(x, first, rows).reshape(-1)
            for first, rows in ((0, K), (K, K), (2 * K, values))
        )
        u = silu(self.conv.step(np.concatenate((q, k, v))))
        q, k, v = np.split(u, [H * K, 2 * H * K])
        return q.reshape(H, K), k.reshape(H, K), v.reshape(self.HV, self.V)

    def beta(self, x):
        return sigmoid(self.narrow(x, 0).reshape(-1))

    def decay_input(self, x):
        return self.narrow(x, 1).reshape(-1)

    def gate(self, x):
        values = self.HV // self.H * self.V
        z = self.wide(x, 2 * self.K + values, values)
        return silu(z).reshape(self.HV, self.V)


def linear_tensors(case, n, p):
    qwen3_5.linear_tensors(case, n, p)
    H, HV, K, V = sizes(case.config)
    take = case.tensors.pop
    q, k, v = np.split(take(p + "in_proj_qkv.weight"), [H * K, 2 * H * K])
    z = take(p + "in_proj_z.weight")
    b, a = take(p + "in_proj_b.weight"), take(p + "in_proj_a.weight")

    def by_head(parts):
        return np.concatenate(
            [np.split(part, H)[h] for h in range(H) for part in parts]
        )

    case.tensors[p + "in_proj_qkvz.weight"] = by_head((q, k, v, z))
    case.tensors[p + "in_proj_ba.weight"] = by_head((b, a))


KINDS = {
    **qwen3_5.KINDS,
    "linear_attention": ("linear_attn.", LinearAttention, linear_tensors),
}


def has_experts(config, n):
    step = config["decoder_sparse_step"]
    return n not in config["mlp_only_layers"] and (n + 1) % step == 0


def shape(config):
    divided = 0.0 if config["norm_topk_prob"] else None
    return dataclasses.replace(qwen3_5_moe.shape(config), divided_with=divided)


class Model(qwen3_5.Model):
    def make_mlp(self, n, prefix):
        if not has_experts(self.config, n):
            return super().make_mlp(n, prefix)
        return Mixture(self, prefix + self.MLP, shape(self.config))


def channel_tensors(case, n, p):
    if has_experts(case.config, n):
        qwen3_5_moe.channel_tensors(case, n, p)
    else:
        case.mlp(p + Model.MLP)


all_tensors = qwen3_5.all_tensors

SMALL = {
    **qwen3_5_moe.SMALL,
    "model_type": "qwen3_next",
    "intermediate_size": 28,
}

CASES = {
    # As transformers writes it, with all experts in one tensor.
    "qwen3_next": (
        {
            **WRITTEN,
            **SMALL,
            "layer_types": qwen3_5_moe.PATTERN,
            "architectures": ["Qwen3NextForCausalLM"],
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
            "norm_topk_prob": True,
            "output_router_logits": False,
            "router_aux_loss_coef": 0.001,
            "tie_word_embeddings": False,
        },
        {"seed": 28},
    ),
    # The keys and names of published files.
    "qwen3_next-each": (
        {
            **SMALL,
            "architectures": ["Qwen3NextForCausalLM"],
            "attention_bias": False,
            "decoder_sparse_step": 1,
            "full_attention_interval": 2,
            "linear_num_value_heads": 6,
            "mlp_only_layers": [],
            "norm_topk_prob": True,
            "num_experts": 5,
            "num_experts_per_tok": 3,
            "partial_rotary_factor": 0.5,
            "rope_scaling": None,
            "rope_theta": 1000.0,
            "tie_word_embeddings": False,
        },
        {"dtype": "BF16", "fused": False, "seed": 29},
    ),
    # Experts in every second layer, but not in one of these.
    "qwen3_next-sparse": (
        {
            **SMALL,
            "num_hidden_layers": 4,
            "full_attention_interval": 2,
            "linear_num_value_heads": 2,
            "decoder_sparse_step": 2,
            "mlp_only_layers": [1],
            "norm_topk_prob": False,
            "num_experts": 4,
            "rms_norm_eps": 1e-4,
        },
        {"seed": 42},
    ),
}
