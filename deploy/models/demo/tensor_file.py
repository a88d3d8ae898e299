"""The safetensors format, as far as bfloat16 tensors need it.

A file is the header's length as u64, the header as JSON padded with spaces to a
multiple of 8 bytes, then the tensors' bytes without gaps; little-endian.
"""

import json
import os
import struct

import numpy as np


def to_bfloat16(array):
    """Rounds f32 to bfloat16, to nearest even. Returns the bits as u16."""
    bits = np.ascontiguousarray(array, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bfloat16(bits):
    """Returns the f32 values of u16 bits."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def write(path, tensors):
    """Writes {name: f32 array} as bfloat16, replacing path in one rename."""
    header, offset, parts = {"__metadata__": {"format": "pt"}}, 0, []
    for name, array in tensors.items():
        part = to_bfloat16(array).astype("<u2").tobytes()
        header[name] = {"dtype": "BF16", "shape": list(array.shape),
                        "data_offsets": [offset, offset + len(part)]}
        offset += len(part)
        parts.append(part)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path + ".new", "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + b"".join(parts))
    os.replace(path + ".new", path)


def read(path):
    """Returns {name: f32 array} of a file whose tensors are bfloat16."""
    with open(path, "rb") as file:
        data = file.read()
    length, = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + o for o in entry["data_offsets"])
        bits = np.frombuffer(data[begin:end], dtype="<u2")
        tensors[name] = from_bfloat16(bits).reshape(entry["shape"])
    return tensors
