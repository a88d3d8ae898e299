"""What every client with gRPC's own stubs that a README prints must do."""

from testing.scrape import value, wait_for_value
from testing.server_process import ServerProcess

README_ADDRESS = "localhost:50051"
PROMPT_BYTES = len("The ")
MAX_TOKENS = 100  # of the generation
STEPS = 100
LINES = 20  # of code that README promises


class ForeignClientTest:
    """Mixed into a TestCase that has block(), where the client is printed, and
    run_client(code)."""

    def test_generates_and_then_steps(self):
        code = self.block().code
        self.assertIn(README_ADDRESS, code)
        with ServerProcess() as server:
            result = self.run_client(
                code.replace(README_ADDRESS, server.grpc))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.check_counts(server.metrics)
        self.assertGreater(len(result.stdout), STEPS // 2)

    def check_counts(self, metrics):
        # The model may end its text sooner; the steps go on for all that.
        generated = value(metrics, "steadystate_tokens_total", kind="generated")
        self.assertGreater(generated, 0)
        self.assertLessEqual(generated, MAX_TOKENS)
        self.assertEqual(
            value(metrics, "steadystate_tokens_total", kind="prompt"),
            PROMPT_BYTES + STEPS)
        for method in ("SessionService/CreateSession",
                       "GenerationService/Generate",
                       "GenerationService/StreamStep",
                       "SessionService/DeleteSession"):
            self.assertEqual(
                wait_for_value(metrics, 1,
                               "steadystate_request_duration_seconds_count",
                               method=f"steadystate.v1.{method}", code="OK"),
                1, method)

    def test_is_short(self):
        lines = [line for line in self.block().code.splitlines()
                 if line.strip()]
        self.assertLessEqual(len(lines), LINES)
        self.assertLessEqual(max(map(len, lines)), 100)
