"""Checkpoints: bf16 rounding, safetensors, config.json."""

import json
import math
import os
import struct

import numpy as np

# --- bf16 ---------------------------------------------------------------------


def round_bf16(x):
    """To the nearest bf16, ties to even; as float64."""
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 << 16
    return bits.astype(np.uint32).view(np.float32).astype(np.float64)


def exact(x):
    """No rounding: what stands where `round_bf16` may."""
    return np.asarray(x, np.float64)


# --- safetensors --------------------------------------------------------------


def decode(dtype, raw):
    if dtype == "F32":
        return np.frombuffer(raw, np.float32).astype(np.float64)
    if dtype == "F16":
        return np.frombuffer(raw, np.float16).astype(np.float64)
    if dtype == "BF16":
        halves = np.frombuffer(raw, np.uint16).astype(np.uint32)
        return (halves << 16).view(np.float32).astype(np.float64)
    raise ValueError(dtype)


def encode(dtype, x):
    if dtype == "F32":
        return x.astype(np.float32).tobytes()
    if dtype == "F16":
        return x.astype(np.float16).tobytes()
    if dtype == "BF16":
        bits = round_bf16(x).astype(np.float32).view(np.uint32)
        return (bits >> 16).astype(np.uint16).tobytes()
    raise ValueError(dtype)


def read_safetensors(path):
    """{name: float64 array}."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        values = decode(entry["dtype"], data[begin:end])
        tensors[name] = values.reshape(entry["shape"])
    return tensors


def write_safetensors(path, tensors, dtype):
    header = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, values in tensors.items():
        raw = encode(dtype, values)
        header[name] = {
            "dtype": dtype,
            "shape": list(values.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


# --- checkpoints --------------------------------------------------------------


def special_float(entry):
    """transformers 5 writes Infinity as {"__float__": "Infinity"}."""
    if set(entry) != {"__float__"}:
        return entry
    return {"Infinity": math.inf, "-Infinity": -math.inf}[entry["__float__"]]


def read_config(folder):
    """config.json; the bare token Infinity is taken, too."""
    with open(os.path.join(folder, "config.json")) as file:
        return json.load(file, object_hook=special_float)


def read_checkpoint(folder):
    """The values of config.json and {name: float64 array}."""
    config = read_config(folder)
    index = os.path.join(folder, "model.safetensors.index.json")
    if not os.path.exists(index):
        return config, read_safetensors(os.path.join(folder, "model.safetensors"))
    with open(index) as file:
        weight_map = json.load(file)["weight_map"]
    tensors = {}
    for shard in sorted(set(weight_map.values())):
        tensors.update(read_safetensors(os.path.join(folder, shard)))
    return config, tensors


def write_weights(folder, tensors, dtype, shards=1):
    """One file, or shards with an index."""
    if shards == 1:
        path = os.path.join(folder, "model.safetensors")
        write_safetensors(path, tensors, dtype)
        return
    weight_map = {}
    for i in range(shards):
        name = "model-%05d-of-%05d.safetensors" % (i + 1, shards)
        part = dict(list(tensors.items())[i::shards])
        write_safetensors(os.path.join(folder, name), part, dtype)
        weight_map.update({tensor: name for tensor in part})
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as file:
        json.dump({"metadata": {}, "weight_map": weight_map}, file, indent=1)
