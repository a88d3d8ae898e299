"""Writes a checkpoint as GGUF in the types that llama.cpp itself makes: what
its users get, among them a head of more bits."""

import os
import pathlib
import tempfile

import llama_cpp
import to_gguf

TYPES = {"q4_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0,
         "q4_k_m": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M}


def convert(folder, path, kind):
    """Writes the file, or leaves none behind.

    kind: a key of TYPES. Raises ValueError for what llama.cpp cannot have.
    """
    path = pathlib.Path(path)
    with tempfile.TemporaryDirectory(dir=path.parent) as beside:
        source = pathlib.Path(beside) / "bf16.gguf"
        made = pathlib.Path(beside) / path.name
        to_gguf.convert(folder, source, "bf16")
        parameters = llama_cpp.llama_model_quantize_default_params()
        parameters.ftype = TYPES[kind]
        if llama_cpp.llama_model_quantize(str(source).encode(),
                                          str(made).encode(), parameters):
            raise ValueError(f"llama.cpp makes no {kind} of {folder}")
        os.replace(made, path)
