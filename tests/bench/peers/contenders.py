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


class Peer:
    """A contender whose work is done by a worker, see worker.py."""

    def __init__(self, name, script, model, settings):
        self.name = name
        self._script = script
        self._options = ["--model", model]
        self._default = settings
        self._settings = {}  # by Work.like()
        self.about = {}

    def logits(self, tokens, before):
        return worker_logits(self._script, tokens, before,
                             [*self._options, *self._default.options()])

    def can(self, work):
        return True

    def settings(self, work):
        return self._settings.get(work.like(), self._default)

    def _rate_with(self, settings, work, seconds):
        rate, self.about = worker_rate(
            self._script, work,
            [*self._options, "--seconds", seconds, *settings.options()],
            settings.environment())
        return rate

    def rate(self, work, seconds):
        return self._rate_with(self.settings(work), work, seconds)

    def search(self, work, seconds):
        """Finds the best settings for such work, which are used from now on.

        Returns [(Settings, rate)], all that were tried; none if they are known.
        """
        if work.like() in self._settings:
            return []
        self._settings[work.like()], tried = find_best(
            lambda settings: self._rate_with(settings, work, seconds), work,
            self._default)
        return tried


class LlamaCpp(Peer):
    """Its states are float32, whatever its weights are; what softmax attention
    keeps takes half the bytes, as with us, unless the weights are float32."""

    def __init__(self, file, weights, threads):
        super().__init__("llama.cpp, " + weights, "llama_cpp_peer.py", file,
                         Settings(threads, ubatch=512, memory="mapped"))
        self._options += ["--cache", "f32" if weights == "f32" else "f16"]


class Torch(Peer):
    """Matrices in bf16, states in float32."""

    def __init__(self, folder, threads):
        super().__init__("PyTorch, bf16", "torch_peer.py", folder,
                         Settings(threads))

    def can(self, work):
        # It would read a prompt by decoding.
        return work.what == "decode" and not work.behind
