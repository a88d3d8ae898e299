"""Goal: the process itself withstands what clients and its surroundings do:
messages that are none, a standard error that nobody reads, a thread that
hangs.

Method: a real server; its threads are held with ptrace.
"""

import ctypes
import os
import subprocess
import unittest

from adversarial.arena import Arena, main, wait_until
from adversarial.stubs import (
    GENERATION, MODELS, SESSIONS, Client, as_bytes, generation, grpc,
    reason_of, step_request)
from testing.server_process import BIN_DIR
from testing.skip import skip

# Not a message of any kind: a tag of wire type 7.
GARBAGE = b"\xff\xff\xff"
# A first field that is a string, and not UTF-8.
NOT_UTF8 = b"\n\x02\xff\xfe"
UNARY = [GENERATION + "Step", SESSIONS + "CreateSession",
         SESSIONS + "GetSession", SESSIONS + "ListSessions",
         SESSIONS + "DeleteSession", SESSIONS + "ForkSession",
         SESSIONS + "HibernateSession", SESSIONS + "RewindSession",
         SESSIONS + "UpdateSession", SESSIONS + "CreateCheckpoint",
         SESSIONS + "ListCheckpoints", SESSIONS + "DeleteCheckpoint",
         MODELS + "ListModels", MODELS + "GetModel", MODELS + "Tokenize",
         MODELS + "Detokenize"]
STREAMING = [GENERATION + "Generate", GENERATION + "Score",
             GENERATION + "Embed", SESSIONS + "ExportSession",
             SESSIONS + "ImportSession"]


class MessagesThatAreNone(unittest.TestCase):

    def assert_refused(self, error):
        self.assertEqual(error.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertEqual(reason_of(error), "INVALID_ARGUMENT")

    def test_in_calls_of_one_request(self):
        with Arena(self) as arena, Client(arena.grpc) as client:
            for path in UNARY + STREAMING:
                call = client.channel.unary_stream(path)
                with self.subTest(path), \
                        self.assertRaises(grpc.RpcError) as caught:
                    list(call(GARBAGE, timeout=20))
                self.assert_refused(caught.exception)

    def test_in_a_stream(self):
        with Arena(self) as arena, Client(arena.grpc) as client:
            good = generation.StreamStepRequest(
                step=step_request(client.new_session()))
            for bad in (GARBAGE, NOT_UTF8):
                answers = []
                with self.assertRaises(grpc.RpcError) as caught:
                    for answer in client.stream_step(
                            iter([good, bad, good]), timeout=20):
                        answers += answer.results
                self.assert_refused(caught.exception)
                self.assertEqual(len(answers), 1)
                self.assertTrue(answers[0].HasField("step"))


class Deaf(Arena):
    """Its standard error is a pipe that nobody reads."""

    def __enter__(self):
        self._pipe = os.pipe()
        self._stderr = self._pipe[1]
        return super().__enter__()

    def __exit__(self, *error):
        try:
            super().__exit__(*error)
        finally:
            for end in self._pipe:
                os.close(end)

    def log(self):
        return "(not read)"


class StandardError(unittest.TestCase):

    def test_that_nobody_reads(self):
        with Deaf(self, "--log_level", "debug") as arena, \
                Client(arena.grpc) as client:
            calls = [client.channel.unary_unary(GENERATION + "Step").future(
                NOT_UTF8, timeout=60) for _ in range(3000)]
            for call in calls:
                self.assertIsNotNone(call.exception(timeout=60))
            self.assertTrue(client.serving())

    def test_gets_little_from_bad_messages(self):
        with Arena(self) as arena, Client(arena.grpc) as client:
            before = len(arena.log())
            calls = [client.channel.unary_unary(GENERATION + "Step").future(
                NOT_UTF8, timeout=60) for _ in range(2000)]
            for call in calls:
                self.assertIsNotNone(call.exception(timeout=60))
            self.assertLess(len(arena.log()) - before, 64 << 10)


class Tracer:
    """Holds one thread of a process within a `with` block."""

    _SEIZE, _INTERRUPT, _DETACH = 0x4206, 0x4207, 17

    def __init__(self, thread):
        self._thread = thread
        self._libc = ctypes.CDLL(None, use_errno=True)

    def _ptrace(self, request):
        return self._libc.ptrace(request, self._thread, 0, 0)

    def __enter__(self):
        if self._ptrace(self._SEIZE) != 0:
            skip("ptrace is not permitted here")
        self._ptrace(self._INTERRUPT)
        os.waitpid(self._thread, 0x40000000)  # __WALL
        return self

    def __exit__(self, *error):
        self._ptrace(self._DETACH)


def busiest_thread(pid, work):
    """The thread that computes while `work` runs."""
    def ticks():
        seen = {}
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/stat") as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
            seen[int(thread)] = int(fields[11])
        return seen

    before = ticks()
    work()
    after = ticks()
    return max(after, key=lambda thread: after[thread] -
               before.get(thread, 0))


class StuckThread(unittest.TestCase):

    def test_health_tells(self):
        # Health is asked on a connection that is never stepped: the thread may
        # be held while it sends an answer, and then its connection is, too.
        with Arena(self, "--threads", "1", may_slow=True) as arena, \
                Client(arena.grpc) as worker, Client(arena.grpc) as client:
            self.assertTrue(client.serving())
            name = worker.new_session()

            def work():
                for _ in range(12):
                    worker.one_step(name, [65] * 4096, timeout=120)

            thread = busiest_thread(arena.pid, work)
            with Tracer(thread):
                taken = wait_until(lambda: not client.serving(), 10,
                                   "NOT_SERVING")
                print(f"    NOT_SERVING after {taken:.1f} s")
                health = subprocess.run(
                    [BIN_DIR / "steadystate", "health",
                     "--address", arena.grpc], capture_output=True,
                    check=False, timeout=20)
                self.assertNotEqual(health.returncode, 0)
            wait_until(client.serving, 10, "SERVING again")


if __name__ == "__main__":
    main()
