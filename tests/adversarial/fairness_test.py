"""Goal: work that one client asks for does not keep another client waiting,
and ends when nobody wants it any more.

Method: one connection asks for as much as it may and more, of everything that
costs time; another client's ping-pong goes on beside it.
"""

import tempfile
import threading
import time
import unittest

from adversarial.arena import LONG, SANITIZED, Arena, main, wait_until
from adversarial.checkpoint import write_with_long_token, write_with_tokenizer
from adversarial.http2 import Http2Client
from adversarial.stubs import (
    GENERATION, HEALTH, Client, generation, grpc, model, reason_of, session,
    step_request)
from testing.scrape import value

MESSAGE_BYTES = 4 << 20


def running(arena):
    return value(arena.metrics, "steadystate_requests_running")


def waiting(arena):
    return value(arena.metrics, "steadystate_requests_waiting")


def ends_in(futures):
    """How calls ended: their reasons, "" for those without."""
    reasons = set()
    for future in futures:
        error = future.exception(timeout=120)
        reasons.add(reason_of(error) if error else "")
    return reasons


class Forks(unittest.TestCase):

    def test_wakes_of_others_come_between(self):
        """One connection forks some sessions again and again, 256 copies at a
        time; each copy is written down before the call is answered."""
        count = 64 if LONG else 16
        with tempfile.TemporaryDirectory() as store, \
                Arena(self, "--store", store) as arena, \
                Client(arena.grpc) as attacker, Client(arena.grpc) as other:
            name = other.new_session()
            other.one_step(name)
            parents = [attacker.new_session() for _ in range(count)]
            for parent in parents:
                attacker.one_step(parent, [65] * 30)
            ended = threading.Event()
            forks = [0] * count

            def fork(i):
                request = session.ForkSessionRequest(name=parents[i], count=256)
                while not ended.is_set():
                    made = attacker.fork(request, timeout=120).sessions
                    deletions = [attacker.delete.future(
                        session.DeleteSessionRequest(name=each), timeout=120)
                        for each in made]
                    for deletion in deletions:
                        deletion.result()
                    forks[i] += 1

            threads = [threading.Thread(target=fork, args=(i,))
                       for i in range(count)]
            for thread in threads:
                thread.start()
            wait_until(lambda: sum(forks) > 0, 60, "a fork")
            wakes = []
            for _ in range(5):
                other.hibernate(session.HibernateSessionRequest(name=name),
                                timeout=60)
                start = time.monotonic()
                other.one_step(name, timeout=60)
                wakes.append(time.monotonic() - start)
            ended.set()
            for thread in threads:
                thread.join()
            print(f"    beside {sum(forks)} forks a wake took {max(wakes):.3f} "
                  "s at most")
            if not SANITIZED:
                self.assertLess(sorted(wakes)[len(wakes) // 2], 0.5)


class LongSteps(unittest.TestCase):

    def test_a_million_tokens_are_refused(self):
        with Arena(self) as arena, Client(arena.grpc) as client:
            name = client.new_session()
            with self.assertRaises(grpc.RpcError) as caught:
                client.one_step(name, [65] * 1_000_000)
            self.assertEqual(caught.exception.code(),
                             grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn("4096", caught.exception.details())
            self.assertIn("Generate", caught.exception.details())

    def test_those_of_a_client_that_has_gone_are_dropped(self):
        count = 2000 if LONG else 300
        with Arena(self) as arena, Client(arena.grpc) as owner:
            names = [owner.new_session() for _ in range(count)]
            attacker = Http2Client(arena.grpc)
            for name in names:
                stream = attacker.open(GENERATION + "Step")
                attacker.send_message(
                    stream, step_request(name, [65] * 4096)
                    .SerializeToString(), end=True)
            attacker.close()
            for name in names:
                owner.delete_session(name)
            wait_until(lambda: running(arena) <= 1 and waiting(arena) <= 1, 5,
                       "the end of steps that nobody wants")

    def test_queued_ones_leave_room_for_others(self):
        """68 streams of one connection ask for 70,000 steps."""
        with Arena(self) as arena, Client(arena.grpc) as owner:
            names = [owner.new_session() for _ in range(1100)]
            attacker = Http2Client(arena.grpc)
            for i in range(68):
                stream = attacker.open(GENERATION + "StreamStep")
                request = generation.StreamStepRequest()
                for k in range(1024):
                    step = request.requests.add().step
                    step.CopyFrom(step_request(
                        names[(i * 32 + k // 32) % len(names)], [65] * 64))
                attacker.send_message(stream, request.SerializeToString())
            with Client(arena.grpc) as other:
                name = other.new_session()
                for _ in range(20):
                    other.one_step(name)
            attacker.close()

    def _assert_soon(self, client, name, tokens, bound_s):
        start = time.monotonic()
        client.one_step(name, [65] * tokens, timeout=60)
        taken = time.monotonic() - start
        print(f"    a step of {tokens} tokens took {taken:.3f} s")
        if not SANITIZED:
            self.assertLess(taken, bound_s)

    def test_prompts_of_others_take_their_turn(self):
        """However many rows one connection has waiting, another one's prompts
        are in the next batches."""
        count = 900 if LONG else 400
        with Arena(self) as arena, Client(arena.grpc) as attacker, \
                Client(arena.grpc) as other:
            names = [attacker.new_session() for _ in range(count)]
            name = other.new_session()
            calls = [attacker.step.future(step_request(each, [65] * 4096),
                                          timeout=600) for each in names]
            wait_until(lambda: running(arena) + waiting(arena) >= count, 20,
                       "the steps of one connection")
            self._assert_soon(other, name, 2, 2)
            self._assert_soon(other, name, 64, 2)
            self._assert_soon(other, name, 1000, 8)
            self.assertFalse(any(call.done() for call in calls))
            for call in calls:
                call.cancel()

    def test_single_steps_of_others_take_their_turn(self):
        count = 20_000 if LONG else 8000
        per_message = 1000
        with Arena(self) as arena, Client(arena.grpc) as other, \
                Http2Client(arena.grpc) as attacker:
            names = [other.new_session() for _ in range(count)]
            name = other.new_session()
            for i in range(0, count, per_message):
                request = generation.StreamStepRequest()
                for each in names[i:i + per_message]:
                    request.requests.add().step.CopyFrom(step_request(each))
                stream = attacker.open(GENERATION + "StreamStep")
                attacker.send_message(stream, request.SerializeToString())
            wait_until(lambda: waiting(arena) >= count / 4, 20,
                       "the steps of one connection")
            self._assert_soon(other, name, 1, 1.5)


class LongRequests(unittest.TestCase):

    def test_many_labels(self):
        request = session.CreateSessionRequest()
        for i in range(190_000):
            request.session.labels[f"k{i}"] = "v"
        body = request.SerializeToString()
        with Arena(self) as arena, Client(arena.grpc) as client:
            reasons = ends_in([client.create.future(body, timeout=60)
                               for _ in range(40)])
            self.assertEqual(reasons, {"INVALID_ARGUMENT"})

    def test_ids_that_are_a_long_text(self):
        request = model.DetokenizeRequest(tokens=[65000] * 1_390_000)
        body = request.SerializeToString()
        with tempfile.TemporaryDirectory() as directory:
            write_with_long_token(directory, 65000, 128)
            with Arena(self, model=directory) as arena:
                clients = [Client(arena.grpc) for _ in range(8)]
                before = arena.rss()
                calls = [client.detokenize.future(body, timeout=120)
                         for client in clients]
                peak = before
                with Client(arena.grpc) as other:
                    while not all(call.done() for call in calls):
                        start = time.monotonic()
                        self.assertTrue(other.serving())
                        self.assertLess(time.monotonic() - start, 2)
                        peak = max(peak, arena.rss())
                self.assertNotIn("", ends_in(calls))
                arena.assert_held(peak - before, 128 << 20, "8 calls")
                for client in clients:
                    client.close()

    def test_long_texts(self):
        """A prompt of 5 KiB does not wait for 20 texts of megabytes."""
        request = model.TokenizeRequest(text=("a" * 5000 + " ") * 800)
        body = request.SerializeToString()
        with tempfile.TemporaryDirectory() as directory:
            write_with_tokenizer(directory, "neox")
            with Arena(self, model=directory) as arena, \
                    Client(arena.grpc) as attacker, \
                    Client(arena.grpc) as other:
                calls = [attacker.tokenize.future(body, timeout=120)
                         for _ in range(20)]
                name = other.new_session()
                start = time.monotonic()
                list(other.generate(generation.GenerateRequest(
                    session=name, text="hello world " * 420, max_tokens=1),
                    timeout=60))
                taken = time.monotonic() - start
                print(f"    a prompt of 5 KiB took {taken:.2f} s")
                self.assertLess(taken, 5)
                for call in calls:
                    call.cancel()


class UnknownFields(unittest.TestCase):
    """Two bytes on the wire each, and all of them would be looked at."""

    SECONDS = 8 if LONG else 1.5

    def _flood(self, address, path, body, until):
        while time.monotonic() < until:
            with Http2Client(address) as client:
                for _ in range(20):
                    stream = client.open(path)
                    if not client.send_message(stream, body, end=True):
                        break
                    self.sent += 1
                    client.read(0.001)

    def _assert_others_go_on(self, path):
        body = b"\x78\x01" * (MESSAGE_BYTES // 2 - 64)
        self.sent = 0
        with Arena(self) as arena:
            until = time.monotonic() + self.SECONDS
            threads = [threading.Thread(
                target=self._flood, args=(arena.grpc, path, body, until))
                for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertGreater(self.sent, 0)

    def test_of_health(self):
        self._assert_others_go_on(HEALTH)

    def test_of_streams(self):
        self._assert_others_go_on(GENERATION + "StreamStep")

    def test_of_other_methods(self):
        self._assert_others_go_on(GENERATION + "Score")


class Reflection(unittest.TestCase):

    def test_streams_that_stay_open(self):
        with Arena(self) as arena, Client(arena.grpc) as attacker:
            hold = threading.Event()

            def requests():
                yield b"\x3a\x00"
                hold.wait(60)

            streams = [attacker.reflection(requests()) for _ in range(24)]
            for stream in streams[:8]:
                try:
                    next(stream)
                except grpc.RpcError:
                    pass
            with Client(arena.grpc) as other:
                answers = other.reflection(iter([b"\x3a\x00"]), timeout=20)
                self.assertIn(b"steadystate", next(answers))
            hold.set()


class Churn(unittest.TestCase):

    def test_calls_that_are_cancelled_at_any_moment(self):
        rounds = 400 if LONG else 40
        with Arena(self) as arena:
            with Client(arena.grpc) as owner:
                names = [owner.new_session() for _ in range(32)]
            body = generation.StreamStepRequest()
            for name in names:
                body.requests.add().step.CopyFrom(step_request(name))
            message = body.SerializeToString()
            for i in range(rounds):
                with Http2Client(arena.grpc) as client:
                    for k in range(8):
                        stream = client.open(GENERATION + "StreamStep")
                        client.send_message(stream, message)
                        if (i + k) % 3 == 0:
                            client.reset(stream)
                    client.read(0.001 * (i % 7))
            wait_until(lambda: value(
                arena.metrics, "steadystate_grpc_streams") <= 1, 10,
                "the end of cancelled streams")


if __name__ == "__main__":
    main()
