"""What is measured, and workers that measure it, see worker.py."""

import dataclasses
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import paths


@dataclasses.dataclass(frozen=True)
class Work:
    """Reading a prompt of `count` tokens, or decoding `count` sequences that
    have read `behind` tokens before."""

    what: str  # "prefill" or "decode"
    count: int
    behind: int = 0

    def __str__(self):
        if self.what == "prefill":
            return f"prefill, {self.count} tokens"
        text = f"decode, {self.count} sequence" + "s" * (self.count > 1)
        return text + (f", {self.behind} behind" if self.behind else "")

    def like(self):
        """Equal for works whose best settings are taken for the same: prompts
        of any length, and as many sequences whatever they have read."""
        return self.what, self.count if self.what == "decode" else 0

    def options(self):
        """Of a worker."""
        if self.what == "prefill":
            return [self.what, "--prompt", self.count]
        return [self.what, "--sequences", self.count, "--behind", self.behind]


class Crashed(Exception):
    """A peer was ended by a signal: a fault of its own, not of a comparison."""


def run_worker(script, options, environment=None):
    """The parsed output of a worker. Crashed if a signal ended it."""
    command = [sys.executable, "-B", paths.HERE / script, *options]
    output = subprocess.run(
        [str(word) for word in command], text=True, stdout=subprocess.PIPE,
        env={**os.environ, **(environment or {})})
    if output.returncode < 0:
        raise Crashed(signal.Signals(-output.returncode).name)
    output.check_returncode()
    return json.loads(output.stdout)


def worker_rate(script, work, options, environment=None):
    """(tokens per second, what the worker says about itself)."""
    result = run_worker(script, [*work.options(), *options], environment)
    rate = result["tokens"] / statistics.median(result["seconds"])
    return rate, result["about"]


def worker_logits(script, tokens, before, options):
    """(of all tokens read at once, of those after `before` one at a time)."""
    with tempfile.TemporaryDirectory() as folder:
        ids = pathlib.Path(folder) / "ids.json"
        out = pathlib.Path(folder) / "logits.npz"
        ids.write_text(json.dumps(tokens))
        run_worker(script, ["logits", "--token_ids", ids, "--before", before,
                            "--out", out, *options])
        found = np.load(out)
        return found["prefill"], found["decode"]
