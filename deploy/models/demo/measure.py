#!/usr/bin/python3
"""Measures a served demo model on the held-out text, by `steadystate score`.

The held-out text runs through one session --passes times, its state never
reset. Its documents are then cut into pieces of 2048 bytes, each read by a
session of its own, to see what the state is worth. Prints as JSON

  bits_per_byte   of the first pass, the first byte at 8 bits
  by_pass         bits per byte of each pass
  by_position     [{first, last, fresh, stream}, ...]: of the bytes first to
                  last of all pieces, the bits per byte in the pieces' own
                  sessions and, of the same bytes, in the stream's first pass

and with --plot draws the latter two. Needs Python and a running server:

  steadystate-server --model deploy/models/demo &
  deploy/models/demo/measure.py --passes 5 --plot deploy/models/demo/bits.svg
"""

import argparse
import array
import json
import math
import os
import re
import subprocess
import sys
import tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
# Of positions in a piece, in bytes.
EDGES = (0, 16, 32, 64, 128, 256, 512, 1024, 2048)
COLOURS = {"fresh session": "#b5541c", "stream": "#1f6f8b"}


def read_vector(path):
    """Returns the numbers of a one-dimensional float32 .npy file."""
    with open(path, "rb") as file:
        data = file.read()
    header_end = 10 + int.from_bytes(data[8:10], "little")
    if not re.search(rb"'descr': '<f4'.*'shape': \(\d+,\)",
                     data[10:header_end]):
        sys.exit(f"{path} is not a float32 vector: {data[10:header_end]!r}")
    values = array.array("f")
    values.frombytes(data[header_end:])
    if sys.byteorder == "big":
        values.byteswap()
    return values


def score(program, address, text):
    """Returns the bits of each byte of text, one stream from a fresh state."""
    with tempfile.TemporaryDirectory() as folder:
        text_file = os.path.join(folder, "text")
        logprobs = os.path.join(folder, "logprobs.npy")
        with open(text_file, "wb") as file:
            file.write(text)
        subprocess.run([program, "score", "--address", address, "--text_file",
                        text_file, "--logprobs_out", logprobs, "--json"],
                       check=True, stdout=subprocess.DEVNULL)
        bits = [-nats / math.log(2) for nats in read_vector(logprobs)]
    if len(bits) != len(text):
        sys.exit(f"{len(text)} bytes have {len(bits)} log-probabilities")
    bits[0] = 8.0  # nothing precedes it
    return bits


def mean(values):
    return sum(values) / len(values)


def piece_starts(text, length=EDGES[-1]):
    """Where the pieces begin: whole ones only, none over a document's end."""
    starts, begin = [], 0
    for document in text.split(b"\0")[:-1]:
        starts += range(begin, begin + len(document) - length + 1, length)
        begin += len(document) + 1
    return starts


def by_position(text, stream_bits, score_piece, edges=EDGES):
    """Compares fresh sessions with the stream, byte by byte of the pieces."""
    starts = piece_starts(text, edges[-1])
    fresh = [score_piece(text[s:s + edges[-1]]) for s in starts]
    stream = [stream_bits[s:s + edges[-1]] for s in starts]
    across = lambda pieces, first, last: mean(
        [mean(piece[first:last]) for piece in pieces])
    return [{"first": first, "last": last - 1,
             "fresh": across(fresh, first, last),
             "stream": across(stream, first, last)}
            for first, last in zip(edges, edges[1:])]


def panel(left, title, below, labels, lines):
    """Returns a chart as SVG elements. lines: {name: a value for each label}"""
    values = [value for line in lines.values() for value in line]
    low = math.floor(min(values) * 10 - 1) / 10
    high = math.ceil(max(values) * 10 + 1) / 10
    step = 320 / max(1, len(labels) - 1)
    place = lambda n, value: (left + 60 + step * n,
                              250 - 200 * (value - low) / (high - low))
    parts = [f'<text x="{left + 40}" y="24" font-weight="bold">{title}</text>',
             f'<text x="{left + 220}" y="304" text-anchor="middle">{below}'
             '</text>',
             f'<line x1="{left + 40}" y1="260" x2="{left + 400}" y2="260" '
             'stroke="#999"/>']
    for n, label in enumerate(labels):
        parts.append(f'<text x="{place(n, low)[0]:.1f}" y="280" fill="#555" '
                     f'text-anchor="middle">{label}</text>')
    for row, (name, line) in enumerate(lines.items()):
        points = [place(n, value) for n, value in enumerate(line)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        others = [other for other in lines.values() if other is not line]
        parts.append(f'<polyline points="{path}" fill="none" stroke-width="2" '
                     f'stroke="{COLOURS[name]}"/>')
        parts.append(f'<text x="{left + 400}" y="{44 + 16 * row}" '
                     f'text-anchor="end" fill="{COLOURS[name]}">{name}</text>')
        for n, ((x, y), value) in enumerate(zip(points, line)):
            is_lower = any(value < other[n] for other in others)
            shift = 18 if is_lower else -9  # numbers outside, not between
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" '
                         f'fill="{COLOURS[name]}"/>')
            parts.append(f'<text x="{x:.1f}" y="{y + shift:.1f}" '
                         f'text-anchor="middle">{value:.2f}</text>')
    return parts


def plot(result):
    """Returns the chart of a result as the text of an SVG file."""
    positions, passes = result["by_position"], result["by_pass"]
    size = result["bytes_per_pass"]
    parts = panel(0, "Bits per byte by what the state has read",
                  "position in the piece, bytes, to",
                  [row["last"] + 1 for row in positions],
                  {"fresh session": [row["fresh"] for row in positions],
                   "stream": [row["stream"] for row in positions]})
    parts += panel(440, "Bits per byte along one stream", "1000 bytes read",
                   [f"{size * (n + 1) / 1000:.0f}" for n in range(len(passes))],
                   {"stream": passes})
    return ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 880 320" '
            'font-family="sans-serif" font-size="11">\n'
            '<rect width="880" height="320" fill="white"/>\n'
            + "\n".join(parts) + "\n</svg>\n")


def measure(program, address, passes):
    """Returns the figures described above."""
    with open(os.path.join(FOLDER, "heldout.bin"), "rb") as file:
        text = file.read()
    bits = score(program, address, text * passes)
    size = len(text)
    by_pass = [mean(bits[n * size:(n + 1) * size]) for n in range(passes)]
    score_piece = lambda piece: score(program, address, piece)
    return {"bytes_per_pass": size, "bits_per_byte": by_pass[0],
            "by_pass": by_pass,
            "by_position": by_position(text, bits, score_piece)}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", default=os.environ.get(
        "STEADYSTATE_ADDRESS", "127.0.0.1:50051"), help="of the server")
    parser.add_argument("--program", default="steadystate",
                        help="the command line client")
    parser.add_argument("--passes", type=int, default=1,
                        help="over the held-out text, 1 to 100")
    parser.add_argument("--plot", help="SVG file to write")
    args = parser.parse_args()
    if not 1 <= args.passes <= 100:
        parser.error(f"--passes is {args.passes}; it is 1 to 100")
    result = measure(args.program, args.address, args.passes)
    print(json.dumps(result, indent=2))
    if args.plot:
        with open(args.plot, "w", encoding="utf-8") as out:
            out.write(plot(result))


if __name__ == "__main__":
    main()
