#!/usr/bin/env python3
"""A plain float64 reference of every family, and the maker of golden cases.

Written from formulas alone: it shares no code with the server and none with
any library. One token at a time, one head at a time, no cleverness.

  reference.py check DIR...       compares with each DIR/logits.npy
  reference.py make DIR NAME...   writes the named cases (none: all) to DIR
  reference.py round DIR...       writes DIR/logits_bf16.npy
  reference.py bidirectional DIR...  writes DIR/embed_bidirectional.npy where
                                  there is such a pass
  reference.py matters DIR...     checks that every tensor moves the logits

A golden case is a checkpoint (config.json, *.safetensors), token_ids.json,
logits.npy (float64 [tokens, vocab], row t after tokens 0..t) and
logits_bf16.npy: the same run with every weight matrix, the embeddings and
every input of a weight matrix rounded to bf16, everything else in float64.
That is what bf16 weights cost at best. embed_bidirectional.npy is float64
[tokens, D], the hidden vectors after the final norm where every token sees
the whole sequence. Needs NumPy.

A new family is one module in families/ and one row of its table; a new case
is one entry of the family's CASES.
"""

import json
import math
import os
import sys

import numpy as np

from cases import CASES, write_case
from families import family_of
from language_model import CausalLm, is_foreign
from tensor_file import exact, read_checkpoint, round_bf16

TOLERANCE = 1e-12  # of `check`
LEAST_MOVE = 1e-3  # of `matters`


def make_model(values, tensors, rounded=exact):
    """The reference of a checkpoint, at the start of a sequence."""
    family = family_of(values["model_type"])
    return getattr(family, "Model", CausalLm)(family, values, tensors, rounded)


def read_tokens(folder):
    with open(os.path.join(folder, "token_ids.json")) as file:
        return json.load(file)


def reference_logits(folder, rounded=exact):
    values, tensors = read_checkpoint(folder)
    return make_model(values, tensors, rounded).logits(read_tokens(folder))


def write_rounded(folder):
    logits = reference_logits(folder, round_bf16)
    np.save(os.path.join(folder, "logits_bf16.npy"), logits)
    plain = np.load(os.path.join(folder, "logits.npy"))
    error = math.sqrt(np.mean((logits - plain) ** 2) / np.mean(plain**2))
    print("%-36s error of bf16: %.2e" % (os.path.basename(folder), error))


def make_case(root, name):
    folder = write_case(root, name)
    # From the files: what counts are the weights as stored.
    np.save(os.path.join(folder, "logits.npy"), reference_logits(folder))
    write_rounded(folder)
    write_bidirectional(folder)


def write_bidirectional(folder):
    """The bidirectional pass of mixers to which order does not matter.

    None of cases stored as "one_way": float32 cannot come near there.
    """
    if CASES.get(os.path.basename(folder), ("", {}, {}))[2].get("one_way"):
        return
    model = make_model(*read_checkpoint(folder))
    if getattr(model, "order_matters", lambda: True)():
        return
    hidden = model.bidirectional(read_tokens(folder))
    np.save(os.path.join(folder, "embed_bidirectional.npy"), hidden)
    print("%-36s bidirectional" % os.path.basename(folder))


def check_bidirectional(folder):
    """Largest difference from embed_bidirectional.npy, 0 without one."""
    path = os.path.join(folder, "embed_bidirectional.npy")
    if not os.path.exists(path):
        return 0.0
    model = make_model(*read_checkpoint(folder))
    return np.abs(model.bidirectional(read_tokens(folder)) - np.load(path)).max()


def check(folder):
    difference = reference_logits(folder) - np.load(folder + "/logits.npy")
    worst = max(np.abs(difference).max(), check_bidirectional(folder))
    print("%-36s largest difference: %.1e" % (os.path.basename(folder), worst))
    return worst < TOLERANCE


def matters(folder):
    """Whether a tenth of noise in any one tensor shows in the logits, but for
    those that are not the language model's."""
    values, tensors = read_checkpoint(folder)
    tokens = read_tokens(folder)
    plain = np.load(os.path.join(folder, "logits.npy"))
    idle = []
    own = {name: x for name, x in tensors.items() if not is_foreign(name)}
    for name, tensor in own.items():
        noise = np.random.default_rng(1).normal(size=tensor.shape)
        size = 0.1 * max(math.sqrt(np.mean(tensor**2)), 0.1)
        changed = {**tensors, name: tensor + size * noise}
        move = np.abs(make_model(values, changed).logits(tokens) - plain).max()
        if not move > LEAST_MOVE:
            idle.append("%s (%.1e)" % (name, move))
    verdict = ", ".join(idle) if idle else "all %d tensors matter" % len(own)
    print("%-36s %s" % (os.path.basename(folder), verdict))
    return not idle


def main(arguments):
    command, rest = arguments[0], [path.rstrip("/") for path in arguments[1:]]
    if command in ("check", "matters"):
        test = {"check": check, "matters": matters}[command]
        return 0 if all([test(folder) for folder in rest]) else 1
    if command in ("round", "bidirectional"):
        write = {"round": write_rounded, "bidirectional": write_bidirectional}[command]
        for folder in rest:
            write(folder)
        return 0
    if command == "make":
        for name in rest[1:] or CASES:
            make_case(rest[0], name)
        return 0
    raise ValueError(command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) if len(sys.argv) > 2 else __doc__)
