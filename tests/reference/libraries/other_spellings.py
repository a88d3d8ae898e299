"""What the server reads beyond today's fla, put in fla's terms of today.

Older releases of fla spelled some things otherwise, and some options exist in
its parts without a key of its own. Those checkpoints get today's names, and
those parts are put into its model.
"""

import os

import fla
import torch
from fla.modules import RMSNorm

from checkpoints import load_strictly, read_tensors


def spell_config(values):
    """Without what today's fla has no key for."""
    values = dict(values)
    values.pop("output_norm", None)
    if values.get("feature_map") == "dpfp_paper":
        values["feature_map"] = "dpfp"
    if "rms_norm_eps" in values:
        values["norm_eps"] = values.pop("rms_norm_eps")
    return values


def spell_tensors(tensors):
    """gate_proj that holds up_proj too; one x_x for RWKV-7's six mixes."""
    out = {}
    for name, tensor in tensors.items():
        up = name.replace("gate_proj", "up_proj")
        if name.endswith("mlp.gate_proj.weight") and up not in tensors:
            out[name], out[up] = tensor.chunk(2)
        elif name.endswith("attn.x_x"):
            for part, mix in zip("rwkvag", tensor.reshape(6, 1, 1, -1)):
                out[name[:-len("x_x")] + "x_" + part] = mix
        else:
            out[name] = tensor
    return out


def put_parts_in(model, values):
    """q/k norms of hybrid layers, and mixers without their output norm."""
    groups = values.get("attn") or []
    groups = groups if isinstance(groups, list) else [groups]
    for group in groups:
        for n in group["layers"] if group.get("qk_norm") else ():
            attention = model.model.layers[n].attn
            attention.qk_norm = True
            for name in ("q_norm", "k_norm"):
                setattr(attention, name,
                        RMSNorm(attention.head_dim, dtype=torch.float32))
    for block in model.model.layers:
        if (values.get("output_norm") == "identity"
                and isinstance(block.attn, fla.layers.LinearAttention)):
            block.attn.norm = torch.nn.Identity()


def load(folder, values, config_class, model_class):
    """The library's model, or None if it needs nothing of this file.

    values: config.json.
    """
    if not os.path.exists(os.path.join(folder, "model.safetensors")):
        return None  # in shards
    tensors = read_tensors(folder)
    spelled, renamed = spell_config(values), spell_tensors(tensors)
    hybrid = "qk_norm" in str(values.get("attn"))
    if spelled == values and renamed.keys() == tensors.keys() and not hybrid:
        return None
    spelled.pop("model_type")
    model = model_class(config_class(**spelled))
    put_parts_in(model, values)
    if model.config.tie_word_embeddings:
        renamed["lm_head.weight"] = renamed["model.embeddings.weight"]
    load_strictly(model, renamed)
    return model.eval()
