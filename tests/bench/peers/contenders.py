"""Those who are compared. Each has

  name                     "llama.cpp, bf16"
  logits(tokens, before)   (of all tokens read at once, of those after `before`
                           one at a time), [tokens, vocab] each
  can(work)                whether it has a rate for that
  rate(work, seconds)      tokens per second, measured for so long at least
  about                    {name: value}, what it says about itself; there
                           after the first rate
"""

from settings import Settings, find_best
from steadystate_peer import Steadystate  # noqa: F401  one of them
from work import worker_logits, worker_rate


class LlamaCpp:
    """Its states are float32, whatever its weights are."""

    SCRIPT = "llama_cpp_peer.py"

    def __init__(self, file, weights, threads):
        self.name = "llama.cpp, " + weights
        self._threads = threads
        self._options = ["--model", file]
        self._settings = {}  # by work
        self.about = {}

    def logits(self, tokens, before):
        return worker_logits(
            self.SCRIPT, tokens, before,
            [*self._options, *Settings(self._threads).options()])

    def _rate_with(self, settings, work, seconds):
        rate, self.about = worker_rate(
            self.SCRIPT, work,
            [*self._options, "--seconds", seconds, *settings.options()],
            settings.environment())
        return rate

    def search(self, work, seconds):
        """From now on the best settings are used; returns all tried."""
        self._settings[work], tried = find_best(
            lambda settings: self._rate_with(settings, work, seconds), work,
            self._threads)
        return tried

    def settings(self, work):
        return self._settings.get(work, Settings(self._threads))

    def can(self, work):
        return True

    def rate(self, work, seconds):
        return self._rate_with(self.settings(work), work, seconds)


class Torch:
    """Matrices in bf16, states in float32."""

    SCRIPT = "torch_peer.py"

    def __init__(self, folder, threads):
        self.name = "PyTorch, bf16"
        self._options = ["--model", folder, "--threads", threads]
        self.about = {}

    def logits(self, tokens, before):
        return worker_logits(self.SCRIPT, tokens, before, self._options)

    def can(self, work):
        return work.what == "decode"  # prompts are read by decoding

    def rate(self, work, seconds):
        rate, self.about = worker_rate(
            self.SCRIPT, work, [*self._options, "--seconds", seconds])
        return rate
