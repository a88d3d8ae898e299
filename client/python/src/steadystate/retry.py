"""How long, and how often, a call that failed is tried again."""

from __future__ import annotations

import dataclasses
import random
import time

from .errors import SessionBusy, SteadystateError, Unavailable


@dataclasses.dataclass(frozen=True)
class Retry:
    """What a client does about errors that pass by themselves: a server that
    is gone or restarts, a full queue or budget, a session that is busy.

    It waits as long as the server asks for (RetryInfo) or, where the server
    asks for nothing, from `first_wait` to `longest_wait` seconds, each time
    twice as long as the last; and gives up, with the error, when `patience`
    seconds would have passed since the first failure in a row, or after
    `attempts` of them. A call is only sent again where the server can tell a
    repeat from a new request.
    """

    patience: float = 60.0
    attempts: int = 1000
    first_wait: float = 0.05
    longest_wait: float = 2.0

    def __post_init__(self) -> None:
        for name in ("patience", "attempts", "first_wait", "longest_wait"):
            value = getattr(self, name)
            if not value >= 0:
                raise ValueError(f"{name} is {value!r}, at least 0 is needed")

    @classmethod
    def never(cls) -> Retry:
        """Every error is raised at once."""
        return cls(patience=0.0, attempts=0)


def may_pass(error: SteadystateError) -> bool:
    """Whether another try of the same may succeed."""
    return (isinstance(error, (Unavailable, SessionBusy)) or
            error.retry_after is not None)


class Backoff:
    """The failures in a row of one call or stream."""

    def __init__(self, retry: Retry) -> None:
        self._retry = retry
        self.succeed()

    def succeed(self) -> None:
        """Something worked: what fails from now on is another row."""
        self._failures = 0
        self._since: float | None = None

    def next_wait(self, error: SteadystateError) -> float | None:
        """Seconds until the next try, or None: raise the error."""
        if not may_pass(error):
            return None
        now = time.monotonic()
        if self._since is None:
            self._since = now
        retry = self._retry
        self._failures += 1
        if self._failures > retry.attempts:
            return None
        if error.retry_after is not None:
            # Not all clients at the same moment.
            wait = error.retry_after * random.uniform(1.0, 1.25)
        else:
            doublings = min(self._failures - 1, 60)
            wait = min(retry.first_wait * 2.0 ** doublings, retry.longest_wait)
            wait *= random.uniform(0.5, 1.0)
        if now + wait - self._since > retry.patience:
            return None
        return wait
