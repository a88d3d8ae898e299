#!/usr/bin/env python3
"""Writes a checkpoint as GGUF, the format of llama.cpp.

  to_gguf.py FOLDER FILE.gguf [--type f32|bf16|q8_0]

What llama.cpp's own convert_hf_to_gguf.py makes of such a checkpoint, without
PyTorch and without a tokenizer: the vocabulary has a size and no words, for
the comparison speaks in token ids. Matrices take the type asked for;
everything else is float32, as it is with the original.

Of each model_type that is known one class has
  ARCHITECTURE              what llama.cpp calls it
  (folder)                  ValueError for what llama.cpp cannot have
  write_parameters(writer)  its keys
  tensors()                 (name, values) as llama.cpp wants them
  is_matrix(name)           whether the tensor takes the type asked for
"""

import argparse
import os
import pathlib

import gguf
import numpy as np
import paths  # noqa: F401  where the reference is
from gguf_granite import Granite
from gguf_lfm2 import Lfm2
from gguf_mamba2 import Mamba2
from gguf_qwen35 import Qwen35
from tensor_file import read_config

TYPES = {"f32": gguf.GGMLQuantizationType.F32,
         "bf16": gguf.GGMLQuantizationType.BF16,
         "q8_0": gguf.GGMLQuantizationType.Q8_0}
FILE_TYPES = {"f32": gguf.LlamaFileType.ALL_F32,
              "bf16": gguf.LlamaFileType.MOSTLY_BF16,
              "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0}
MODELS = {"mamba2": Mamba2, "qwen3_5_text": Qwen35, "lfm2": Lfm2,
          "granitemoehybrid": Granite}


def open_model(folder):
    model_type = read_config(folder)["model_type"]
    if model_type not in MODELS:
        raise ValueError(f"model_type is {model_type!r}: it must be one of "
                         + ", ".join(MODELS))
    return MODELS[model_type](folder)


def convert(folder, path, kind):
    """Writes the file, or leaves none behind.

    kind: a key of TYPES. Raises ValueError for what llama.cpp cannot have.
    """
    model = open_model(folder)
    path = pathlib.Path(path)
    unfinished = path.with_suffix(".unfinished")
    writer = gguf.GGUFWriter(unfinished, model.ARCHITECTURE)
    model.write_parameters(writer)
    writer.add_file_type(FILE_TYPES[kind])
    writer.add_tokenizer_model("no_vocab")
    for name, values in model.tensors():
        dtype = TYPES[kind if model.is_matrix(name) else "f32"]
        writer.add_tensor(
            name, gguf.quants.quantize(np.ascontiguousarray(values), dtype),
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
