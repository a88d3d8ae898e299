"""Goal: perf_analyzer, the load tester of Triton's makers, finds a sequence
model here, puts load on calls and streams of it, and every request succeeds.

Method: the real program against a real server with the demo model; what it
counts is compared with what the server counts.
"""

import csv
import pathlib
import subprocess
import tempfile
import unittest

from clients.peers import find_perf_analyzer
from testing.scrape import scrape, value, wait_for_value
from testing.server_process import ROOT, ServerProcess

PERF_ANALYZER = find_perf_analyzer()
REQUESTS = 200  # that it measures, at least
SEQUENCES = 4


class PerfAnalyzerTest(unittest.TestCase):

    def setUp(self):
        self.server = self.enterContext(ServerProcess())

    def analyze(self, *flags):
        """Its report, one row for each concurrency."""
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder) / "report.csv"
            result = subprocess.run(
                [PERF_ANALYZER, "-m", "demo", "-i", "grpc",
                 "-u", self.server.grpc, "--shape", "tokens:1",
                 "--input-data", "zero", "--concurrency-range", str(SEQUENCES),
                 "--sequence-length", "20", "--measurement-mode",
                 "count_windows", "--measurement-request-count", str(REQUESTS),
                 "--stability-percentage", "999", "--max-trials", "3",
                 "-f", str(report), *flags],
                cwd=ROOT, text=True, errors="replace", capture_output=True,
                timeout=150, check=False)
            self.assertEqual(result.returncode, 0,
                             result.stdout + result.stderr)
            with report.open(encoding="utf-8") as stream:
                return list(csv.DictReader(stream))

    def check(self, method, *flags):
        row, = self.analyze(*flags)
        self.assertGreater(float(row["Inferences/Second"]), 0)
        metrics = self.server.metrics
        self.assertGreaterEqual(
            value(metrics, "steadystate_tokens_total", kind="prompt"),
            REQUESTS)
        for reason in ("SESSION_NOT_FOUND", "SESSION_BUSY", "INVALID_ARGUMENT"):
            self.assertEqual(value(metrics, "steadystate_errors_total",
                                   reason=reason), 0)
        # It ends what it has begun.
        self.assertEqual(
            wait_for_value(metrics, 0, "steadystate_sessions", state="idle"),
            0)
        # Calls end with OK; it cancels a stream that it needs no more.
        self.assertTrue(any(
            count > 0 and ("method", f"inference.GRPCInferenceService/{method}")
            in labels for labels, count in scrape(metrics)[
                "steadystate_request_duration_seconds_count"].items()))

    def test_calls(self):
        self.check("ModelInfer")

    def test_streams(self):
        self.check("ModelStreamInfer", "--streaming")


if __name__ == "__main__":
    unittest.main()
