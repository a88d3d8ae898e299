"""Checkpoints for the sake of their tokenizers: the weights are all zero."""

import json
import pathlib
import shutil
import struct

from testing.server_process import ROOT

HIDDEN, LAYERS, HEADS, INTERMEDIATE, GATE_RANK = 64, 2, 4, 160, 16


def _shapes(vocab):
    shapes = {"model.embeddings.weight": (vocab, HIDDEN),
              "model.norm.weight": (HIDDEN,),
              "lm_head.weight": (vocab, HIDDEN)}
    keys = HIDDEN // 2
    for layer in range(LAYERS):
        parts = {
            "attn_norm": (HIDDEN,), "mlp_norm": (HIDDEN,),
            "mlp.down_proj": (HIDDEN, INTERMEDIATE),
            "mlp.gate_proj": (INTERMEDIATE, HIDDEN),
            "mlp.up_proj": (INTERMEDIATE, HIDDEN),
            "attn.q_proj": (keys, HIDDEN), "attn.k_proj": (keys, HIDDEN),
            "attn.v_proj": (HIDDEN, HIDDEN), "attn.o_proj": (HIDDEN, HIDDEN),
            "attn.g_norm_swish_gate": (HIDDEN // HEADS,),
            "attn.g_proj": (HIDDEN, HIDDEN),
            "attn.gk_proj.0": (GATE_RANK, HIDDEN),
            "attn.gk_proj.1": (keys, GATE_RANK)}
        for name, shape in parts.items():
            shapes[f"model.layers.{layer}.{name}.weight"] = shape
        shapes[f"model.layers.{layer}.attn.gk_proj.1.bias"] = (keys,)
    return shapes


def write_checkpoint(directory, vocab):
    """A gla checkpoint without a tokenizer."""
    header, offset = {}, 0
    for name, shape in _shapes(vocab).items():
        size = 4
        for extent in shape:
            size *= extent
        header[name] = {"dtype": "F32", "shape": shape,
                        "data_offsets": [offset, offset + size]}
        offset += size
    encoded = json.dumps(header).encode()
    with open(pathlib.Path(directory, "model.safetensors"), "wb") as weights:
        weights.write(struct.pack("<Q", len(encoded)) + encoded)
        weights.truncate(8 + len(encoded) + offset)
    pathlib.Path(directory, "config.json").write_text(json.dumps({
        "model_type": "gla", "hidden_size": HIDDEN, "vocab_size": vocab,
        "num_hidden_layers": LAYERS, "num_heads": HEADS, "norm_eps": 1e-6,
        "intermediate_size": INTERMEDIATE, "expand_k": 0.5, "expand_v": 1.0,
        "bos_token_id": 1, "eos_token_id": 2}))


def write_with_tokenizer(directory, kind):
    """With one of tests/data/tokenizers."""
    write_checkpoint(directory, 1500)
    shutil.copy(ROOT / "tests/data/tokenizers" / kind / "tokenizer.json",
                directory)


def write_with_long_token(directory, token, text_bytes):
    """With an RWKV vocabulary of bytes, where `token` is `text_bytes` of
    blanks: few bytes of ids that are a long text."""
    write_checkpoint(directory, 1 << 16)
    lines = [f"{i + 1} {bytes([i])!r} 1" for i in range(256)]
    lines.append(f"{token} {b' ' * text_bytes!r} {text_bytes}")
    pathlib.Path(directory, "rwkv_vocab_v1.txt").write_text(
        "\n".join(lines) + "\n")
