"""Logits from mamba_ssm's own models, on a CPU.

The library's kernels for Mamba-2 and its norms are Triton's and are
interpreted. Those for Mamba-1 are CUDA's; the library has a PyTorch reference
of the same function, selective_scan_ref, and that is taken. Its epsilon of
norms is no key of its config.json: where a checkpoint has another than its
1e-5, it is set on its norms.

Needs the packages of requirements.txt.
"""

import contextlib
import sys
import types

import torch

import interpreter  # noqa: F401  before Triton
from checkpoints import (Unsupported, has_full_norm, load_strictly, read_config,
                         read_tensors)

# The compiled part is imported by the library before it is needed.
sys.modules.setdefault("selective_scan_cuda",
                       types.ModuleType("selective_scan_cuda"))

from mamba_ssm.models.config_mamba import MambaConfig  # noqa: E402
from mamba_ssm.models.mixer_seq_simple import MambaLMHeadModel  # noqa: E402
from mamba_ssm.modules import mamba_simple  # noqa: E402
from mamba_ssm.ops.selective_scan_interface import (  # noqa: E402
    selective_scan_ref)

LIBRARY = "mamba-ssm"

MODELS = {"mamba": "MambaLMHeadModel", "mamba2": "MambaLMHeadModel"}

mamba_simple.selective_scan_fn = selective_scan_ref
# The library selects the GPU of its arguments before it starts a kernel.
torch.cuda.device = lambda index: contextlib.nullcontext()

# Of transformers and of fla -> keys of ssm_cfg.
SSM_KEYS = {"state_size": "d_state", "conv_kernel": "d_conv",
            "expand": "expand", "use_bias": "bias",
            "use_conv_bias": "conv_bias"}
MAMBA1_KEYS = {"time_step_rank": "dt_rank", "dt_rank": "dt_rank"}
MAMBA2_KEYS = {"head_dim": "headdim", "n_groups": "ngroups",
               "D_has_hdim": "D_has_hdim", "rmsnorm": "rmsnorm",
               "norm_before_gate": "norm_before_gate",
               "time_step_limit": "dt_limit", "dt_limit": "dt_limit"}


def make(config):
    """The library's model of its own config.json, without kernels of CUDA."""
    ssm = dict(config.get("ssm_cfg", {}))
    if ssm.get("layer") == "Mamba2":
        ssm["use_mem_eff_path"] = False
    return MambaLMHeadModel(MambaConfig(**{**config, "ssm_cfg": ssm}))


def run(model, tokens):
    """float64 [tokens, vocab]."""
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0].double().numpy()


def own_config(values, tied):
    """The library's config.json of a checkpoint in other names."""
    mamba2 = values["model_type"] == "mamba2"
    if mamba2 and "layer_norm_epsilon" in values:
        # transformers' gate comes first whatever its config says.
        values = {**values, "norm_before_gate": False}
    if has_full_norm(values) and values.get("n_groups", 8) > 1:
        raise Unsupported("its gated norm is per group")
    table = {**SSM_KEYS, **(MAMBA2_KEYS if mamba2 else MAMBA1_KEYS)}
    ssm = {table[key]: value for key, value in values.items() if key in table}
    ssm["layer"] = "Mamba2" if mamba2 else "Mamba1"
    if "dt_limit" in ssm:
        ssm["dt_limit"] = tuple(ssm["dt_limit"])
    return {"d_model": values["hidden_size"],
            "n_layer": values["num_hidden_layers"],
            "vocab_size": values["vocab_size"], "pad_vocab_size_multiple": 1,
            "ssm_cfg": ssm,
            "tie_embeddings": tied}


def logits(folder, tokens):
    """(float64 [tokens, vocab], the name of the class that made them)."""
    values, tensors = read_config(folder), read_tensors(folder)
    tensors["backbone.embedding.weight"] = tensors.pop(
        "backbone.embeddings.weight")
    tied = "lm_head.weight" not in tensors
    if tied:
        tensors["lm_head.weight"] = tensors["backbone.embedding.weight"]
    model = make(own_config(values, tied))
    load_strictly(model, tensors)
    eps = values.get("norm_eps", values.get("layer_norm_epsilon", 1e-5))
    for module in model.modules():
        if hasattr(module, "eps"):
            module.eps = eps
    return run(model.eval(), tokens), type(model).__name__
