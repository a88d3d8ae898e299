"""Compares Steadystate with llama.cpp and PyTorch on the same weights.

Installs the peers from PyPI into a virtual environment, unless they are there:
llama.cpp, which is compiled for this machine in ten minutes, and with --torch
PyTorch. Needs python3-venv, CMake, a C++ compiler, 3 GB of disk for the weights
and 7 GB more for PyTorch, which brings its CUDA libraries along. Ends with 77
where the packages cannot be had.
"""

import argparse
import math
import os
import pathlib

import paths

# Weights of Steadystate, and those of llama.cpp that are about as many bits.
WEIGHTS = {"f32": ("f32",), "bf16": ("bf16",), "int8": ("q8_0",),
           "int4": ("q4_0", "q4_k_m")}
# The shapes of steadystate-bench checkpoint that the peers know, too.
MAMBA2 = ("mamba2-130m", "mamba2-370m", "mamba2-tiny")
# PyTorch's formulas are Mamba-2's.
HYBRIDS = ("qwen3.5-0.8b", "lfm2-1.2b", "granite-4.0-h-350m")


def number(kind, least):
    """Of an option: a finite number that is at least so large."""
    def read(text):
        value = kind(text)
        if not (math.isfinite(value) and value >= least):
            raise argparse.ArgumentTypeError(
                f"{text} is not a number from {least} on")
        return value
    read.__name__ = kind.__name__  # argparse names it in its own errors
    return read


def make_parser():
    parser = argparse.ArgumentParser(
        prog="tests/bench/peers/run",
        usage="%(prog)s [--venv DIR] [--bin DIR] [OPTION...]",
        description=__doc__,
        allow_abbrev=False,  # `run` would not know them
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv", metavar="DIR",
                        help="where the peers are installed, build/peers")
    parser.add_argument("--bin", metavar="DIR",
                        help="where our programs are, build/release/bin")
    parser.add_argument("--shape", default="mamba2-370m",
                        choices=MAMBA2 + HYBRIDS, help="of the weights")
    parser.add_argument("--prefill", nargs="*", type=number(int, 1),
                        default=[512], metavar="N",
                        help="tokens of a prompt, 512")
    parser.add_argument("--sequences", nargs="*", type=number(int, 1),
                        default=[1, 8, 32], metavar="N",
                        help="that are decoded together, 1 8 32")
    parser.add_argument("--behind", nargs="+", type=number(int, 0),
                        default=[0], metavar="N",
                        help="tokens that each sequence has read before, 0")
    parser.add_argument("--folder", type=pathlib.Path, metavar="DIR",
                        default=paths.ROOT / "build/peers/models",
                        help="keeps the checkpoints and GGUF files")
    parser.add_argument("--weights", nargs="+", choices=WEIGHTS,
                        default=["bf16"],
                        help="beside int8 llama.cpp has Q8_0, beside int4 "
                             "Q4_0 and Q4_K_M")
    parser.add_argument("--state_dtype", choices=("bf16", "int16"),
                        help="measures Steadystate with such states, too")
    parser.add_argument("--torch", action="store_true",
                        help="measures PyTorch, too")
    parser.add_argument("--threads", type=number(int, 1), metavar="N",
                        default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=number(int, 0), default=5,
                        metavar="N", help="0: compares logits only")
    parser.add_argument("--seconds", type=number(float, 0.01), default=3,
                        metavar="S",
                        help="that a measurement takes at least")
    parser.add_argument("--tokens", type=number(int, 0), default=32,
                        metavar="N", help="whose logits are compared; 0 for none")
    parser.add_argument("--seed", type=number(int, 0), default=1,
                        metavar="N", help="of these tokens")
    parser.add_argument("--no_search", action="store_true",
                        help="leaves the peers' settings as they are")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE",
                        help="writes all figures")
    parser.add_argument("--markdown", action="store_true",
                        help="prints Markdown")
    return parser


def parse():
    parser = make_parser()
    options = parser.parse_args()
    if options.torch and options.shape in HYBRIDS:
        parser.error(f"PyTorch is not asked for {options.shape}")
    return options


if __name__ == "__main__":
    parse()  # `run` looks before it installs anything
