#!/usr/bin/env python3
"""Writes a Mamba-2 checkpoint as GGUF, the format of llama.cpp.

  to_gguf.py FOLDER FILE.gguf [--type f32|bf16|q8_0]

What llama.cpp's own convert_hf_to_gguf.py makes of such a checkpoint, without
PyTorch and without a tokenizer: the vocabulary has a size and no words, for
the comparison speaks in token ids. The four kinds of matrices (embeddings,
in_proj, out_proj, head) take the type asked for; everything else is float32,
as it is with the original.
"""

import argparse
import os
import pathlib

import gguf
import numpy as np
from checkpoint import Checkpoint

TYPES = {"f32": gguf.GGMLQuantizationType.F32,
         "bf16": gguf.GGMLQuantizationType.BF16,
         "q8_0": gguf.GGMLQuantizationType.Q8_0}
FILE_TYPES = {"f32": gguf.LlamaFileType.ALL_F32,
              "bf16": gguf.LlamaFileType.MOSTLY_BF16,
              "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0}

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


def transformed(name, values, groups):
    """The values as llama.cpp wants them under its name for them."""
    kind = name.split(".", 2)[-1] if name.startswith("blk.") else name
    if kind == "ssm_conv1d.weight":  # [channels, 1, taps]
        return values.squeeze(1)
    if kind == "ssm_a":
        return -np.exp(values).reshape(-1, 1)
    if kind == "ssm_d":
        return values.reshape(-1, 1)
    if kind == "ssm_norm.weight":
        return values.reshape(groups, -1)
    return values


def write_parameters(writer, model, kind):
    writer.add_context_length(2**20)
    writer.add_embedding_length(model.D)
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_block_count(model.layers)
    writer.add_ssm_conv_kernel(model.taps)
    writer.add_ssm_inner_size(model.E)
    writer.add_ssm_state_size(model.N)
    writer.add_ssm_time_step_rank(model.H)
    writer.add_ssm_group_count(model.G)
    writer.add_layer_norm_rms_eps(model.eps)
    writer.add_file_type(FILE_TYPES[kind])
    writer.add_vocab_size(model.vocab)
    writer.add_tokenizer_model("no_vocab")


def convert(folder, path, kind):
    """Writes the file, or leaves none behind.

    kind: a key of TYPES. Raises ValueError for what llama.cpp cannot have.
    """
    model = Checkpoint(folder)
    path = pathlib.Path(path)
    unfinished = path.with_suffix(".unfinished")
    writer = gguf.GGUFWriter(unfinished, "mamba2")
    write_parameters(writer, model, kind)
    for name in model.names():
        new_name = gguf_name(name)
        values = transformed(new_name, model.floats(name), model.G)
        dtype = TYPES[kind if new_name.endswith(MATRICES) else "f32"]
        writer.add_tensor(new_name, gguf.quants.quantize(values, dtype),
                          raw_dtype=dtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.replace(unfinished, path)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("file", metavar="FILE.gguf")
    parser.add_argument("--type", choices=TYPES, default="bf16")
    arguments = parser.parse_args()
    convert(arguments.folder, arguments.file, arguments.type)


if __name__ == "__main__":
    main()
