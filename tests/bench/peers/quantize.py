"""Makes GGUF files of the types that llama.cpp itself makes, as its users have
them: with more bits for the head."""

import os
import pathlib

import llama_cpp

TYPES = {"q4_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0,
         "q4_k_m": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M}


def convert(source, path, kind):
    """Writes the GGUF file `source`, of bf16, in a key of TYPES, or leaves no
    file behind. Raises ValueError where llama.cpp cannot."""
    path = pathlib.Path(path)
    unfinished = path.with_suffix(".unfinished")
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype = TYPES[kind]
    if llama_cpp.llama_model_quantize(str(source).encode(),
                                      str(unfinished).encode(), parameters):
        raise ValueError(f"llama.cpp makes no {kind} of {source}")
    os.replace(unfinished, path)
