"""Logits of an RWKV .pth file from the `rwkv` package, on a CPU in float32.

The package is of RWKV's author, and reads the file in its own names. It has
RWKV-7 in one class and what came before in another, chosen while it is
imported. Needs the packages of requirements.txt.
"""

import contextlib
import importlib
import io
import os

import torch

os.environ["RWKV_JIT_ON"] = "0"
os.environ["RWKV_CUDA_ON"] = "0"


def logits(path, tokens, generation):
    """float64 [tokens, vocab].

    path: the file, for generation 7 less .pth. generation: 6 or 7.
    """
    os.environ["RWKV_V7_ON"] = "1" if generation == 7 else "0"
    with contextlib.redirect_stdout(io.StringIO()):  # it lists all tensors
        package = importlib.reload(importlib.import_module("rwkv.model"))
        model = package.RWKV(model=path, strategy="cpu fp32")
    with torch.no_grad():
        output, _ = model.forward(list(tokens), None, full_output=True)
    return output.double().numpy()
