"""Goal: what a client sends and does not read, or reserves and does not use,
takes no more memory than is promised, and is given back.

Method: the server's resident memory, before, during and after.
"""

import tempfile
import time
import unittest

from adversarial.arena import (
    LONG, MIB, SANITIZED, Arena, main, wait_until)
from adversarial.http2 import Http2Client
from adversarial.stubs import (
    GENERATION, Client, generation, session, step_request)
from testing.scrape import value

MESSAGE_BYTES = 4 * MIB - 16
MAX_UNREAD_MESSAGE = 24 * MIB
MAX_UNREAD_GENERATE = int(2.5 * MIB)
# What the pages of code and the like add once to a server that has just begun.
FIRST_USE = 16 * MIB
# Freed memory is handed back at the latest at the thirtieth look at the heap,
# which are a second apart or more (MemoryTrimmer).
HANDED_BACK_S = 60


class UnreadMessages(unittest.TestCase):
    """One StreamStep message of 4 MiB on each of some streams, whose answers
    are not read."""

    COUNT = 8

    def hold(self, body, may_refuse):
        with Arena(self) as arena:
            clients = [Http2Client(arena.grpc) for _ in range(self.COUNT)]
            for client in clients:
                stream = client.open(GENERATION + "StreamStep")
                sent = client.send_message(stream, body)
                self.assertTrue(sent or may_refuse)
            held = arena.settled_rss() - arena.calm_rss - FIRST_USE
            arena.assert_held(held / self.COUNT, MAX_UNREAD_MESSAGE,
                              "a message")
            for client in clients:
                client.close()

    def test_of_empty_requests(self):
        self.hold(b"\x1a\x00" * (MESSAGE_BYTES // 2), may_refuse=True)

    def test_of_as_many_steps_as_allowed(self):
        request = generation.StreamStepRequest()
        for _ in range(1024):
            step = request.requests.add().step
            step.session = "sessions/nobody"
            step.tokens.ids[:] = [65] * 1024
        self.hold(request.SerializeToString(), may_refuse=False)

    def test_of_logit_biases(self):
        request = generation.StreamStepRequest()
        step = request.requests.add().step
        step.session = "sessions/nobody"
        for token in range(MESSAGE_BYTES // 12):
            step.output.sample.logit_bias[token] = 0.5
        self.hold(request.SerializeToString(), may_refuse=False)

    def test_of_unknown_fields(self):
        # Field 100, a varint: what protobuf keeps of it is larger.
        self.hold(b"\xa0\x06\x01" * (MESSAGE_BYTES // 3), may_refuse=True)


class UnfinishedMessages(unittest.TestCase):
    """Calls with a message of 4 MiB that lacks its end, on some connections,
    until these are cut off."""

    BOUND = 512 * MIB
    # What comes between two looks at the connections, and what it takes beside
    # its bytes.
    MORE = 256 * MIB

    def test_hold_so_much_together(self):
        body = bytes(MESSAGE_BYTES)
        with Arena(self, may_slow=True) as arena:
            before = arena.settled_rss()
            most = before
            clients = [Http2Client(arena.grpc) for _ in range(4)]
            for i in range(400 if LONG else 200):
                client = clients[i % len(clients)]
                if not client.closed:
                    client.send_message(client.open(GENERATION + "Step"), body,
                                        timeout_s=20, missing=1)
                most = max(most, arena.rss())
            arena.assert_held(most - before, self.BOUND + self.MORE, "all")
            wait_until(lambda: value(
                arena.metrics, "steadystate_grpc_connections_cut_total",
                reason="unfinished") > 0, 5, "a connection cut off")
            for client in clients:
                client.close()
            allowed = before * 1.1 + FIRST_USE
            wait_until(lambda: SANITIZED or arena.rss() < allowed,
                       HANDED_BACK_S, f"{(most - before) / MIB:.0f} MiB back")

    def test_leave_slow_clients_alone(self):
        """Some large messages that take their time."""
        with Arena(self) as arena, Http2Client(arena.grpc) as client:
            for _ in range(16):
                self.assertTrue(client.send_message(
                    client.open(GENERATION + "Step"), bytes(MESSAGE_BYTES),
                    missing=1))
            time.sleep(1)
            client.read(0.1)
            self.assertFalse(client.closed)


class UnreadAnswers(unittest.TestCase):

    def generate(self, attacker, names):
        """Begins a Generate without an end on each of the sessions."""
        for name in names:
            request = generation.GenerateRequest(
                session=name, tokens=generation.Tokens(ids=[65]),
                ignore_eos=True, logprobs=256)
            stream = attacker.open(GENERATION + "Generate")
            self.assertTrue(attacker.send_message(
                stream, request.SerializeToString(), end=True))

    def test_of_generate(self):
        count = 1000 if LONG else 60
        with Arena(self) as arena, Client(arena.grpc) as owner:
            names = [owner.new_session() for _ in range(count)]
            before = arena.settled_rss()
            attacker = Http2Client(arena.grpc)
            self.generate(attacker, names)
            held = arena.settled_rss(60) - before
            arena.assert_held(held / count, MAX_UNREAD_GENERATE, "a call")
            attacker.close()
            wait_until(lambda: value(
                arena.metrics, "steadystate_requests_running") <= 1, 5,
                "the calls' end after their connection's")

    def test_all_together(self):
        bound = 24 * MIB
        with Arena(self, "--max_outbound_bytes", str(bound)) as arena, \
                Client(arena.grpc) as owner:
            names = [owner.new_session() for _ in range(150)]
            before = arena.settled_rss()
            attacker = Http2Client(arena.grpc)
            self.generate(attacker, names)
            held = arena.settled_rss(60) - before
            arena.assert_held(held, bound + FIRST_USE, "all calls")
            attacker.close()

    def test_memory_comes_back(self):
        count = 1000 if LONG else 100
        with Arena(self) as arena, Client(arena.grpc) as owner:
            names = [owner.new_session() for _ in range(count)]
            for name in names:
                owner.one_step(name)
            before = arena.settled_rss()
            with Http2Client(arena.grpc) as attacker:
                self.generate(attacker, names)
                during = arena.settled_rss(60)
            allowed = before * 1.1 + (0 if LONG else FIRST_USE)
            wait_until(lambda: SANITIZED or arena.rss() < allowed,
                       HANDED_BACK_S,
                       f"memory of {before / MIB:.0f} MiB before, "
                       f"{during / MIB:.0f} during, back after")


class UnreadStates(unittest.TestCase):
    """Calls whose answers are not read, on more sessions than there is memory
    for: another client's session, which has left memory, wakes."""

    COUNT = 16
    # Of the longest step, once the calls stand still.
    SOON_S = 5

    def hold(self, messages_of, method, within_s):
        # A sanitizer's build shows that the step ends, not when.
        timeout_s = 120 if SANITIZED else within_s + self.SOON_S
        with tempfile.TemporaryDirectory() as store, \
                Arena(self, "--store", store, "--state_memory", "1MiB") \
                as arena, Client(arena.grpc) as owner:
            slots = MIB // int(value(
                arena.metrics, "steadystate_state_bytes_per_session"))
            self.assertLess(slots, self.COUNT)
            name = owner.new_session()
            owner.one_step(name)
            with Http2Client(arena.grpc) as attacker:
                for message in messages_of(owner, slots):
                    stream = attacker.open(GENERATION + method)
                    self.assertTrue(attacker.send_message(
                        stream, message.SerializeToString(), end=True))
                start = time.monotonic()
                while True:
                    step_start = time.monotonic()
                    owner.one_step(name, timeout=timeout_s)
                    taken = time.monotonic() - step_start
                    if time.monotonic() - start > within_s:
                        break
                    owner.hibernate(session.HibernateSessionRequest(name=name),
                                    timeout=20)
                print(f"    a step took {taken:.3f} s")
                if not SANITIZED:
                    self.assertLess(taken, self.SOON_S)

    def test_of_generate(self):
        def messages(owner, _):
            return [generation.GenerateRequest(
                session=owner.new_session(), ignore_eos=True, logprobs=256,
                tokens=generation.Tokens(ids=[65]))
                for _ in range(self.COUNT)]

        self.hold(messages, "Generate", 2)

    @unittest.skipUnless(LONG, "takes half a minute")
    def test_of_what_has_no_session(self):
        """Such a call ends half a minute after it has been read last."""
        def messages(_, slots):
            return [generation.ScoreRequest(
                logits=True, tokens=generation.Tokens(ids=[65] * 4000))
                for _ in range(slots)]

        self.hold(messages, "Score", 35)


class UnreadSockets(unittest.TestCase):
    """HTTP/2's windows are open, and nobody reads the sockets: a write that
    waits for TCP ends with its connection only. The server must end all the
    same."""

    def hold(self, count, method, request_of):
        with Arena(self) as arena, Client(arena.grpc) as owner:
            names = [owner.new_session() for _ in range(count)]
            attackers = [Http2Client(arena.grpc) for _ in range(count)]
            for attacker, name in zip(attackers, names):
                attacker.go_deaf()
                stream = attacker.open(GENERATION + method)
                self.assertTrue(attacker.send_message(
                    stream, request_of(name).SerializeToString()))
            wait_until(Standstill(owner, names), 30, "a full socket")
        # Not before the server has ended.
        for attacker in attackers:
            attacker.close()

    def generate(self, name):
        return generation.GenerateRequest(
            session=name, tokens=generation.Tokens(ids=[65]), ignore_eos=True,
            logprobs=256)

    def steps(self, name):
        request = generation.StreamStepRequest()
        for _ in range(1000):
            request.requests.add().step.CopyFrom(step_request(
                name, output=generation.StepOutput(logits=True, hidden=True)))
        return request

    def test_of_generate(self):
        self.hold(1, "Generate", self.generate)

    def test_of_many_connections(self):
        self.hold(16, "Generate", self.generate)

    def test_of_steps(self):
        self.hold(4, "StreamStep", self.steps)


class Standstill:
    """Whether sessions have begun, and got no further since half a second."""

    def __init__(self, owner, names):
        self._owner = owner
        self._names = names
        self._seen = []
        self._since = time.monotonic()

    def __call__(self):
        positions = [self._owner.position(name) for name in self._names]
        if positions != self._seen or 0 in positions:
            self._seen = positions
            self._since = time.monotonic()
        return time.monotonic() - self._since > 0.5


class UnusedSessions(unittest.TestCase):

    def test_never_stepped_ones_take_nothing_when_they_end(self):
        count = 10000 if LONG else 1500
        with Arena(self) as arena, Client(arena.grpc) as owner:
            names = [owner.new_session() for _ in range(count)]
            before = arena.settled_rss()
            for name in names:
                owner.delete_session(name)
            grown = arena.settled_rss() - before
            arena.assert_held(grown / count, 10 * 1024, "a session's end")


if __name__ == "__main__":
    main()
