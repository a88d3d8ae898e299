"""Steadystate: logits by its command line, rates by steadystate-bench.

The programs are found in STEADYSTATE_BIN_DIR, see testing/server_process.py.
"""

import json
import pathlib
import subprocess
import tempfile

import numpy as np
import paths  # noqa: F401  where testing is
from testing.server_process import BIN_DIR, ServerProcess

BENCH = BIN_DIR / "steadystate-bench"


def make_checkpoint(shape, folder):
    """Random weights with matrices in bf16, always the same."""
    subprocess.run([BENCH, "checkpoint", "--shape", shape, "--out", folder],
                   check=True, stdout=subprocess.DEVNULL)


class Scorer:
    """`steadystate score` on a server, with the logits in a NumPy file."""

    def __init__(self, address, folder):
        self._address = address
        self._ids = pathlib.Path(folder) / "ids.json"
        self._out = pathlib.Path(folder) / "logits.npy"

    def _run(self, *command):
        subprocess.run([BIN_DIR / "steadystate", *command, "--address",
                        self._address], check=True, stdout=subprocess.DEVNULL)

    def make_session(self, name):
        self._run("session", "create", "--id", name)

    def logits(self, tokens, *flags):
        """float32 [tokens, vocab], of one request."""
        self._ids.write_text(json.dumps(tokens))
        self._run("score", "--token_ids_file", self._ids, "--logits_out",
                  self._out, *flags)
        return np.load(self._out)


def score(scorer, tokens, before):
    at_once = scorer.logits(tokens)
    scorer.make_session("peers")
    session = ("--session", "peers")
    scorer.logits(tokens[:before], *session)
    single = [scorer.logits([token], *session)[0] for token in tokens[before:]]
    return at_once, np.array(single)


class Steadystate:
    """A contender, see contenders.py."""

    def __init__(self, folder, weights, threads, states="f32"):
        self.name = "Steadystate, " + weights
        self._folder = folder
        self._flags = ["--weight_dtype", weights, "--threads", str(threads)]
        if states != "f32":
            self.name += f", {states} states"
            self._flags += ["--state_dtype", states]
        self.about = {}

    def logits(self, tokens, before):
        with tempfile.TemporaryDirectory() as folder, ServerProcess(
                *self._flags, model=self._folder, timeout_s=300) as server:
            return score(Scorer(server.grpc, folder), tokens, before)

    def can(self, work):
        return True

    def rate(self, work, seconds):
        if work.what == "decode":
            choice = ["--no_prefill", "--sessions", str(work.count),
                      "--behind", str(work.behind), "--duration",
                      f"{seconds}s"]
        else:
            choice = ["--no_decode", "--prompt", str(work.count)]
        report = json.loads(subprocess.run(
            [BENCH, "engine", "--json", "--model", self._folder,
             "--repetitions", "1" if work.what == "decode" else "3",
             *self._flags, *choice], check=True, text=True,
            stdout=subprocess.PIPE).stdout)
        self.about = report["environment"]
        return report[work.what][0]["tokens_per_second"]
