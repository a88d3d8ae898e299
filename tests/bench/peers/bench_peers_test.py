"""Goal: what the peers are given is the same model, so that a comparison of
speed compares the same work.

Method: golden Mamba-2 checkpoints become GGUF, llama.cpp's and PyTorch's
logits of their tokens are compared with the stored float64 ones, read at once
and decoded one at a time; a measurement of each yields a rate. Whoever is not
installed is left out, and so is what makes a peer crash, which is said; without
any of them the test is skipped.
"""

import contextlib
import importlib.util
import json
import os
import pathlib
import sys
import tempfile
import unittest

import paths
from testing.skip import skip

# Where `run` installs by default.
PYTHON = paths.ROOT / "build/peers/bin/python"

GOLDEN = paths.TESTS / "golden"
CASES = ("mamba2", "mamba2-groups", "mamba2-tied")
# float32 is off by the order of sums; bf16 and Q8_0 by their rounding, which
# costs 0.9 % and 3 % of these small models at best.
BOUNDS = {"f32": 2e-6, "bf16": 2e-2, "q8_0": 6e-2}


def is_there(*packages):
    return all(importlib.util.find_spec(name) for name in packages)


LLAMA_CPP = is_there("numpy", "gguf", "llama_cpp")
TORCH = is_there("numpy", "torch")

if not (LLAMA_CPP or TORCH):
    if PYTHON.exists() and pathlib.Path(sys.executable) != PYTHON:
        os.execv(PYTHON, [PYTHON, "-B", *sys.argv])
    skip("neither llama.cpp nor PyTorch is here; tests/bench/peers/run "
         "installs them")

import logits  # noqa: E402  needs NumPy
import numpy as np  # noqa: E402
from work import Crashed, Work, worker_logits, worker_rate  # noqa: E402


class PeersTest(unittest.TestCase):

    @contextlib.contextmanager
    def unless_it_crashes(self, what):
        """A part that is skipped where the peer's own process crashes."""
        with self.subTest(what):
            try:
                yield
            except Crashed as crash:
                print(f"{what}: the peer crashed, {crash}", file=sys.stderr)
                self.skipTest(f"{what}: the peer crashed, {crash}")

    def expect_golden_logits(self, case, script, options, bound):
        folder = GOLDEN / case
        tokens = json.loads((folder / "token_ids.json").read_text())
        before = len(tokens) // 2
        found = worker_logits(script, tokens, before, options)
        errors = logits.errors(found, np.load(folder / "logits.npy"), before)
        self.assertLess(max(errors.values()), bound, (case, options))

    def expect_rates(self, script, options):
        for work in (Work("prefill", 8), Work("decode", 3)):
            rate, about = worker_rate(script, work,
                                      [*options, "--seconds", 0])
            self.assertGreater(rate, 0)
            self.assertTrue(about)

    @unittest.skipUnless(LLAMA_CPP, "no llama-cpp-python and gguf here")
    def test_llama_cpp(self):
        import to_gguf
        with tempfile.TemporaryDirectory() as folder:
            for case in CASES:
                for kind, bound in BOUNDS.items():
                    file = pathlib.Path(folder) / f"{case}-{kind}.gguf"
                    to_gguf.convert(GOLDEN / case, file, kind)
                    options = ["--model", file, "--threads", 1]
                    with self.unless_it_crashes(f"llama.cpp, {case}, {kind}"):
                        self.expect_golden_logits(case, "llama_cpp_peer.py",
                                                  options, bound)
            with self.unless_it_crashes("llama.cpp, rates"):
                self.expect_rates("llama_cpp_peer.py", options)

    @unittest.skipUnless(LLAMA_CPP, "no llama-cpp-python and gguf here")
    def test_refuses_what_llama_cpp_would_compute_otherwise(self):
        import to_gguf
        with tempfile.TemporaryDirectory() as folder:
            for case in ("mamba2-bias", "mamba2-clamp", "mamba2-fla",
                         "mamba2-groups-full-norm", "mamba"):
                with self.assertRaises(ValueError, msg=case):
                    to_gguf.convert(GOLDEN / case,
                                    pathlib.Path(folder) / "no.gguf", "f32")

    @unittest.skipUnless(TORCH, "no PyTorch here")
    def test_torch(self):
        for case in ("mamba2", "mamba2-groups"):
            for dtype, kind in (("float32", "f32"), ("bfloat16", "bf16")):
                options = ["--model", GOLDEN / case, "--threads", 1,
                           "--dtype", dtype]
                self.expect_golden_logits(case, "torch_peer.py", options,
                                          BOUNDS[kind])
        self.expect_rates("torch_peer.py", options)


if __name__ == "__main__":
    unittest.main()
