"""Logits of a checkpoint from transformers' own models, on a CPU.

Without its optional CUDA packages the library takes its pure PyTorch paths.
Parts of them compute in float32 whatever the weights are: so is everything
here. Needs the packages of requirements.txt.
"""

import sys

import torch

sys.modules["mamba_ssm"] = None  # not installed, for all that it knows
import transformers  # noqa: E402

from checkpoints import (Unsupported, from_pretrained,  # noqa: E402
                         has_full_norm, read_config)

LIBRARY = "transformers"

# norm_scope is ours; norm_before_gate is in files that its own script wrote.
INERT = ("norm_scope", "norm_before_gate")

MODELS = {"mamba": "Mamba", "mamba2": "Mamba2", "xlstm": "xLSTM"}


def classes(model_type):
    """(configuration class, model class) of the library."""
    name = MODELS[model_type]
    return (getattr(transformers, name + "Config"),
            getattr(transformers, name + "ForCausalLM"))


def load(folder):
    """The library's model of a checkpoint, in float32."""
    values = read_config(folder)
    if values.get("add_out_norm") is False:
        raise Unsupported("it has its last norm whatever add_out_norm says")
    model = from_pretrained(folder, *classes(values["model_type"]), INERT)
    if has_full_norm(values):  # as in release 4
        for layer in model.backbone.layers:
            layer.mixer.norm.group_size = layer.mixer.intermediate_size
    return model


def run(model, tokens):
    """float64 [tokens, vocab]."""
    with torch.no_grad():
        output = model(torch.tensor([tokens]), use_cache=False)
    return output.logits[0].double().numpy()


def logits(folder, tokens):
    """(float64 [tokens, vocab], the name of the class that made them)."""
    model = load(folder)
    return run(model, tokens), type(model).__name__
