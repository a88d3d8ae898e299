"""Whether everybody computes the same function of the same weights.

Everybody's logits are compared with those of the float64 reference, which has
the checkpoint's weights and rounds nothing. An error is the RMS of a difference
relative to the RMS of the reference.
"""

import numpy as np
import paths  # noqa: F401  where the reference is
from reference import make_model
from tensor_file import read_checkpoint
from turns import note_crash
from work import Crashed


def relative_rms(values, expected):
    difference = np.mean(np.square(values - expected))
    return float(np.sqrt(difference / np.mean(np.square(expected))))


def errors(found, expected, before):
    """{"prefill", "decode"} of what a contender's logits() has returned."""
    prefill, decode = found
    return {"prefill": relative_rms(prefill, expected),
            "decode": relative_rms(decode, expected[before:])}


def compare(contenders, folder, count, seed, crashed):
    """{contender's name: its errors}, of `count` random tokens.

    The first half of them is read at once before the others are decoded. A
    contender's distance from the first one is in "from_first". Those who crash
    are added to `crashed` instead.
    """
    config, tensors = read_checkpoint(folder)
    tokens = np.random.default_rng(seed).integers(
        config["vocab_size"], size=count).tolist()
    expected = make_model(config, tensors).logits(tokens)
    del tensors  # 3 GB of a model of 370 million weights
    table, first = {}, None
    for contender in contenders:
        try:
            found = contender.logits(tokens, count // 2)
        except Crashed as crash:
            note_crash(crash, contender, "logits", crashed)
            continue
        first = found if first is None else first
        table[contender.name] = errors(found, expected, count // 2)
        table[contender.name]["from_first"] = relative_rms(found[1], first[1])
    return table
