#!/usr/bin/env python3
"""A plain float64 reference of the GLA family, and the maker of golden cases.

Written from formulas alone: it shares no code with the server and none with
any library. One token at a time, one head at a time, no cleverness.

  gla_reference.py check DIR...      compares with each DIR/logits.npy
  gla_reference.py make DIR NAME...  writes the named cases (none: all) to DIR
  gla_reference.py round DIR...      writes DIR/logits_bf16.npy

A golden case is a checkpoint (config.json, *.safetensors), token_ids.json,
logits.npy (float64 [tokens, vocab], row t after tokens 0..t) and
logits_bf16.npy: the same run with every weight matrix, the embeddings and
every input of a weight matrix rounded to bf16, everything else in float64.
That is what bf16 weights cost at best. Needs NumPy.
"""

import json
import math
import os
import struct
import sys

import numpy as np


# --- bf16 ---------------------------------------------------------------------


def round_bf16(x):
    """To the nearest bf16, ties to even; as float64."""
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 << 16
    return bits.astype(np.uint32).view(np.float32).astype(np.float64)


def exact(x):
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


def read_checkpoint(folder):
    with open(os.path.join(folder, "config.json")) as file:
        config = json.load(file)
    index = os.path.join(folder, "model.safetensors.index.json")
    if not os.path.exists(index):
        return config, read_safetensors(os.path.join(folder, "model.safetensors"))
    with open(index) as file:
        weight_map = json.load(file)["weight_map"]
    tensors = {}
    for shard in sorted(set(weight_map.values())):
        tensors.update(read_safetensors(os.path.join(folder, shard)))
    return config, tensors


# --- pointwise ----------------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def log_sigmoid(x):
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))


ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": sigmoid,
    "silu": silu,
    "swish": silu,
    "sqrelu": lambda x: np.maximum(x, 0) ** 2,
}


def rms_norm(x, weight, eps):
    y = x / np.sqrt(np.mean(x * x) + eps)
    return y if weight is None else y * weight


# --- the model ----------------------------------------------------------------


class Config:
    """config.json with defaults for what is absent or null."""

    def __init__(self, values):
        self.values = values

    def get(self, key, default=None):
        value = self.values.get(key)
        return default if value is None else value


class Layer:
    """What every layer has; `rounded` is applied at projections."""

    def __init__(self, config, tensors, prefix, rounded):
        self.config = config
        self.rounded = rounded
        self.tensors = tensors
        self.prefix = prefix

    def tensor(self, *names):
        for name in names:
            if self.prefix + name in self.tensors:
                return self.tensors[self.prefix + name]
        return None

    def project(self, name, x):
        y = self.rounded(self.tensor(name + ".weight")) @ self.rounded(x)
        bias = self.tensor(name + ".bias")
        return y if bias is None else y + bias


class Gla(Layer):
    def __init__(self, config, tensors, prefix, rounded):
        super().__init__(config, tensors, prefix, rounded)
        D = config.get("hidden_size", 2048)
        self.H = config.get("num_heads", 4)
        self.G = config.get("num_kv_heads", self.H)
        self.K = int(D * config.get("expand_k", 0.5)) // self.H
        self.V = int(D * config.get("expand_v", 1.0)) // self.H
        self.S = np.zeros((self.H, self.K, self.V))
        self.eps = config.get("norm_eps", config.get("rms_norm_eps", 1e-6))
        self.past = {"q": [], "k": [], "v": []}

    def convolve(self, part, x):
        """silu of a causal depthwise convolution; the last tap is now."""
        if not self.config.get("use_short_conv", False):
            return x
        past = self.past[part]
        past.append(x)
        taps = self.tensor(part + "_conv1d.weight")[:, 0, :]
        W = taps.shape[1]
        y = np.zeros_like(x)
        for w in range(W):
            t = len(past) - W + w
            if t >= 0:
                y += taps[:, w] * past[t]
        return silu(y)

    def step(self, x, position):
        config, g = self.config, self.H // self.G
        q = self.convolve("q", self.project("q_proj", x)).reshape(self.H, self.K)
        k = self.convolve("k", self.project("k_proj", x)).reshape(self.G, self.K)
        v = self.convolve("v", self.project("v_proj", x)).reshape(self.G, self.V)
        if config.get("feature_map"):
            act = ACTIVATIONS[config.get("feature_map")]
            q, k = act(q), act(k)
        a = self.project("gk_proj.1", self.project("gk_proj.0", x))
        log_alpha = log_sigmoid(a).reshape(self.G, self.K) / 16
        if config.get("clamp_min") is not None:
            log_alpha = np.maximum(log_alpha, config.get("clamp_min"))
        gated = config.get("use_output_gate", True)
        gate = self.project("g_proj", x).reshape(self.H, self.V) if gated else None
        weight = self.tensor("g_norm_swish_gate.weight", "g_norm.weight")
        out = np.zeros((self.H, self.V))
        for h in range(self.H):
            j = h // g
            self.S[h] = np.exp(log_alpha[j])[:, None] * self.S[h]
            self.S[h] += np.outer(k[j], v[j])
            o = self.S[h].T @ q[h] / math.sqrt(self.K)
            out[h] = rms_norm(o, weight, self.eps)
            if gated:
                out[h] *= silu(gate[h])
        return self.project("o_proj", out.reshape(-1))


