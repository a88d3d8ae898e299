"""Compares Steadystate with llama.cpp and PyTorch on the same weights.

Installs the peers from PyPI into a virtual environment, unless they are there:
llama.cpp, which is compiled for this machine in ten minutes, and with --torch
PyTorch. Needs python3-venv, CMake, a C++ compiler, 3 GB of disk for the weights
and 7 GB more for PyTorch, which brings its CUDA libraries along. Ends with 77
where the packages cannot be had.
"""

import argparse
import os
import pathlib

import paths

# Weights of Steadystate and of llama.cpp that are as many bits.
WEIGHTS = {"bf16": "bf16", "int8": "q8_0"}


def make_parser():
    parser = argparse.ArgumentParser(
        prog="tests/bench/peers/run",
        usage="%(prog)s [--venv DIR] [--bin DIR] [OPTION...]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv", metavar="DIR",
                        help="where the peers are installed, build/peers")
    parser.add_argument("--bin", metavar="DIR",
                        help="where our programs are, build/release/bin")
    parser.add_argument("--shape", default="mamba2-370m",
                        help="of the weights, see steadystate-bench checkpoint")
    parser.add_argument("--folder", type=pathlib.Path, metavar="DIR",
                        default=paths.ROOT / "build/peers/models",
                        help="keeps the checkpoints and GGUF files")
    parser.add_argument("--weights", nargs="*", choices=WEIGHTS,
                        default=["bf16"],
                        help="beside int8 llama.cpp has Q8_0")
    parser.add_argument("--state_dtype", metavar="TYPE",
                        help="measures Steadystate with such states, too")
    parser.add_argument("--torch", action="store_true",
                        help="measures PyTorch, too")
    parser.add_argument("--threads", type=int, metavar="N",
                        default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--seconds", type=float, default=3, metavar="S",
                        help="that a measurement takes at least")
    parser.add_argument("--tokens", type=int, default=32, metavar="N",
                        help="whose logits are compared; 0 for none")
    parser.add_argument("--seed", type=int, default=1, help="of these tokens")
    parser.add_argument("--no_search", action="store_true",
                        help="leaves the peers' settings as they are")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE",
                        help="writes all figures")
    parser.add_argument("--markdown", action="store_true",
                        help="prints Markdown")
    return parser


def parse():
    return make_parser().parse_args()


if __name__ == "__main__":
    make_parser().print_help()
