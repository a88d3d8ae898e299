"""The tensors of a checkpoint, one at a time: those of a thousand million
weights are 5 GB when all of them are float32."""

import json
import pathlib
import struct

import numpy as np
import paths  # noqa: F401  where the reference is
from tensor_file import decode


class Tensors:
    """model.safetensors of a folder."""

    def __init__(self, folder):
        self.path = pathlib.Path(folder) / "model.safetensors"
        with open(self.path, "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            self._entries = json.loads(file.read(length))
        self._entries.pop("__metadata__", None)
        self._begin = 8 + length

    def names(self, tied):
        """Names of all tensors but, if `tied`, a head that repeats the
        embeddings."""
        return [name for name in self._entries
                if not (tied and name == "lm_head.weight")]

    def floats(self, name):
        """A tensor in float32, in its shape."""
        entry = self._entries[name]
        begin, end = entry["data_offsets"]
        with open(self.path, "rb") as file:
            file.seek(self._begin + begin)
            raw = file.read(end - begin)
        return decode(entry["dtype"], raw).astype(np.float32).reshape(
            entry["shape"])
