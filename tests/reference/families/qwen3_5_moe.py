"""Qwen3.5 with mixtures of experts in place of its MLPs: all else is as in
qwen3_5. A shared expert counts by the sigmoid of a gate of its own.
"""

from families import qwen3_5
from families.qwen3_5 import KINDS, WRITTEN, layer_types
from mixture import Mixture, Shape, mixture_tensors

__all__ = ["KINDS", "layer_types"]

DEFAULTS = {
    **qwen3_5.DEFAULTS,
    "hidden_size": 2048,
    "num_hidden_layers": 40,
    "num_key_value_heads": 2,
    "num_experts": 256,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
}


def shape(config):
    return Shape(
        experts=config["num_experts"],
        chosen=config["num_experts_per_tok"],
        width=config["moe_intermediate_size"],
        shared="shared_expert.",
        shared_gate="shared_expert_gate.weight",
    )


class Model(qwen3_5.Model):
    def make_mlp(self, n, prefix):
        return Mixture(self, prefix + self.MLP, shape(self.config))


def channel_tensors(case, n, p):
    p = p + "mlp."
    mixture_tensors(case, p, shape(case.config), case.stored.get("fused", True))
    D = case.config["hidden_size"]
    width = case.config["shared_expert_intermediate_size"]
    q = p + "shared_expert."
    case.matrix(q + "gate_proj.weight", width, D)
    case.matrix(q + "up_proj.weight", width, D)
    case.matrix(q + "down_proj.weight", D, width)
    case.matrix(p + "shared_expert_gate.weight", 1, D)


all_tensors = qwen3_5.all_tensors

PATTERN = ["linear_attention", "full_attention"]

# Few choices: where two experts are nearly as good, rounding decides.
SMALL = {
    **qwen3_5.SMALL,
    "num_hidden_layers": 2,
    "model_type": "qwen3_5_moe_text",
    "intermediate_size": None,
    "num_experts": 6,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 12,
    "shared_expert_intermediate_size": 20,
}

CASES = {
    # As transformers writes it, with all experts in one tensor.
    "qwen3_5_moe": (
        {
            **WRITTEN,
            **SMALL,
            "layer_types": PATTERN,
            "architectures": ["Qwen3_5MoeForCausalLM"],
            "output_router_logits": False,
            "router_aux_loss_coef": 0.001,
            "tie_word_embeddings": False,
        },
        {"seed": 78},
    ),
    # The keys and names of published files.
    "qwen3_5_moe-nested": (
        {
            "architectures": ["Qwen3_5MoeForConditionalGeneration"],
            "image_token_id": 56,
            "video_token_id": 57,
            "vision_start_token_id": 53,
            "vision_end_token_id": 54,
            "tie_word_embeddings": False,
            "text_config": {
                **SMALL,
                "layer_types": PATTERN,
                "attn_output_gate": True,
                "full_attention_interval": 4,
                "mamba_ssm_dtype": "float32",
                "mlp_only_layers": [],
                "mtp_num_hidden_layers": 1,
                "num_experts": 8,
                "num_experts_per_tok": 4,
                "rope_parameters": {
                    "mrope_interleaved": True,
                    "mrope_section": [2, 1, 1],
                    "partial_rotary_factor": 0.5,
                    "rope_theta": 1000.0,
                    "rope_type": "default",
                },
            },
            "vision_config": {
                "model_type": "qwen3_5_moe",
                "depth": 1,
                "hidden_size": 8,
                "num_heads": 2,
            },
        },
        {"nested": True, "seed": 78},
    ),
    # The matrices of each expert by themselves.
    "qwen3_5_moe-each": (
        {
            **SMALL,
            "full_attention_interval": 2,
            "num_experts": 5,
            "num_experts_per_tok": 3,
            "moe_intermediate_size": 24,
            "rms_norm_eps": 1e-4,
        },
        {"dtype": "BF16", "fused": False, "seed": 7},
    ),
}
