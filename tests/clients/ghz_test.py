"""Goal: ghz, a load generator that knows our services by reflection only, can
put load on unary and streaming calls, and every call of it succeeds.

Method: the real program against a real server with the demo model; its counts
are compared with the server's own.
"""

import json
import subprocess
import unittest

from clients.peers import find_program
from testing.scrape import value, wait_for_value
from testing.server_process import BIN_DIR, ROOT, ServerProcess

GHZ = find_program("ghz")
GENERATION = "steadystate.v1.GenerationService/"


class GhzTest(unittest.TestCase):

    def setUp(self):
        self.server = self.enterContext(ServerProcess())
        created = subprocess.run(
            [BIN_DIR / "steadystate", "session", "create",
             "--address", self.server.grpc],
            text=True, capture_output=True, timeout=60, check=True)
        self.session = created.stdout.strip()

    def ghz(self, method, data, calls, flags=(), workers=1):
        """ghz's own report of so many calls. Each worker makes one after the
        other: a session has one writer at a time."""
        result = subprocess.run(
            [GHZ, "--insecure", "--call", method, "--data", json.dumps(data),
             "--total", str(calls), "--concurrency", str(workers),
             "--format", "json", *flags, self.server.grpc],
            cwd=ROOT, text=True, capture_output=True, timeout=100, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def assert_all_ok(self, report, method, calls):
        self.assertEqual(report["statusCodeDistribution"], {"OK": calls})
        self.assertEqual(report["errorDistribution"], {})
        self.assertEqual(
            wait_for_value(self.server.metrics, calls,
                           "steadystate_request_duration_seconds_count",
                           method=method, code="OK"), calls)

    def test_unary_steps(self):
        report = self.ghz(
            GENERATION + "Step",
            {"session": self.session, "tokens": {"ids": [84, 104, 101]}}, 100)
        self.assert_all_ok(report, GENERATION + "Step", 100)
        self.assertEqual(value(self.server.metrics, "steadystate_tokens_total",
                               kind="prompt"), 300)

    def test_a_server_stream(self):
        report = self.ghz(
            GENERATION + "Generate",
            {"session": self.session, "text": "The ", "max_tokens": 8,
             "ignore_eos": True}, 20)
        self.assert_all_ok(report, GENERATION + "Generate", 20)
        self.assertEqual(value(self.server.metrics, "steadystate_tokens_total",
                               kind="generated"), 160)

    def test_a_bidirectional_stream(self):
        step = {"step": {"session": self.session, "tokens": {"ids": [84]}}}
        report = self.ghz(GENERATION + "StreamStep", [step, step, step], 20)
        self.assert_all_ok(report, GENERATION + "StreamStep", 20)
        self.assertEqual(value(self.server.metrics, "steadystate_tokens_total",
                               kind="prompt"), 60)

    def test_workers_have_sessions_of_their_own(self):
        """As client/README.md has it."""
        for worker in "g0c0", "g1c0", "g2c0", "g3c0":
            subprocess.run(
                [BIN_DIR / "steadystate", "session", "create", "--id",
                 f"ghz-{worker}", "--address", self.server.grpc],
                capture_output=True, timeout=60, check=True)
        report = self.ghz(
            GENERATION + "Generate",
            {"session": "sessions/ghz-{{.WorkerID}}", "text": "The ",
             "max_tokens": 8, "ignore_eos": True}, 40, workers=4)
        self.assert_all_ok(report, GENERATION + "Generate", 40)

    def test_an_error_is_counted_as_one(self):
        report = self.ghz(GENERATION + "Step",
                          {"session": "sessions/never-made",
                           "tokens": {"ids": [84]}}, 10)
        self.assertEqual(report["statusCodeDistribution"], {"NotFound": 10})


if __name__ == "__main__":
    unittest.main()
