"""Goal: connections that are too many, idle, half open, slow or broken keep
nobody else out for long.

Method: raw sockets at the gRPC port and at the metrics port.
"""

import os
import resource
import socket
import time
import unittest

from adversarial.arena import LONG, Arena, main, wait_until
from adversarial.http2 import Http2Client
from adversarial.stubs import GENERATION, Client, grpc
from testing.http2 import PREFACE, SETTINGS, frame, giant_header
from testing.scrape import scrape

HARD_LIMIT = 64


def connect(address):
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=5)


def connect_many(address, count, sends=b""):
    """As many of these connections as the server takes."""
    sockets = []
    for _ in range(count):
        try:
            sockets.append(connect(address))
            sockets[-1].sendall(sends)
        except OSError:
            pass
    return sockets


def serves_newcomers(arena):
    try:
        with Client(arena.grpc) as client:
            return client.serving(timeout=5)
    except grpc.RpcError:
        return False


class FewDescriptors(Arena):
    """With a hard limit of HARD_LIMIT descriptors."""

    def __init__(self, case, *flags, **options):
        super().__init__(case, *flags, **options)
        self._command = ["prlimit", f"--nofile={HARD_LIMIT}:{HARD_LIMIT}",
                         *self._command]


class Descriptors(unittest.TestCase):

    def test_come_back_when_connections_are_closed(self):
        with FewDescriptors(self) as arena:
            sockets = connect_many(arena.grpc, 150)
            for connection in sockets:
                connection.close()
            taken = wait_until(lambda: serves_newcomers(arena), 10,
                               "service to a new client")
            print(f"    served a new client after {taken:.1f} s")

    def test_come_back_after_clients_that_spoke(self):
        with FewDescriptors(self) as arena:
            clients = []
            for _ in range(2 * HARD_LIMIT):
                try:
                    clients.append(Http2Client(arena.grpc))
                    clients[-1].open("/grpc.health.v1.Health/Check")
                except OSError:
                    pass
            for client in clients:
                client.close()
            wait_until(lambda: serves_newcomers(arena), 10,
                       "service to a new client")

    def test_metrics_answer_while_all_are_taken(self):
        with FewDescriptors(self) as arena:
            sockets = connect_many(arena.grpc, 150)
            self.assertIn("steadystate_requests_running",
                          scrape(arena.metrics))
            for connection in sockets:
                connection.close()


class MetricsPort(unittest.TestCase):

    def test_half_open_requests(self):
        with Arena(self) as arena:
            sockets = connect_many(arena.metrics, 64, b"GET /metr")
            start = time.monotonic()
            self.assertIn("steadystate_requests_running",
                          scrape(arena.metrics))
            taken = time.monotonic() - start
            print(f"    a scrape took {taken:.2f} s")
            self.assertLess(taken, 3)
            # SIGTERM comes with all of them open.
            self.sockets = sockets


class BrokenPeers(unittest.TestCase):

    def test_half_a_preface(self):
        with Arena(self) as arena:
            self.sockets = connect_many(arena.grpc, 200, PREFACE[:10])
            self.assertTrue(serves_newcomers(arena))

    def test_garbage(self):
        with Arena(self) as arena:
            logged = len(arena.log())
            for i in range(200):
                with connect(arena.grpc) as connection:
                    greeting = (PREFACE + frame(SETTINGS, 0, 0)
                                if i % 2 else b"")
                    connection.sendall(greeting + os.urandom(500))
            self.assertTrue(serves_newcomers(arena))
            self.assertLess(len(arena.log()) - logged, 200 << 10)

    def test_idle_connections(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE,
                        (soft, hard))
        with Arena(self) as arena:
            self.sockets = connect_many(
                arena.grpc, 3000 if LONG else 500,
                PREFACE + frame(SETTINGS, 0, 0))
            self.assertTrue(serves_newcomers(arena))


class PlainPort(unittest.TestCase):
    """What gRPC leaves to a proxy: here only that the server stays alive and
    ends in order. tests/deploy/nginx_test.py judges the rest."""

    def test_resets(self):
        with Arena(self, may_slow=True) as arena:
            with Http2Client(arena.grpc) as attacker:
                for i in range(100_000 if LONG else 5_000):
                    attacker.reset(attacker.open(GENERATION + "Step"))
                    if i % 500 == 0:
                        attacker.read(0.001)
                    if attacker.closed:
                        break
            self.assertTrue(serves_newcomers(arena))
            print(f"    memory grew by "
                  f"{(arena.settled_rss() - arena.calm_rss) >> 20} MiB")

    def test_an_endless_header(self):
        size = (64 if LONG else 4) << 20
        with Arena(self, may_slow=True) as arena:
            attacker = connect(arena.grpc)
            attacker.settimeout(20)
            try:
                attacker.sendall(PREFACE + frame(SETTINGS, 0, 0))
                for part in giant_header(size):
                    attacker.sendall(part)
            except OSError:
                pass
            attacker.close()
            wait_until(lambda: serves_newcomers(arena), 30,
                       "service to a new client")


if __name__ == "__main__":
    main()
