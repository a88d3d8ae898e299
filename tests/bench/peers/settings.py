"""The settings of a peer, and the search for its best ones.

What can matter on a CPU: whether threads wait for each other in a loop or
asleep, how many there are, how many tokens of a prompt are computed together,
and how the weights lie in memory. Each is tried with the best of those before
it.
"""

import dataclasses

ASLEEP = {"OMP_WAIT_POLICY": "passive"}
# What "huge" adds to "copied": huge pages for what malloc gives, where the
# kernel has them for those who ask.
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


@dataclasses.dataclass(frozen=True)
class Settings:
    """Of one measurement. What a peer has no choice of is None."""

    threads: int
    waiting: str = "in a loop"  # OpenMP's default; or "asleep"
    ubatch: int | None = None
    memory: str | None = None  # "mapped", "copied" or "huge"

    def options(self):
        """Of the worker."""
        options = ["--threads", self.threads]
        if self.ubatch:
            options += ["--ubatch", self.ubatch]
        if self.memory:
            memory = "copied" if self.memory == "huge" else self.memory
            options += ["--memory", memory]
        return options

    def environment(self):
        """What is set beside the environment that is there."""
        huge = HUGE_PAGES if self.memory == "huge" else {}
        return {**huge, **(ASLEEP if self.waiting == "asleep" else {})}

    def __str__(self):
        text = f"{self.threads} thread" + "s" * (self.threads > 1)
        text += f", waiting {self.waiting}"
        if self.ubatch:
            text += f", ubatch {self.ubatch}"
        return text + (f", weights {self.memory}" if self.memory else "")


def alternatives(start, work):
    """(field, values to try beside that of `start`), as the search goes."""
    yield "waiting", ("asleep",)
    yield "threads", range(1, start.threads)
    if start.ubatch and work.what == "prefill":
        yield "ubatch", (32, 128, 256)
    if start.memory:
        yield "memory", ("copied", "huge")


def find_best(rate, work, start):
    """(the best Settings, [(Settings, rate) of all that were tried]).

    rate: a function of Settings.
    """
    best, tried = start, [(start, rate(start))]
    for field, values in alternatives(start, work):
        before = best
        for value in values:
            settings = dataclasses.replace(before, **{field: value})
            tried.append((settings, rate(settings)))
        best = max(tried, key=lambda entry: entry[1])[0]
    return best, tried
