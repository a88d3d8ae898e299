"""Goal: what the peers are given is the same model, so that a comparison of
speed compares the same work.

Method: golden checkpoints, and for Qwen3.5 others that are made like them,
become GGUF, llama.cpp's and PyTorch's logits of their tokens are compared with
the float64 ones, read at once and decoded one at a time; a measurement of each
yields a rate. Sequences that are copies of one that has read a prompt go on as
that does. Whoever is not installed is left out, and so is what makes a peer
crash, which is said; without any of them the test is skipped.
"""

import argparse
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
# Of the types that llama.cpp makes itself.
MADE_BOUNDS = {"q4_0": 0.6, "q4_k_m": 0.3}
# The widths of these are no multiples of 32, which Q8_0 asks for. lfm2-indices
# has biases of convolutions, which llama.cpp has not.
LFM2_CASES = ("lfm2", "lfm2-attention-first")
GRANITE_CASES = ("granitemoehybrid",)
HYBRID_BOUNDS = {"f32": 5e-6, "bf16": 6e-2}


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

    def expect_golden_logits(self, folder, script, options, bound):
        tokens = json.loads((folder / "token_ids.json").read_text())
        before = len(tokens) // 2
        found = worker_logits(script, tokens, before, options)
        errors = logits.errors(found, np.load(folder / "logits.npy"), before)
        self.assertLess(max(errors.values()), bound, (folder, options))

    def expect_rates(self, script, options, behind=0):
        for work in (Work("prefill", 8), Work("decode", 3, behind)):
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
                        self.expect_golden_logits(
                            GOLDEN / case, "llama_cpp_peer.py", options, bound)
            with self.unless_it_crashes("llama.cpp, rates"):
                self.expect_rates("llama_cpp_peer.py", options)

    @unittest.skipUnless(LLAMA_CPP, "no llama-cpp-python and gguf here")
    def test_llama_cpp_with_four_bits(self):
        import quantize
        import to_gguf
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "bf16.gguf"
            to_gguf.convert(GOLDEN / "mamba2", source, "bf16")
            for kind, bound in MADE_BOUNDS.items():
                file = pathlib.Path(folder) / f"{kind}.gguf"
                quantize.convert(source, file, kind)
                options = ["--model", file, "--threads", 1]
                with self.unless_it_crashes(f"llama.cpp, {kind}"):
                    self.expect_golden_logits(
                        GOLDEN / "mamba2", "llama_cpp_peer.py", options, bound)

    def expect_llama_cpp(self, case, root, folder):
        """Of a hybrid in `folder`, with GGUF files below `root`."""
        import to_gguf
        for kind, bound in HYBRID_BOUNDS.items():
            file = pathlib.Path(root) / f"{case}-{kind}.gguf"
            to_gguf.convert(folder, file, kind)
            options = ["--model", file, "--threads", 1, "--cache", "f32"]
            with self.unless_it_crashes(f"llama.cpp, {case}, {kind}"):
                self.expect_golden_logits(folder, "llama_cpp_peer.py", options,
                                          bound)
        with self.unless_it_crashes(f"llama.cpp, {case}, rates"):
            self.expect_rates("llama_cpp_peer.py", options, behind=5)

    @unittest.skipUnless(LLAMA_CPP, "no llama-cpp-python and gguf here")
    def test_llama_cpp_with_hybrids(self):
        import qwen35_cases
        with tempfile.TemporaryDirectory() as root:
            for case in LFM2_CASES + GRANITE_CASES:
                self.expect_llama_cpp(case, root, GOLDEN / case)
            for case in qwen35_cases.NEW:
                self.expect_llama_cpp(case, root,
                                      qwen35_cases.make(root, case))

    @unittest.skipUnless(LLAMA_CPP, "no llama-cpp-python and gguf here")
    def test_copied_sequences_go_on_as_the_first(self):
        import llama_cpp_peer
        import to_gguf
        with tempfile.TemporaryDirectory() as root:
            file = pathlib.Path(root) / "lfm2.gguf"
            to_gguf.convert(GOLDEN / "lfm2", file, "f32")
            peer = llama_cpp_peer.LlamaCpp(argparse.Namespace(
                model=file, threads=1, sequences=3, prompt=8, behind=8,
                token_ids=[], ubatch=512, memory="mapped", cache="f32"))
            peer.absorb([3, 1, 4, 1, 5, 9, 2, 6], every=False)
            fresh = np.array(peer.step([5, 5, 5]))
            self.assertGreater(logits.relative_rms(fresh[1], fresh[0]), 0.1)
            for time in ("computed", "from the file"):
                peer.begin([3, 1, 4, 1, 5, 9, 2, 6])
                for row in np.array(peer.step([5, 5, 5])):
                    self.assertLess(logits.relative_rms(row, fresh[0]), 2e-6,
                                    time)
                self.assertTrue(pathlib.Path(peer.prompt_file).exists())
            peer.begin([3, 1, 4, 1, 5, 9, 2, 7])  # of which there is no file
            for row in np.array(peer.step([5, 5, 5])):
                self.assertGreater(logits.relative_rms(row, fresh[0]), 0.01)

    @unittest.skipUnless(LLAMA_CPP, "no llama-cpp-python and gguf here")
    def test_refuses_what_llama_cpp_would_compute_otherwise(self):
        import to_gguf
        with tempfile.TemporaryDirectory() as folder:
            for case in ("mamba2-bias", "mamba2-clamp", "mamba2-fla",
                         "mamba2-groups-full-norm", "mamba", "lfm2-indices",
                         "qwen3_5", "qwen3_5-three-values", "qwen3_5-nested",
                         "granitemoehybrid-experts", "granitemoehybrid-rope",
                         "granitemoehybrid-plain"):
                with self.assertRaises(ValueError, msg=case):
                    to_gguf.convert(GOLDEN / case,
                                    pathlib.Path(folder) / "no.gguf", "f32")

    @unittest.skipUnless(TORCH, "no PyTorch here")
    def test_torch(self):
        for case in ("mamba2", "mamba2-groups"):
            for dtype, kind in (("float32", "f32"), ("bfloat16", "bf16")):
                options = ["--model", GOLDEN / case, "--threads", 1,
                           "--dtype", dtype]
                self.expect_golden_logits(GOLDEN / case, "torch_peer.py",
                                          options, BOUNDS[kind])
        self.expect_rates("torch_peer.py", options)


if __name__ == "__main__":
    unittest.main()