class Softmax(Layer):
    def __init__(self, config, options, tensors, prefix, rounded):
        super().__init__(config, tensors, prefix, rounded)
        self.options = options
        self.H = options.get("num_heads", 32)
        self.G = options.get("num_kv_heads", self.H)
        self.d = config.get("hidden_size", 2048) // self.H
        self.keys, self.values = [], []

    def rotate(self, x, position):
        half = self.d // 2
        theta = self.options.get("rope_theta", 10000.0)
        angle = position * theta ** (-2.0 * np.arange(half) / self.d)
        x1, x2 = x[:half], x[half:]
        cos, sin = np.cos(angle), np.sin(angle)
        return np.concatenate([x1 * cos - x2 * sin, x1 * sin + x2 * cos])

    def step(self, x, position):
        q = self.project("q_proj", x).reshape(self.H, self.d)
        k = self.project("k_proj", x).reshape(self.G, self.d)
        v = self.project("v_proj", x).reshape(self.G, self.d)
        if self.options.get("qk_norm", False):
            q = np.stack([rms_norm(y, self.tensor("q_norm.weight"), 1e-5) for y in q])
            k = np.stack([rms_norm(y, self.tensor("k_norm.weight"), 1e-5) for y in k])
        self.keys.append([self.rotate(y, position) for y in k])
        self.values.append(v)
        window = self.options.get("window_size") or len(self.keys)
        first = max(0, len(self.keys) - window)
        out = np.zeros((self.H, self.d))
        for h in range(self.H):
            j = h // (self.H // self.G)
            query = self.rotate(q[h], position)
            scores = np.array([key[j] @ query for key in self.keys[first:]])
            scores = np.exp((scores - scores.max()) / math.sqrt(self.d))
            scores /= scores.sum()
            out[h] = sum(s * u[j] for s, u in zip(scores, self.values[first:]))
        return self.project("o_proj", out.reshape(-1))


class Mlp(Layer):
    def step(self, x):
        if self.tensor("up_proj.weight") is None:  # both in gate_proj
            gate, up = np.split(self.project("gate_proj", x), 2)
        else:
            gate, up = self.project("gate_proj", x), self.project("up_proj", x)
        return self.project("down_proj", silu(gate) * up)


class Model:
    def __init__(self, values, tensors, rounded):
        self.config = config = Config(values)
        self.tensors, self.rounded = tensors, rounded
        self.eps = config.get("norm_eps", config.get("rms_norm_eps", 1e-6))
        groups = config.get("attn", [])
        groups = groups if isinstance(groups, list) else [groups]
        self.layers = []
        for n in range(config.get("num_hidden_layers", 24)):
            prefix = "model.layers.%d." % n
            mixer = self.mixer(n, groups, prefix + "attn.")
            mlp = Mlp(config, tensors, prefix + "mlp.", rounded)
            norms = [tensors[prefix + p + "_norm.weight"] for p in ("attn", "mlp")]
            self.layers.append((mixer, mlp, norms))

    def mixer(self, n, groups, prefix):
        config = self.config
        if config.get("model_type") == "transformer":
            return Softmax(config, config, self.tensors, prefix, self.rounded)
        for group in groups:
            if n in group["layers"]:
                return Softmax(config, Config(group), self.tensors, prefix, self.rounded)
        return Gla(config, self.tensors, prefix, self.rounded)

    def logits(self, tokens):
        table = self.rounded(self.tensors["model.embeddings.weight"])
        head = self.tensors.get("lm_head.weight")
        if head is None or self.config.get("tie_word_embeddings", False):
            head = table
        rows = []
        for position, token in enumerate(tokens):
            h = table[token].copy()
            for mixer, mlp, norms in self.layers:
                h = h + mixer.step(rms_norm(h, norms[0], self.eps), position)
                h = h + mlp.step(rms_norm(h, norms[1], self.eps))
            h = rms_norm(h, self.tensors["model.norm.weight"], self.eps)
            rows.append(self.rounded(head) @ self.rounded(h))
        return np.array(rows)


