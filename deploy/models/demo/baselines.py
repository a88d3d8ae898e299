#!/usr/bin/python3
"""What the demo model has to beat, on the same held-out text.

Prints the bits per byte of heldout.bin

  order_5_witten_bell   under a byte model that knows the five bytes before,
                        with interpolated Witten-Bell smoothing, its counts
                        taken from train.bin.xz and frozen; first byte at 8 bits
  xz_9e                 as compressed by `xz -9e`, container included

Needs nothing but Python.
"""

import collections
import json
import lzma
import math
import os

FOLDER = os.path.dirname(os.path.abspath(__file__))
ORDER = 5  # bytes of context


def read_texts(folder=FOLDER):
    """Returns the training text and the held-out text, as bytes."""
    with lzma.open(os.path.join(folder, "train.bin.xz")) as file:
        train = file.read()
    with open(os.path.join(folder, "heldout.bin"), "rb") as file:
        return train, file.read()


def context_counts(text, length):
    """Returns {context of `length` bytes: {next byte: times seen}}."""
    counts = collections.defaultdict(dict)
    for i in range(length, len(text)):
        seen = counts[text[i - length:i]]
        seen[text[i]] = seen.get(text[i], 0) + 1
    return counts


def witten_bell_bits(train, text, order=ORDER):
    """Returns the bits per byte of text under counts from train.

    With c(h, b) the times that byte b followed context h, n(h) their sum and
    u(h) the number of different bytes among them (Witten and Bell 1991):

      p(b | h) = (c(h, b) + u(h) p(b | h less its first byte)) / (n(h) + u(h))

    from 1/256 upwards; a context never seen is passed over.
    """
    levels = [context_counts(train, length) for length in range(order + 1)]
    sums = [{h: sum(seen.values()) for h, seen in level.items()}
            for level in levels]
    bits = 8.0
    for i in range(1, len(text)):
        p = 1 / 256
        for length in range(min(order, i) + 1):
            context = text[i - length:i]
            total = sums[length].get(context)
            if total is None:
                break  # nor has any longer context been seen
            seen = levels[length][context]
            p = (seen.get(text[i], 0) + len(seen) * p) / (total + len(seen))
        bits -= math.log2(p)
    return bits / len(text)


def xz_bits(text):
    """Returns the bits per byte of text in an xz file, without help."""
    packed = lzma.compress(text, preset=9 | lzma.PRESET_EXTREME)
    return 8 * len(packed) / len(text)


if __name__ == "__main__":
    train_text, held_out = read_texts()
    print(json.dumps({"order_5_witten_bell": witten_bell_bits(train_text,
                                                              held_out),
                      "xz_9e": xz_bits(held_out)}, indent=2))
