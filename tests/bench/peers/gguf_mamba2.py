"""Mamba-2 as llama.cpp's architecture `mamba2`; see to_gguf.py."""

import numpy as np
from checkpoint import Checkpoint

MODEL_NAMES = {"backbone.embeddings.weight": "token_embd.weight",
               "backbone.norm_f.weight": "output_norm.weight",
               "lm_head.weight": "output.weight"}
LAYER_NAMES = {"norm.weight": "attn_norm.weight",
               "mixer.in_proj.weight": "ssm_in.weight",
               "mixer.conv1d.weight": "ssm_conv1d.weight",
               "mixer.conv1d.bias": "ssm_conv1d.bias",
               "mixer.dt_bias": "ssm_dt.bias",
               "mixer.A_log": "ssm_a",
               "mixer.D": "ssm_d",
               "mixer.norm.weight": "ssm_norm.weight",
               "mixer.out_proj.weight": "ssm_out.weight"}
MATRICES = ("token_embd.weight", "output.weight", "ssm_in.weight",
            "ssm_out.weight")


def gguf_name(name):
    """What llama.cpp calls a tensor of the checkpoint."""
    if name in MODEL_NAMES:
        return MODEL_NAMES[name]
    layer, _, rest = name.removeprefix("backbone.layers.").partition(".")
    if not layer.isdigit() or rest not in LAYER_NAMES:
        raise ValueError(f"llama.cpp has no place for the tensor {name!r}")
    return f"blk.{layer}.{LAYER_NAMES[rest]}"


def write_ssm_sizes(writer, *, taps, width, state, heads, groups):
    """What llama.cpp asks of every recurrent layer that it has."""
    writer.add_ssm_conv_kernel(taps)
    writer.add_ssm_inner_size(width)
    writer.add_ssm_state_size(state)
    writer.add_ssm_time_step_rank(heads)
    writer.add_ssm_group_count(groups)


def mamba2_values(kind, values, groups):
    """A tensor of a Mamba-2 layer as llama.cpp wants it under the last part of
    its own name for it, `kind`."""
    if kind == "ssm_conv1d.weight":  # [channels, 1, taps]
        return values.squeeze(1)
    if kind == "ssm_a":
        return -np.exp(values).reshape(-1, 1)
    if kind == "ssm_d":
        return values.reshape(-1, 1)
    if kind == "ssm_norm.weight":
        return values.reshape(groups, -1)
    return values


class Mamba2:
    ARCHITECTURE = "mamba2"

    def __init__(self, folder):
        self.model = Checkpoint(folder)

    def write_parameters(self, writer):
        model = self.model
        writer.add_context_length(2**20)
        writer.add_embedding_length(model.D)
        writer.add_feed_forward_length(0)
        writer.add_head_count(0)
        writer.add_block_count(model.layers)
        write_ssm_sizes(writer, taps=model.taps, width=model.E, state=model.N,
                        heads=model.H, groups=model.G)
        writer.add_layer_norm_rms_eps(model.eps)
        writer.add_vocab_size(model.vocab)

    def tensors(self):
        for name in self.model.names():
            new_name = gguf_name(name)
            yield new_name, self.transformed(new_name, self.model.floats(name))

    def transformed(self, name, values):
        """The values as llama.cpp wants them under its name for them."""
        kind = name.split(".", 2)[-1] if name.startswith("blk.") else name
        return mamba2_values(kind, values, self.model.G)

    def is_matrix(self, name):
        return name.endswith(MATRICES)