def reference_logits(folder, rounded):
    config, tensors = read_checkpoint(folder)
    with open(os.path.join(folder, "token_ids.json")) as file:
        tokens = json.load(file)
    return Model(config, tensors, rounded).logits(tokens)


# --- golden cases -------------------------------------------------------------

VOCAB, TOKENS = 61, 40

BASE = {
    "model_type": "gla",
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "vocab_size": VOCAB,
    "num_heads": 2,
    "intermediate_size": 64,
    "norm_eps": 1e-6,
}

# name: (config beside BASE, how it is stored)
CASES = {
    "gla-short-conv": ({"use_short_conv": True}, {}),
    "gla-groups-relu-no-gate": (
        {
            "num_heads": 4,
            "num_kv_heads": 2,
            "expand_k": 1,
            "feature_map": "relu",
            "use_output_gate": False,
            "norm_eps": 1e-5,
        },
        {},
    ),
    "gla-groups-conv": (
        {"num_heads": 4, "num_kv_heads": 1, "use_short_conv": True, "conv_size": 3},
        {},
    ),
    "gla-clamp": ({"clamp_min": -0.02, "norm_eps": None, "rms_norm_eps": 1e-4}, {}),
    "gla-tied-fused-mlp": (
        {
            "num_hidden_layers": 1,
            "tie_word_embeddings": True,
            "intermediate_size": None,
        },
        {"fused_mlp": True},
    ),
    "gla-hybrid": (
        {
            "num_hidden_layers": 3,
            "attn": {
                "layers": [1],
                "num_heads": 4,
                "num_kv_heads": 2,
                "qkv_bias": True,
                "qk_norm": True,
                "rope_theta": 500.0,
            },
        },
        {},
    ),
    "gla-hybrid-window": (
        {"attn": [{"layers": [0], "num_heads": 2, "window_size": 5}]},
        {},
    ),
    "gla-bf16-sharded": ({}, {"dtype": "BF16", "shards": 3}),
    "gla-f16": ({}, {"dtype": "F16"}),
    "gla-no-affine": ({"elementwise_affine": False}, {}),
    "gla-odd-heads": (
        {"hidden_size": 24, "expand_k": 0.625, "expand_v": 1.375, "num_heads": 3},
        {},
    ),
}


