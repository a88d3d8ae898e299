"""A real server under attack, with another client that must not notice.

    with Arena(self) as arena:
        attack(arena.grpc)

Entering starts the server and the other client (bystander.py). When the block
has ended, with what the attack has left open still open, the other client is
asked what it saw: no error, and 99 of 100 round trips within MAX_P99_MS. Then
the server is sent SIGTERM, in the midst of it, and must end with 0 within its
budget.

The long form, asked for by --long or STEADYSTATE_ADVERSARIAL_LONG=1, repeats
each situation and compares medians with those before the attack. The attackers
are on this machine, too, and keep its processors busy; in life they have their
own. So what is compared with was measured beside a busy loop on every
processor: what is more than that is the server's doing.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
import unittest

import adversarial.stubs  # first: it may start the script anew
from testing.server_process import ServerProcess

LONG = ("--long" in sys.argv or
        bool(os.environ.get("STEADYSTATE_ADVERSARIAL_LONG")))
REPEATS = 5 if LONG else 1
# Sanitizers make everything slower and larger: only what is no figure counts.
SANITIZED = bool(os.environ.get("STEADYSTATE_SANITIZED"))
MAX_P99_MS = 5000 if SANITIZED else 500
MAX_P99_RATIO = 3
DRAIN_TIMEOUT_S = 2
# The drain's time, what gRPC may take after it, and a busy machine's share.
SHUTDOWN_BUDGET_S = DRAIN_TIMEOUT_S + (30 if SANITIZED else 8)
CALM_S = 3  # of the long form, twice
MIB = 1 << 20


def percentile(values, fraction):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * fraction))]


def wait_until(condition, timeout_s, what):
    """Waits until `condition` holds; fails the test, naming `what`, if it does
    not within the time. Returns the seconds it took."""
    start = time.monotonic()
    while not condition():
        if time.monotonic() - start > timeout_s:
            raise AssertionError(f"{what}: not within {timeout_s} s")
        time.sleep(0.05)
    return time.monotonic() - start


class Bystander:
    """The other client's process."""

    def __init__(self, address):
        self._process = subprocess.Popen(
            [sys.executable, "-B",
             str(pathlib.Path(__file__).with_name("bystander.py")), address],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self._process.stdout.readline()
        if line != "ready\n":
            self.kill()
            raise AssertionError(f"no ping-pong before the attack: {line!r}")

    def report(self):
        """Ends it. Returns its round trips, in ms, and its errors."""
        try:
            out, _ = self._process.communicate("", timeout=60)
        except subprocess.TimeoutExpired:
            return [], ["no answer within 60 s"]
        finally:
            self.kill()
        report = json.loads(out)
        return report["round_trips"], report["errors"]

    def kill(self):
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()


class BusyLoops:
    """A process for each processor that does nothing else, for as long as this
    one lives."""

    LOOP = "import os; p = os.getppid()\nwhile os.getppid() == p: pass"

    def __enter__(self):
        self._processes = [
            subprocess.Popen([sys.executable, "-c", self.LOOP])
            for _ in range(len(os.sched_getaffinity(0)))]

    def __exit__(self, *error):
        for process in self._processes:
            process.kill()
            process.wait()


class Arena(ServerProcess):
    """See the module. `grpc` and `metrics` are the server's addresses. `case`
    is the test; `may_slow` lets the other client wait, never be refused."""

    def __init__(self, case, *flags, may_slow=False, **options):
        super().__init__("--drain_timeout", f"{DRAIN_TIMEOUT_S}s", *flags,
                         timeout_s=SHUTDOWN_BUDGET_S, **options)
        self._situation = case.id()
        self._may_slow = may_slow

    def __enter__(self):
        super().__enter__()
        try:
            self.calm_ms, self.busy_ms = self._before() if LONG else (0, 0)
            self._bystander = Bystander(self.grpc)
            self.calm_rss = self.rss()
        except BaseException:
            super().__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, error_type, error, traceback):
        round_trips, errors = self._bystander.report()
        failure = None
        if error is None:
            failure = self._verdict(round_trips, errors)
        super().__exit__(error_type, error or failure, traceback)
        if failure is not None:
            raise failure

    def assert_held(self, held, bound, what):
        """Fails unless these bytes of memory are within the bound."""
        print(f"    {what}: {held / MIB:.2f} MiB of at most "
              f"{bound / MIB:.2f}", flush=True)
        if held > bound and not SANITIZED:
            raise AssertionError(f"{what}: {held} bytes, more than {bound}")

    def rss(self):
        """Bytes of memory that the server has."""
        with open(f"/proc/{self.pid}/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def alive(self):
        return self._process.poll() is None

    def settled_rss(self, timeout_s=20):
        """The memory once it has stayed the same for a second."""
        deadline = time.monotonic() + timeout_s
        seen = [self.rss()]
        while time.monotonic() < deadline:
            time.sleep(0.1)
            seen.append(self.rss())
            last = seen[-10:]
            if len(last) == 10 and max(last) - min(last) < MIB // 2:
                break
        return seen[-1]

    def _before(self):
        """The other client's p99 alone, and beside busy loops."""
        def p99():
            bystander = Bystander(self.grpc)
            time.sleep(CALM_S)
            round_trips, _ = bystander.report()
            return percentile(round_trips, 0.99)

        alone = p99()
        with BusyLoops():
            return alone, p99()

    def _verdict(self, round_trips, errors):
        if errors:
            return AssertionError(f"another client saw {errors}\n{self.log()}")
        p99 = percentile(round_trips, 0.99)
        print(f"    another client: {len(round_trips)} steps, "
              f"p50 {statistics.median(round_trips):.1f} ms, p99 {p99:.1f} ms"
              + (f", before {self.calm_ms:.1f} ms alone, {self.busy_ms:.1f} "
                 "ms beside busy loops" if LONG else ""), flush=True)
        if LONG:
            ratios.setdefault((self._situation, self._may_slow), []).append(
                (p99 / self.busy_ms, p99 / self.calm_ms))
            return None
        if self._may_slow:
            return None
        if p99 > MAX_P99_MS:
            return AssertionError(f"another client's p99 is {p99:.0f} ms, "
                                  f"more than {MAX_P99_MS}")
        return None


# Of the long form: how much slower another client was than beside busy loops,
# and than alone, by situation.
ratios = {}


def main():
    """Runs the situations of the script that calls it."""
    arguments = [argument for argument in sys.argv if argument != "--long"]
    failed = False
    for _ in range(REPEATS):
        program = unittest.main(module="__main__", argv=arguments, exit=False,
                                verbosity=2, warnings="ignore")
        failed = failed or not program.result.wasSuccessful()
    for (situation, may_slow), seen in sorted(ratios.items()):
        ratio, of_calm = (statistics.median(each) for each in zip(*seen))
        print(f"{situation}: another client's p99 is {ratio:.2f} times that "
              f"beside busy loops, {of_calm:.2f} times that alone (median of "
              f"{len(seen)})" + (", not judged" if may_slow else ""))
        failed = failed or (ratio > MAX_P99_RATIO and not may_slow)
    sys.exit(failed)
