"""Logits of a checkpoint from transformers' own models, on a CPU.

Without its optional CUDA packages the library takes its pure PyTorch paths.
Parts of them compute in float32 whatever the weights are: so is everything in
`run`, and in `run_double` what they call float32 is float64, which tells
their formulas from their rounding. Needs the packages of requirements.txt.
"""

import contextlib
import sys
from unittest import mock

import torch

# Not installed, for all that it knows.
sys.modules.update(dict.fromkeys(("mamba_ssm", "causal_conv1d", "fla")))
import transformers  # noqa: E402

from checkpoints import (Unsupported, from_pretrained,  # noqa: E402
                         has_full_norm, read_config, refuse_unknown_keys)

LIBRARY = "transformers"
DOUBLE = ", float64"

# Keys that are in files and are nothing to the library. norm_scope is ours;
# norm_before_gate is in files that its own script wrote; the others are in
# published ones.
INERT = ("norm_scope", "norm_before_gate", "_block_types", "attn_output_gate",
         "attn_rotary_emb", "auto_map", "block_dim", "block_mlp_init_scale",
         "block_norm_eps", "block_out_init_scale", "block_use_swiglu",
         "block_use_xavier_init", "calc_logits_for_entire_prompt", "conv_dim",
         "conv_dim_out", "conv_use_xavier_init", "embedding_dropout",
         "embeddings_scale_by_sqrt_dim", "expert_swiglu_limit_list",
         "gated_attention_proj_granularity_type", "group_norm_size",
         "init_method", "initializer_range", "linear_silu", "logits_to_keep",
         "mamba_inner_layernorms", "mamba_ssm_dtype", "mamba_use_mlp",
         "max_window_layers", "mla_use_nope", "mlp_expansion_factor",
         "mlp_only_layers", "moe_layer_freq", "moe_router_activation_func",
         "moe_router_enable_expert_bias",
         "moe_shared_expert_intermediate_size", "mtp_num_hidden_layers",
         "mtp_use_kda", "n_ctx", "no_kda_lora", "normalization_function",
         "num_heads", "num_kv_heads_for_linear_attn", "num_logits_to_keep",
         "num_nextn_predict_layers", "output_dropout", "q_lora_rank",
         "rope_interleave", "rope_scaling", "rotary_dim", "router_dtype",
         "scale_router_input", "score_function",
         "share_expert_swiglu_limit_list", "sliding_window", "theta",
         "use_bias", "use_grouped_topk", "use_kda_lora", "use_mamba_kernels",
         "use_mla_nope", "use_pos_enc", "use_qk_norm", "use_qkv_bias")

# Keys that it reads and has under other names.
READ = ("block_ff_dim", "first_k_dense_replace", "full_attention_interval",
        "head_dim", "linear_attn_config", "mamba_conv_bias", "mamba_d_conv",
        "mamba_n_groups", "partial_rotary_factor", "rope_theta",
        "tie_embedding", "torch_dtype")

KEYS = INERT + READ

# Tensors of its model that the cases need not have.
FOREIGN = "model.visual."