class CaseTensors:
    """Random weights of one case."""

    def __init__(self, values, stored, seed):
        self.config = Config(values)
        self.stored = stored
        self.random = np.random.default_rng(seed)
        self.tensors = {}

    def matrix(self, name, rows, columns, size=1.0):
        width = size * math.sqrt(3.0 / columns)
        self.tensors[name] = self.random.uniform(-width, width, (rows, columns))

    def vector(self, name, n, center, width):
        self.tensors[name] = center + self.random.uniform(-width, width, n)

    def gla(self, p):
        config = self.config
        D, H = config.get("hidden_size"), config.get("num_heads")
        g = H // config.get("num_kv_heads", H)
        Dk = int(D * config.get("expand_k", 0.5))
        Dv = int(D * config.get("expand_v", 1.0))
        gated = config.get("use_output_gate", True)
        self.matrix(p + "q_proj.weight", Dk, D)
        self.matrix(p + "k_proj.weight", Dk // g, D)
        self.matrix(p + "v_proj.weight", Dv // g, D)
        if gated:
            self.matrix(p + "g_proj.weight", Dv, D)
        self.matrix(p + "gk_proj.0.weight", 16, D)
        self.matrix(p + "gk_proj.1.weight", Dk // g, 16)
        self.vector(p + "gk_proj.1.bias", Dk // g, 0.0, 3.0)
        self.matrix(p + "o_proj.weight", D, Dv)
        if config.get("elementwise_affine", True):
            name = "g_norm_swish_gate" if gated else "g_norm"
            self.vector(p + name + ".weight", Dv // H, 1.0, 0.3)
        if config.get("use_short_conv", False):
            W = config.get("conv_size", 4)
            for part, n in (("q", Dk), ("k", Dk // g), ("v", Dv // g)):
                taps = self.random.uniform(-1, 1, (n, 1, W))
                self.tensors[p + part + "_conv1d.weight"] = taps

    def softmax(self, p, options):
        D, H = self.config.get("hidden_size"), options["num_heads"]
        d, G = D // H, options.get("num_kv_heads", H)
        for part, n in (("q", D), ("k", G * d), ("v", G * d)):
            self.matrix(p + part + "_proj.weight", n, D)
            if options.get("qkv_bias", False):
                self.vector(p + part + "_proj.bias", n, 0.0, 0.5)
        if options.get("qk_norm", False):
            self.vector(p + "q_norm.weight", d, 1.5, 0.3)
            self.vector(p + "k_norm.weight", d, 1.5, 0.3)
        self.matrix(p + "o_proj.weight", D, D)

    def mlp(self, p):
        D = self.config.get("hidden_size")
        derived = -(-int(D * 4 * 2 / 3) // 256) * 256
        width = self.config.get("intermediate_size", derived)
        if self.stored.get("fused_mlp"):
            self.matrix(p + "gate_proj.weight", 2 * width, D)
        else:
            self.matrix(p + "gate_proj.weight", width, D)
            self.matrix(p + "up_proj.weight", width, D)
        self.matrix(p + "down_proj.weight", D, width)

    def make(self):
        D = self.config.get("hidden_size")
        groups = self.config.get("attn", [])
        groups = groups if isinstance(groups, list) else [groups]
        self.matrix("model.embeddings.weight", VOCAB, D, math.sqrt(D / 3.0))
        for n in range(self.config.get("num_hidden_layers")):
            p = "model.layers.%d." % n
            self.vector(p + "attn_norm.weight", D, 1.0, 0.3)
            softmax = [group for group in groups if n in group["layers"]]
            if softmax:
                self.softmax(p + "attn.", softmax[0])
            else:
                self.gla(p + "attn.")
            self.vector(p + "mlp_norm.weight", D, 1.0, 0.3)
            self.mlp(p + "mlp.")
        self.vector("model.norm.weight", D, 1.0, 0.3)
        if not self.config.get("tie_word_embeddings", False):
            self.matrix("lm_head.weight", VOCAB, D)
        return self.tensors


def write_weights(folder, tensors, stored):
    dtype, shards = stored.get("dtype", "F32"), stored.get("shards", 1)
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


def write_rounded(folder):
    logits = reference_logits(folder, round_bf16)
    np.save(os.path.join(folder, "logits_bf16.npy"), logits)
    plain = np.load(os.path.join(folder, "logits.npy"))
    error = math.sqrt(np.mean((logits - plain) ** 2) / np.mean(plain**2))
    print("%-28s error of bf16: %.2e" % (os.path.basename(folder), error))


def make_case(root, name):
    change, stored = CASES[name]
    values = {**BASE, **change}
    values = {key: value for key, value in values.items() if value is not None}
    folder = os.path.join(root, name)
    os.makedirs(folder, exist_ok=True)
    seed = sorted(CASES).index(name) + 1
    tensors = CaseTensors(values, stored, seed).make()
    tokens = np.random.default_rng(100 + seed).integers(0, VOCAB, TOKENS)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(values, file, indent=1)
        file.write("\n")
    with open(os.path.join(folder, "token_ids.json"), "w") as file:
        file.write(json.dumps([int(token) for token in tokens]) + "\n")
    write_weights(folder, tensors, stored)
    # From the files: what counts are the weights as stored.
    np.save(os.path.join(folder, "logits.npy"), reference_logits(folder, exact))
    write_rounded(folder)


def check(folder):
    difference = reference_logits(folder, exact) - np.load(folder + "/logits.npy")
    worst = np.abs(difference).max()
    print("%-28s largest difference: %.1e" % (os.path.basename(folder), worst))
    return worst < 1e-12


def main(arguments):
    command, rest = arguments[0], [path.rstrip("/") for path in arguments[1:]]
    if command == "check":
        return 0 if all([check(folder) for folder in rest]) else 1
    if command == "round":
        for folder in rest:
            write_rounded(folder)
        return 0
    if command == "make":
        for name in rest[1:] or CASES:
            make_case(rest[0], name)
        return 0
    raise ValueError(command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) if len(sys.argv) > 2 else __doc__)
