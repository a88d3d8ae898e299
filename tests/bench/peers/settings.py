"""The settings of llama.cpp, and the search for its best ones.

What can matter on a CPU: threads, how many tokens of a prompt are computed
together, and how the weights lie in memory. Each is tried with the best of
those before it.
"""

import dataclasses

# What "huge" adds to "copied": huge pages for what malloc gives, where the
# kernel has them for those who ask.
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


@dataclasses.dataclass(frozen=True)
class Settings:
    threads: int
    ubatch: int = 512
    memory: str = "mapped"  # or "copied", "huge"

    def options(self):
        """Of llama_cpp_peer.py."""
        memory = "copied" if self.memory == "huge" else self.memory
        return ["--threads", self.threads, "--ubatch", self.ubatch,
                "--memory", memory]

    def environment(self):
        return HUGE_PAGES if self.memory == "huge" else {}

    def __str__(self):
        return (f"{self.threads} thread" + "s" * (self.threads > 1)
                + f", ubatch {self.ubatch}, weights {self.memory}")


def alternatives(work, threads):
    """(field, values to try beside the default) in the order of the search."""
    yield "threads", range(1, threads)
    if work.what == "prefill":
        yield "ubatch", (32, 128, 256)
    yield "memory", ("copied", "huge")


def find_best(rate, work, threads):
    """(the best Settings, [(Settings, rate) of all that were tried]).

    rate: a function of Settings.
    """
    best = Settings(threads)
    tried = [(best, rate(best))]
    for field, values in alternatives(work, threads):
        start = best
        for value in values:
            settings = dataclasses.replace(start, **{field: value})
            tried.append((settings, rate(settings)))
        best = max(tried, key=lambda entry: entry[1])[0]
    return best, tried
