"""Small Qwen3.5 checkpoints that llama.cpp can have.

It can have none of the golden ones: their linear heads have keys and values of
different widths, or their attention a bias. These are made, and their logits
computed, as those are.
"""

import contextlib
import io
import pathlib

import paths  # noqa: F401  where the reference is
from cases import CASES
from families import qwen3_5
from reference import make_case

COMMON = {**qwen3_5.SMALL, "num_hidden_layers": 4, "linear_value_head_dim": 8}

NEW = {
    "one value head a key head": {
        **COMMON, "linear_num_value_heads": 2, "tie_word_embeddings": True},
    "two value heads a key head": {
        **COMMON, "full_attention_interval": 2, "rope_theta": 500.0},
    "three value heads a key head": {
        **COMMON, "linear_num_value_heads": 6, "partial_rotary_factor": 0.5,
        "layer_types": ["full_attention", "linear_attention",
                        "linear_attention", "full_attention"]},
}


def make(root, name):
    """One of NEW as a golden case below `root`; returns its folder."""
    CASES[name] = ("qwen3_5_text", NEW[name], {})
    with contextlib.redirect_stdout(io.StringIO()):
        make_case(root, name)
    return pathlib.Path(root) / name