MODELS = {
    "bailing_hybrid": ("BailingHybridConfig", "BailingHybridForCausalLM"),
    "bamba": ("BambaConfig", "BambaForCausalLM"),
    "falcon_h1": ("FalconH1Config", "FalconH1ForCausalLM"),
    "falcon_mamba": ("FalconMambaConfig", "FalconMambaForCausalLM"),
    "granitemoehybrid": ("GraniteMoeHybridConfig",
                         "GraniteMoeHybridForCausalLM"),
    "jamba": ("JambaConfig", "JambaForCausalLM"),
    "kimi_linear": ("KimiLinearConfig", "KimiLinearForCausalLM"),
    "lfm2": ("Lfm2Config", "Lfm2ForCausalLM"),
    "lfm2_moe": ("Lfm2MoeConfig", "Lfm2MoeForCausalLM"),
    "lfm3": ("Lfm3Config", "Lfm3ForCausalLM"),
    "mamba": ("MambaConfig", "MambaForCausalLM"),
    "mamba2": ("Mamba2Config", "Mamba2ForCausalLM"),
    "nemotron_h": ("NemotronHConfig", "NemotronHForCausalLM"),
    "olmo_hybrid": ("OlmoHybridConfig", "OlmoHybridForCausalLM"),
    "qwen3_5": ("Qwen3_5Config", "Qwen3_5ForConditionalGeneration"),
    "qwen3_5_moe": ("Qwen3_5MoeConfig",
                    "Qwen3_5MoeForConditionalGeneration"),
    "qwen3_5_moe_text": ("Qwen3_5MoeTextConfig", "Qwen3_5MoeForCausalLM"),
    "qwen3_5_text": ("Qwen3_5TextConfig", "Qwen3_5ForCausalLM"),
    "qwen3_next": ("Qwen3NextConfig", "Qwen3NextForCausalLM"),
    "recurrent_gemma": ("RecurrentGemmaConfig",
                        "RecurrentGemmaForCausalLM"),
    "xlstm": ("xLSTMConfig", "xLSTMForCausalLM"),
}


def classes(model_type):
    """(configuration class, model class) of the library."""
    return tuple(getattr(transformers, name) for name in MODELS[model_type])


def load(folder):
    """The library's model of a checkpoint, in float32."""
    values = read_config(folder)
    if values.get("add_out_norm") is False:
        raise Unsupported("it has its last norm whatever add_out_norm says")
    if any(values.get("expert_swiglu_limit_list") or ()):
        raise Unsupported("it passes over the limits of experts' factors")
    if values["model_type"] == "nemotron_h" and "mamba_dt_limit" in values:
        raise Unsupported("one of its paths passes over bounds of time steps")
    if values["model_type"] == "olmo_hybrid" and not values.get(
            "rope_parameters"):
        raise Unsupported("it makes up a theta where the file names none")
    if "text_config" in values:
        inner = values["text_config"]
        refuse_unknown_keys(inner, classes(inner["model_type"])[0], KEYS)
    model = from_pretrained(folder, *classes(values["model_type"]), KEYS,
                            FOREIGN)
    if values["model_type"] == "mamba2" and has_full_norm(values):  # release 4
        for layer in model.backbone.layers:
            layer.mixer.norm.group_size = layer.mixer.intermediate_size
    return model


def run(model, tokens):
    """float64 [tokens, vocab]."""
    with torch.no_grad():
        output = model(torch.tensor([tokens]), use_cache=False)
    return output.logits[0].double().numpy()


@contextlib.contextmanager
def float32_is_float64():
    """All that the library makes or converts to float32 is float64."""
    with contextlib.ExitStack() as stack:
        for patch in (mock.patch.object(torch, "float32", torch.float64),
                      mock.patch.object(torch, "float", torch.float64),
                      mock.patch.object(torch.Tensor, "float",
                                        torch.Tensor.double)):
            stack.enter_context(patch)
        default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        stack.callback(torch.set_default_dtype, default)
        yield


def run_double(model, tokens):
    """As run, of a model that is good for nothing else then."""
    if hasattr(model, "set_experts_implementation"):
        # Its grouped products know no float64.
        model.set_experts_implementation("eager")
    with float32_is_float64():
        for module in model.double().modules():
            names = dict(module.named_buffers(recurse=False))
            if any(name.endswith("inv_freq") for name in names):  # in float32
                module.__init__(module.config)
        return run(model, tokens)


def logits(folder, tokens):
    """(float64 [tokens, vocab], the name of the class that made them)."""
    model = load(folder)
    return run(model, tokens), type(model).__name__


def logits_double(folder, tokens):
    """As logits, in float64."""
    model = load(folder)
    return run_double(model, tokens), type(model).__name__ + DOUBLE
