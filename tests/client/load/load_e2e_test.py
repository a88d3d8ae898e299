"""Goal: what `steadystate load` counts is what the server counts, whatever
happens; it ends in order; and its latencies are those that users would see.

Method: real runs against real servers, with errors that are provoked, compared
with the differences of the server's metrics. A server that is stopped for a
second shows whether latency counts from the intended time.
"""

import collections
import contextlib
import csv
import io
import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import tempfile
import time
import unittest

from testing.scrape import scrape, value
from testing.server_process import BIN_DIR, ROOT, ServerProcess

STEADYSTATE = str(BIN_DIR / "steadystate")
# Small enough that a session's token takes tens of microseconds.
TINY_MODEL = ROOT / "tests/golden/gla"
CAPPED_MODEL = ROOT / "tests/golden/transformer"
TIMEOUT_S = 60


class TinyServer(ServerProcess):

    def __init__(self, *flags, model=TINY_MODEL):
        super().__init__("--weight_dtype", "f32", *flags, model=model)

    def end(self):
        self._process.terminate()
        self._process.wait(TIMEOUT_S)

    def kill(self):
        self._process.kill()
        self._process.wait(TIMEOUT_S)

    def __exit__(self, *error):
        if self._process.poll() == -signal.SIGKILL:
            self._close()
        else:
            super().__exit__(*error)


def start(server, *options):
    return subprocess.Popen(
        [STEADYSTATE, "load", "--address", server.grpc, "--json", *options],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True)


def finish(process):
    """Its exit code, its report (None if it printed none), and its errors."""
    out, err = process.communicate(timeout=TIMEOUT_S)
    return process.returncode, json.loads(out) if out else None, err


def run(server, *options):
    return finish(start(server, *options))


def cli(server, *arguments):
    done = subprocess.run(
        [STEADYSTATE, *arguments, "--address", server.grpc],
        capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode != 0:
        raise AssertionError(f"{arguments} ended with {done.returncode}: "
                             f"{done.stderr}")
    return done.stdout


def by_label(samples, name, label):
    return {dict(labels)[label]: int(number)
            for labels, number in samples.get(name, {}).items() if number}


def server_counts(server):
    samples = scrape(server.metrics)
    tokens = by_label(samples, "steadystate_tokens_total", "kind")
    return {
        "tokens": {kind: tokens.get(kind, 0)
                   for kind in ("prompt", "generated")},
        "errors": by_label(samples, "steadystate_errors_total", "reason"),
    }


def wait_until(condition, what):
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"in {TIMEOUT_S} s not seen: {what}")
        time.sleep(0.005)


def session_names(server):
    return [session["name"] for session in
            json.loads(cli(server, "session", "list", "--json"))]


def setUpModule():
    LoadTest.server = TinyServer()
    LoadTest.server.__enter__()
    unittest.addModuleCleanup(LoadTest.server.__exit__, None, None, None)


class LoadTest(unittest.TestCase):
    """The cases share a server, since one takes its time to end."""

    @contextlib.contextmanager
    def shared_server(self):
        """The server; counts() are those from here on."""
        self.before = server_counts(self.server)
        yield self.server

    def counts(self, server):
        after = server_counts(server)
        if server is not self.server:
            return after
        changes = {what: {label: number - self.before[what].get(label, 0)
                          for label, number in after[what].items()}
                   for what in after}
        changes["errors"] = {reason: number for reason, number
                             in changes["errors"].items() if number}
        return changes

    def wait_for_tokens(self, server, least=1):
        wait_until(
            lambda: sum(self.counts(server)["tokens"].values()) >= least,
            f"{least} tokens")

    def assert_counts_equal(self, server, report):
        """To the last token, for a server that had nothing else to do."""
        seen = self.counts(server)
        totals = report["totals"]
        self.assertEqual(totals["server_tokens"], seen["tokens"])
        # What the tester gave up, the server may have counted.
        surplus = collections.Counter(seen["errors"])
        surplus.subtract(totals["server_errors"])
        self.assertGreaterEqual(min(surplus.values(), default=0), 0, surplus)
        self.assertLessEqual(surplus.total(), totals["given_up"], surplus)
        self.assertLessEqual(
            set(+surplus), {"CANCELLED", "DEADLINE_EXCEEDED"})
        self.assertEqual(totals["requests_of_unknown_extent"], 0)
        self.assertEqual(
            totals["requests"],
            totals["completed"] + totals["failed"] + totals["cut"])
        # Nothing is left behind.
        self.assertEqual(sum(scrape(server.metrics)
                             ["steadystate_sessions"].values()), 0)


class CountsTest(LoadTest):

    def test_steps_in_a_closed_loop(self):
        with self.shared_server() as server:
            code, report, err = run(
                server, "--sessions", "12", "--streams", "5", "--warmup",
                "200ms", "--duration", "500ms", "--prompt_tokens", "7",
                "--generate_tokens", "5")
            self.assertEqual((code, err), (0, ""))
            self.assert_counts_equal(server, report)
            totals = report["totals"]
            self.assertGreaterEqual(totals["completed"], 12)
            self.assertEqual(totals["failed"] + totals["cut"], 0)
            self.assertEqual(totals["drawn_tokens"], totals["completed"] * 5)
            # The last token of a request is not fed back.
            self.assertEqual(totals["server_tokens"],
                             {"prompt": totals["completed"] * (7 + 4),
                              "generated": 0})
            self.assertEqual(totals["client_errors"], {})
            latency = report["latency_seconds"]
            self.assertGreater(latency["time_to_first_token"]["samples"], 0)
            self.assertLessEqual(latency["inter_token"]["p50"],
                                 latency["inter_token"]["p99.9"])
            self.assertLess(latency["inter_token"]["samples"],
                            totals["completed"] * 4)

    def test_prompts_longer_than_steps_may_be_are_cut(self):
        with TinyServer("--max_step_tokens", "16") as server:
            code, report, err = run(
                server, "--sessions", "3", "--warmup", "0", "--duration",
                "300ms", "--prompt_tokens", "40", "--generate_tokens", "3")
            self.assertEqual((code, err), (0, ""))
            self.assert_counts_equal(server, report)
            totals = report["totals"]
            self.assertGreaterEqual(totals["completed"], 3)
            self.assertEqual(totals["server_errors"], {})
            self.assertEqual(totals["drawn_tokens"], totals["completed"] * 3)
            self.assertEqual(totals["server_tokens"],
                             {"prompt": totals["completed"] * (40 + 2),
                              "generated": 0})

    def test_generate_in_a_closed_loop(self):
        with self.shared_server() as server:
            metric = "steadystate_time_to_first_token_seconds_count"
            measured_before = value(server.metrics, metric)
            code, report, err = run(
                server, "--rpc", "generate", "--sessions", "6", "--warmup",
                "100ms", "--duration", "400ms", "--prompt_tokens", "300",
                "--generate_tokens", "9")
            self.assertEqual((code, err), (0, ""))
            self.assert_counts_equal(server, report)
            totals = report["totals"]
            self.assertGreaterEqual(totals["completed"], 6)
            self.assertEqual(totals["server_tokens"],
                             {"prompt": totals["completed"] * 300,
                              "generated": totals["completed"] * 9})
            self.assertEqual(totals["drawn_tokens"], totals["completed"] * 9)
            # The server, too, has measured each request.
            self.assertEqual(value(server.metrics, metric) - measured_before,
                             totals["completed"])

    def test_open_loops_begin_what_arrives(self):
        for rpc in ("step", "generate"):
            with self.subTest(rpc), self.shared_server() as server:
                code, report, err = run(
                    server, "--rpc", rpc, "--sessions", "4", "--rate", "200",
                    "--warmup", "100ms", "--duration", "1s", "--max_send_lag",
                    "1h", "--generate_tokens", "3")
                self.assertEqual((code, err), (0, ""))
                self.assert_counts_equal(server, report)
                # 200 in a second, give or take five standard deviations.
                self.assertGreater(report["arrivals"], 130)
                self.assertLess(report["arrivals"], 270)
                self.assertGreaterEqual(report["totals"]["completed"],
                                        report["arrivals"])
                self.assertEqual(report["totals"]["never_sent"], 0)
                self.assertEqual(
                    report["latency_seconds"]["request"]["samples"],
                    report["arrivals"])

    def test_the_seed_decides_the_arrivals(self):
        with self.shared_server() as server:
            arrivals = [
                run(server, "--rate", "100", "--warmup", "0", "--duration",
                    "500ms", "--seed", seed)[1]["arrivals"]
                for seed in ("5", "5")]
        self.assertEqual(arrivals[0], arrivals[1])


class ErrorsTest(LoadTest):

    def test_sessions_that_do_not_fit_are_counted(self):
        session_bytes = json.loads(
            cli(self.server, "model", "--json"))["session_bytes"]
        with TinyServer("--state_memory", str(3 * session_bytes)) as server:
            code, report, err = run(server, "--sessions", "8", "--warmup", "0",
                                    "--duration", "300ms")
            self.assertEqual(code, 1)
            self.assertIn("the run is INVALID: of 8 sessions 3 could be", err)
            self.assertFalse(report["valid"])
            self.assert_counts_equal(server, report)
            totals = report["totals"]
            self.assertEqual(totals["server_errors"],
                             {"STATE_BUDGET_EXHAUSTED": 3})
            self.assertEqual(totals["sessions_created"], 3)
            self.assertGreater(totals["completed"], 0)
            # Of a sweep, what has fewer sessions than it says is no knee.
            code, report, _ = run(server, "--sweep", "sessions:3,4",
                                  "--warmup", "0", "--duration", "300ms",
                                  "--slo", "e2e:1h")
            self.assertEqual((code, report["knee"]["value"]), (0, 3))

    def test_without_any_session_the_run_fails(self):
        session_bytes = json.loads(
            cli(self.server, "model", "--json"))["session_bytes"]
        with TinyServer("--state_memory", str(session_bytes)) as server:
            cli(server, "session", "create")
            code, report, err = run(server, "--sessions", "2", "--duration",
                                    "10s")
            self.assertEqual(code, 1)
            self.assertIn("no session could be created: RESOURCE_EXHAUSTED "
                          "STATE_BUDGET_EXHAUSTED: ", err)
            self.assertEqual(report["totals"]["server_errors"],
                             {"STATE_BUDGET_EXHAUSTED": 2})

    def test_a_session_deleted_beneath_is_counted_and_replaced(self):
        with self.shared_server() as server:
            load = start(server, "--sessions", "4", "--streams", "2",
                         "--warmup", "0", "--duration", "2s")
            self.wait_for_tokens(server)
            for name in session_names(server)[:2]:
                cli(server, "session", "delete", name)
            code, report, err = finish(load)
            self.assertEqual((code, err), (0, ""))
            self.assert_counts_equal(server, report)
            totals = report["totals"]
            self.assertEqual(totals["server_errors"], {"SESSION_NOT_FOUND": 2})
            self.assertEqual(totals["failed"], 2)
            self.assertEqual(totals["sessions_left"], 4)

    def test_somebody_else_on_a_session_is_counted(self):
        with self.shared_server() as server:
            load = start(server, "--sessions", "2", "--warmup", "0",
                         "--duration", "3s", "--rate", "20",
                         "--max_send_lag", "1h")
            self.wait_for_tokens(server)
            # The session may be busy at the moment, which is an error too.
            name = session_names(server)[0]
            meddling = []

            def meddle():
                meddling.append(subprocess.run(
                    [STEADYSTATE, "score", "--session", name,
                     "--token_ids_file", "-", "--address", server.grpc],
                    input=b"[1, 2, 3]", capture_output=True,
                    timeout=TIMEOUT_S).returncode)
                return meddling[-1] == 0
            wait_until(meddle, "a free session")
            code, report, err = finish(load)
            # More than 1 % of so few.
            self.assertEqual(code, 1)
            self.assertIn("requests that arrived failed", err)
            seen = self.counts(server)
            errors = dict(report["totals"]["server_errors"])
            # A request that comes while it is at work finds the session busy.
            self.assertTrue(
                errors.keys() & {"POSITION_MISMATCH", "SESSION_BUSY"}, errors)
            refused = len(meddling) - 1
            if refused:
                errors["SESSION_BUSY"] = (
                    errors.get("SESSION_BUSY", 0) + refused)
            self.assertEqual(errors, seen["errors"])
            self.assertEqual(
                report["totals"]["server_tokens"]["prompt"] + 3,
                seen["tokens"]["prompt"])

    def test_full_sessions_are_replaced(self):
        with TinyServer("--context_cap", "40", model=CAPPED_MODEL) as server:
            code, report, err = run(
                server, "--sessions", "2", "--prompt_tokens", "8",
                "--generate_tokens", "8", "--warmup", "0", "--duration",
                "500ms")
            self.assertEqual((code, err), (0, ""))
            self.assert_counts_equal(server, report)
            self.assertEqual(report["totals"]["server_errors"], {})
            self.assertGreater(
                value(server.metrics, "steadystate_sessions_created_total"), 2)
            code, report, err = run(server, "--prompt_tokens", "40")
            self.assertEqual((code, report), (1, None))
            self.assertIn("72 tokens", err)
            self.assertIn("more than the 40", err)

    def test_a_server_that_goes_ends_the_run_with_a_report(self):
        with TinyServer() as server:
            # None of its answers comes to its end before the server does.
            load = start(server, "--sessions", "4", "--warmup", "0",
                         "--duration", "1h", "--generate_tokens", "1000000")
            self.wait_for_tokens(server)
            server.end()
            code, report, err = finish(load)
            self.assertEqual(code, 1)
            # Whether sessions were left depends on who ended their requests.
            self.assertIn("was about to shut down", err)
            self.assertTrue(report["going_away"])
            self.assertEqual(report["totals"]["completed"], 0)

    def test_a_server_that_is_killed_ends_the_run_with_a_report(self):
        with TinyServer() as server:
            load = start(server, "--sessions", "4", "--warmup", "0",
                         "--duration", "1h")
            self.wait_for_tokens(server)
            server.kill()
            code, report, err = finish(load)
            self.assertEqual(code, 1)
            self.assertIn("no session was left", err)
            self.assertFalse(report["going_away"])
            self.assertEqual(report["totals"]["sessions_left"], 0)
            self.assertGreater(report["totals"]["failed"], 0)

    def test_no_server_is_exit_code_3(self):
        done = subprocess.run(
            [STEADYSTATE, "load", "--address", "127.0.0.1:1"],
            capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual((done.returncode, done.stdout), (3, ""))


class InterruptTest(LoadTest):

    def test_an_endless_run_ends_well(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number), self.shared_server() as server:
                load = start(server, "--sessions", "4", "--duration", "0",
                             "--warmup", "0", "--generate_tokens", "1000000")
                self.wait_for_tokens(server, 200)
                load.send_signal(number)
                code, report, err = finish(load)
                self.assertEqual((code, err), (0, ""))
                self.assertTrue(report["interrupted"])
                self.assertEqual(report["totals"]["cut"], 4)
                self.assert_counts_equal(server, report)

    def test_a_run_cut_short_reports_and_says_so(self):
        with self.shared_server() as server:
            load = start(server, "--sessions", "4", "--duration", "1h",
                         "--warmup", "1h")
            self.wait_for_tokens(server)
            load.send_signal(signal.SIGINT)
            code, report, _ = finish(load)
            self.assertEqual(code, 130)
            self.assertTrue(report["interrupted"])
            self.assertEqual(report["measured_seconds"], 0)
            self.assert_counts_equal(server, report)

    def test_cancelled_generations_are_counted_to_the_token(self):
        with self.shared_server() as server:
            load = start(server, "--rpc", "generate", "--sessions", "3",
                         "--duration", "0", "--warmup", "0",
                         "--generate_tokens", "1000000000")
            self.wait_for_tokens(server, 200)
            load.send_signal(signal.SIGTERM)
            code, report, err = finish(load)
            self.assertEqual((code, err), (0, ""))
            self.assertEqual(report["totals"]["server_errors"], {})
            self.assertEqual(report["totals"]["given_up"], 3)
            self.assert_counts_equal(server, report)


    def test_an_interruption_while_sessions_are_made_leaves_none(self):
        with self.shared_server() as server:
            load = start(server, "--sessions", "1000000")
            wait_until(lambda: value(server.metrics, "steadystate_sessions",
                                     state="idle") > 20, "20 sessions")
            load.send_signal(signal.SIGINT)
            code, report, err = finish(load)
            self.assertEqual((code, report), (130, None), err)
            self.assertEqual(session_names(server), [])


    def test_a_killed_tester_leaves_no_sessions(self):
        for rpc in ("step", "generate"):
            with self.subTest(rpc), self.shared_server() as server:
                load = start(server, "--rpc", rpc, "--sessions", "50",
                             "--duration", "1h", "--warmup", "0")
                self.wait_for_tokens(server)
                self.assertEqual(len(session_names(server)), 50)
                load.kill()
                finish(load)
                # They would expire after an hour.
                wait_until(lambda: not session_names(server), "no session")

    def test_sessions_that_a_store_may_keep_expire_soon(self):
        with self.shared_server() as server:
            load = start(server, "--durability", "none", "--sessions", "2",
                         "--duration", "0", "--warmup", "0")
            self.wait_for_tokens(server)
            sessions = json.loads(cli(server, "session", "list", "--json"))
            self.assertEqual(
                [(session["ephemeral"], session["ttl"], session["durability"])
                 for session in sessions], [(False, 300, "NONE")] * 2)
            load.send_signal(signal.SIGINT)
            code, report, err = finish(load)
            self.assertEqual((code, err), (0, ""))
            self.assertEqual(report["options"]["durability"], "none")
            self.assert_counts_equal(server, report)


class SilenceTest(LoadTest):
    """A server that gives no answers says so in the figures."""

    def test_sessions_are_deleted_after_a_silence(self):
        with self.shared_server() as server:
            load = start(server, "--rpc", "generate", "--timeout", "200ms",
                         "--sessions", "4", "--warmup", "0", "--duration",
                         "2s", "--drain", "1s")
            self.wait_for_tokens(server)
            os.kill(server.pid, signal.SIGSTOP)
            time.sleep(0.8)
            os.kill(server.pid, signal.SIGCONT)
            _, report, _ = finish(load)
            self.assertGreater(report["totals"]["failed"], 0)
            self.assertGreater(report["totals"]["given_up"], 0)
            self.assertEqual(report["totals"]["sessions_undeleted"], 0)
            self.assertEqual(session_names(server), [])

    def test_requests_without_an_answer_make_the_run_invalid(self):
        for rate in ("0", "50"):
            with self.subTest(rate), self.shared_server() as server:
                load = start(server, "--sessions", "4", "--warmup", "0",
                             "--duration", "1s", "--drain", "100ms", "--rate",
                             rate, "--generate_tokens", "1", "--rpc",
                             "generate")
                # Some requests have come to their end by then.
                self.wait_for_tokens(server, 200)
                os.kill(server.pid, signal.SIGSTOP)
                # Longer than window, drain and grace.
                time.sleep(3)
                os.kill(server.pid, signal.SIGCONT)
                code, report, err = finish(load)
                self.assertEqual(code, 1)
                self.assertIn("the run is INVALID: ", err)
                self.assertFalse(report["valid"])
                unanswered = report["totals"]["unanswered"]
                self.assertGreaterEqual(unanswered, 4)
                self.assertIn(str(unanswered), report["objections"][0])
                self.assertGreater(
                    report["latency_seconds"]["request"]["max"], 0.5)
                if rate != "0":
                    self.assertEqual(
                        report["latency_seconds"]["request"]["samples"],
                        report["arrivals"])
                    self.assertTrue(report["objections"][-1].startswith(
                        str(report["totals"]["never_sent"])))
                self.assertEqual(session_names(server), [])

    def test_a_run_without_any_completed_request_fails(self):
        with self.shared_server() as server:
            code, report, err = run(
                server, "--generate_tokens", "1000000", "--duration", "300ms",
                "--warmup", "0", "--drain", "0")
            self.assertEqual(code, 1)
            self.assertIn("no request was completed", err)
            self.assertFalse(report["valid"])
            self.assertEqual(report["totals"]["unanswered"],
                             report["totals"]["cut"])

    def test_streams_that_the_server_does_not_admit_are_said(self):
        with TinyServer("--max_concurrent_streams", "2") as server:
            code, report, _ = run(
                server, "--sessions", "8", "--streams", "4", "--warmup", "0",
                "--duration", "500ms", "--drain", "100ms")
            self.assertEqual(code, 1)
            self.assertFalse(report["valid"])
            self.assertEqual(report["totals"]["sessions_unheard"], 4)
            self.assertIn("4 of 8 sessions never had an answer",
                          " ".join(report["objections"]))
            self.assertEqual(session_names(server), [])

    def test_a_session_that_stays_busy_is_replaced(self):
        with self.shared_server() as server:
            load = start(server, "--sessions", "2", "--warmup", "0",
                         "--duration", "8s", "--rate", "20",
                         "--max_send_lag", "500ms")
            self.wait_for_tokens(server)
            name = session_names(server)[0]
            meddler = None
            try:
                def meddle():
                    nonlocal meddler
                    meddler = subprocess.Popen(
                        [STEADYSTATE, "generate", "--session", name,
                         "--token_ids_file", "-", "--max_tokens", "100000000",
                         "--ignore_eos", "--address", server.grpc],
                        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL)
                    meddler.stdin.write(b"[1, 2, 3]")
                    meddler.stdin.close()
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        meddler.wait(0.3)
                        return False
                    return True
                wait_until(meddle, "a free session")
                code, report, err = finish(load)
            finally:
                meddler.kill()
                meddler.wait()
            self.assertEqual((code, err), (0, ""))
            self.assertEqual(report["totals"]["sessions_left"], 2)
            self.assertLess(sum(
                report["totals"]["server_errors"].values()), 10)
            self.assertEqual(report["objections"], [])


class ShapesTest(LoadTest):
    """What requests ask for, and when they come."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    def test_lengths_that_differ_are_counted_to_the_token(self):
        for rpc in ("step", "generate"):
            with self.subTest(rpc), self.shared_server() as server:
                code, report, err = run(
                    server, "--rpc", rpc, "--sessions", "4", "--warmup", "0",
                    "--duration", "300ms", "--prompt_tokens", "uniform:1:40",
                    "--generate_tokens", "lognormal:6:6:30")
                self.assertEqual((code, err), (0, ""))
                self.assert_counts_equal(server, report)
                totals = report["totals"]
                self.assertGreater(totals["completed"], 20)
                mean = totals["drawn_tokens"] / totals["completed"]
                self.assertTrue(2 < mean < 12, mean)
                self.assertEqual(report["options"]["prompt_tokens"], 20.5)

    def test_prompts_of_a_file_are_taken_in_turn(self):
        # This model's tokens are bytes.
        prompts = self.write("prompts.txt", "One\n\nAnother one\n")
        with ServerProcess() as server:
            for rpc in ("step", "generate"):
                with self.subTest(rpc):
                    before = server_counts(server)["tokens"]["prompt"]
                    code, report, err = run(
                        server, "--rpc", rpc, "--sessions", "2", "--warmup",
                        "0", "--duration", "300ms", "--prompt_file", prompts,
                        "--generate_tokens", "1")
                    self.assertEqual((code, err), (0, ""))
                    self.assertEqual(report["options"]["prompts"], 2)
                    self.assertEqual(report["mean_prompt_tokens"], 7)
                    prompt = (server_counts(server)["tokens"]["prompt"]
                              - before)
                    pairs, rest = divmod(report["totals"]["completed"], 2)
                    self.assertEqual(prompt, pairs * 14 + rest * 3)

    def test_a_prompt_file_needs_a_tokenizer(self):
        code, report, err = run(self.server, "--prompt_file",
                                self.write("prompts.txt", "One\n"))
        self.assertEqual((code, report), (1, None))
        self.assertIn("tokenizer", err)
        latin = self.write("latin.txt", b"One\nZw\xf6lf\n")
        code, report, err = run(self.server, "--prompt_file", latin)
        self.assertEqual((code, report), (2, None))
        self.assertIn(f"{latin}: line 2: text must be UTF-8; the byte at offset"
                      " 2 is not", err)

    def test_a_sweep_without_a_knee_says_what_its_lowest_value_lacked(self):
        code, _, err = run(self.server, "--sweep", "rate:50,60", "--warmup",
                           "0", "--duration", "200ms", "--max_send_lag", "0")
        self.assertEqual(code, 1)
        self.assertIn("At rate 50, the lowest, the run is INVALID: the tester "
                      "itself sent late", err)
        self.assertNotIn("lower ones", err)

    def test_a_durability_needs_a_store(self):
        code, _, err = run(self.server, "--durability", "log", "--duration",
                           "1s")
        self.assertEqual(code, 1)
        self.assertRegex(err, "no session could be created: "
                         "FAILED_PRECONDITION NO_STORE: ")

    def test_constant_arrivals_are_exact(self):
        code, report, err = run(
            self.server, "--rate", "100", "--arrivals", "constant", "--warmup",
            "0", "--duration", "500ms", "--max_send_lag", "1h",
            "--generate_tokens", "1")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(report["arrivals"], 50)

    def test_stages_ramp(self):
        code, report, err = run(
            self.server, "--stages", "500ms:40,500ms:40", "--arrivals",
            "constant", "--max_send_lag", "1h", "--generate_tokens", "1")
        self.assertEqual((code, err), (0, ""))
        # Ten within the ramp and twenty after it, the last one at the end.
        self.assertIn(report["arrivals"], (29, 30))
        self.assertAlmostEqual(report["measured_seconds"], 1)
        slots = report["timeline"]["slots"]
        self.assertEqual(len(slots), 4)
        self.assertIn(slots[0]["due"], (2, 3))

    def test_a_trace_decides_arrivals_and_duration(self):
        times = [0.0, 0.1, 0.1, 0.25, 0.4]
        code, report, err = run(
            self.server, "--trace",
            self.write("trace.txt", "".join(f"{time}\n" for time in times)),
            "--max_send_lag", "1h", "--generate_tokens", "1")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(report["arrivals"], len(times))
        self.assertAlmostEqual(report["measured_seconds"], 0.401)
        self.assertEqual(report["options"]["arrival_process"], "trace")

    def test_connections_share_the_calls(self):
        metric = "steadystate_grpc_connections_accepted_total"
        for options in (("--streams", "4"), ("--rpc", "generate")):
            with self.subTest(options), self.shared_server() as server:
                before = value(server.metrics, metric)
                code, report, err = run(
                    server, *options, "--sessions", "8", "--connections", "3",
                    "--warmup", "0", "--duration", "200ms")
                self.assertEqual((code, err), (0, ""))
                self.assert_counts_equal(server, report)
                # And one for calls about sessions.
                self.assertEqual(value(server.metrics, metric) - before, 4)

    def test_calls_that_wait_within_the_client_are_said(self):
        with self.shared_server() as server:
            code, report, err = run(
                server, "--rpc", "generate", "--sessions", "1030", "--warmup",
                "0", "--duration", "100ms", "--prompt_tokens", "1",
                "--generate_tokens", "1")
            self.assertEqual((code, err), (0, ""))
            self.assertEqual(report["peak_calls"], 1030)
            self.assertIn("up to 6 waited within this client",
                          " ".join(report["remarks"]))


class AimsTest(LoadTest):
    """Objectives, sweeps, and what is made of reports."""

    OPTIONS = ("--sessions", "4", "--warmup", "0", "--duration", "300ms")

    def test_an_objective_that_is_met_and_one_that_is_missed(self):
        code, report, err = run(self.server, *self.OPTIONS, "--slo",
                                "ttft:1m,tpot:1m,e2e:1m")
        self.assertEqual((code, err), (0, ""))
        goodput = report["goodput"]
        self.assertEqual(goodput["attainment"], 1)
        self.assertEqual(goodput["good_requests"], goodput["requests"])
        code, report, err = run(self.server, *self.OPTIONS, "--slo",
                                "ttft:1m,tpot:1ns")
        self.assertEqual(code, 1)
        self.assertIn("the SLO was missed: 0.00 %", err)
        self.assertEqual(report["goodput"]["requests_per_second"], 0)
        code, _, err = run(self.server, *self.OPTIONS, "--slo", "tpot:1ns",
                           "--slo_attainment", "0")
        self.assertEqual((code, err), (0, ""))

    def test_a_sweep_finds_the_knee_and_writes_a_page(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "page.html"
            code, report, err = run(
                self.server, "--sweep", "sessions:1,2", "--repeat", "2",
                "--warmup", "0", "--duration", "200ms", "--html", str(page))
            self.assertEqual((code, err), (0, ""))
            html = page.read_text()
        self.assertEqual(report["schema"], "steadystate.load_sweep/1")
        self.assertEqual([point["value"] for point in report["points"]], [1, 2])
        for point in report["points"]:
            self.assertEqual(
                [run["options"]["seed"] for run in point["runs"]], [1, 2])
            self.assertGreater(
                point["summary"]["tokens_per_second"]["half_width_95"], 0)
        self.assertIn(report["knee"]["value"], (1, 2))
        self.assertTrue(html.startswith("<!DOCTYPE html>"))
        self.assertIn("knee at sessions", html)
        self.assertEqual(session_names(self.server), [])

    def test_a_sweep_without_a_knee_fails(self):
        code, report, err = run(
            self.server, "--sweep", "rate:5,10", "--max_send_lag", "1h",
            "--warmup", "0", "--duration", "200ms", "--slo", "ttft:1ns")
        self.assertEqual(code, 1)
        self.assertIn("no knee was found", err)
        self.assertIsNone(report["knee"])

    def test_the_servers_side_is_reported(self):
        code, report, err = run(self.server, *self.OPTIONS, "--metrics",
                                f"http://{self.server.metrics}/metrics")
        self.assertEqual((code, err), (0, ""))
        server = report["server"]
        self.assertGreater(server["cpus"], 0)
        self.assertEqual(server["missed_samples"], 0)
        self.assertGreaterEqual(len(server["samples"]), 2)
        self.assertGreater(server["queue_seconds"]["decode"]["p99"], 0)

    def test_metrics_that_are_not_there_are_an_error_before_the_run(self):
        for url, words in (("127.0.0.1:1", "cannot be read"),
                           (f"{self.server.metrics}/none", "cannot be read"),
                           (self.server.grpc, "not speak HTTP/1, as the")):
            with self.subTest(url):
                code, report, err = run(self.server, "--metrics", url)
                self.assertEqual((code, report), (1, None))
                self.assertIn(words, err)
        self.assertEqual(session_names(self.server), [])

    def test_two_reports_are_compared_without_a_server(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for i, sessions in enumerate(("4", "4", "2")):
                _, report, _ = run(self.server, "--sessions", sessions,
                                   "--warmup", "0", "--duration", "200ms")
                paths.append(str(pathlib.Path(folder) / f"{i}.json"))
                pathlib.Path(paths[i]).write_text(json.dumps(report))

            def compare(*arguments):
                return subprocess.run(
                    [STEADYSTATE, "load", "compare", *arguments],
                    capture_output=True, text=True, timeout=TIMEOUT_S)
            same = compare(paths[0], paths[1])
            self.assertEqual((same.returncode, same.stderr), (0, ""))
            self.assertRegex(same.stdout, r"tokens_per_second +\d")
            self.assertLessEqual(max(map(len, same.stdout.splitlines())), 80)
            as_json = json.loads(compare(paths[0], paths[0], "--json").stdout)
            self.assertEqual(
                {figure["b_is"] for figure
                 in as_json["points"][0]["figures"].values()}, {"same"})
            other = compare(paths[0], paths[2])
            self.assertEqual((other.returncode, other.stdout), (1, ""))
            self.assertIn("sessions 4 and 2", other.stderr)
            self.assertIn(f"B is {paths[2]}", other.stderr)
            text = compare("--help").stdout
            self.assertIn("Examples:", text)
            self.assertNotIn("--address", text)
            self.assertEqual(compare(paths[0]).returncode, 2)
            self.assertEqual(compare(paths[0], folder + "/no").returncode, 2)


class StallTest(LoadTest):
    """A server that stands still for a second, seen by both kinds of loop."""

    def run_with_stall(self, *options):
        with self.shared_server() as server:
            load = start(server, "--warmup", "0", "--duration", "4s",
                         "--prompt_tokens", "1", "--generate_tokens", "1",
                         *options)
            self.wait_for_tokens(server)
            os.kill(server.pid, signal.SIGSTOP)
            time.sleep(1)
            os.kill(server.pid, signal.SIGCONT)
            code, report, _ = finish(load)
        self.assertEqual(code, 0)
        return report["latency_seconds"]["time_to_first_token"]

    def test_an_open_loop_sees_what_all_users_would(self):
        # So few that a busy machine answers all of them.
        latency = self.run_with_stall("--sessions", "4", "--rate", "50",
                                      "--max_send_lag", "1h")
        # A quarter of the requests were to be sent while it stood.
        self.assertGreaterEqual(latency["p99"], 0.85)
        self.assertGreaterEqual(latency["p90"], 0.4)

    def test_a_closed_loop_asks_less_and_hides_it(self):
        latency = self.run_with_stall("--sessions", "1")
        self.assertGreaterEqual(latency["max"], 0.85)
        self.assertLess(latency["p99"], 0.4)


class OutputTest(LoadTest):

    def load(self, *options):
        return cli(self.server, "load", "--sessions", "2", "--warmup", "0",
                   "--duration", "200ms", *options)

    def test_text_is_readable_in_80_columns(self):
        # No more requests than sessions, so that a rate is achieved however
        # busy the machine is.
        text = self.load("--arrivals", "constant", "--rate", "10",
                         "--max_send_lag", "1h")
        self.assertIn("time to first token", text)
        self.assertIn("errors              none", text)
        self.assertLessEqual(max(map(len, text.splitlines())), 80)

    def test_csv_is_one_row(self):
        rows = list(csv.DictReader(io.StringIO(self.load("--csv"))))
        self.assertEqual(len(rows), 1)
        self.assertEqual(rows[0]["sessions"], "2")
        self.assertGreater(float(rows[0]["tokens_per_second"]), 0)
        self.assertNotIn(None, rows[0])

    def test_a_terminal_sees_progress(self):
        try:
            reader, writer = pty.openpty()
        except OSError as error:  # /dev/pts is not mounted
            self.skipTest(f"no terminal to be had: {error}")
        with os.fdopen(reader, "rb") as terminal:
            subprocess.run(
                [STEADYSTATE, "load", "--address", self.server.grpc,
                 "--warmup", "0", "--duration", "1500ms"],
                check=True, stdout=subprocess.DEVNULL, stderr=writer,
                timeout=TIMEOUT_S)
            os.set_blocking(reader, False)
            drawn = terminal.read().decode()
            os.close(writer)
        speeds = re.findall(r"(\d+) tokens/s  0 errors", drawn)
        self.assertTrue(any(int(speed) > 0 for speed in speeds), drawn)
        self.assertEqual(len(speeds), drawn.count("errors"), drawn)
        # The line is taken away at the end.
        self.assertTrue(drawn.endswith("\r\033[K"))

    def test_a_timeout_of_steps_is_refused(self):
        code, report, err = run(self.server, "--timeout", "1s")
        self.assertEqual((code, report), (1, None))
        self.assertIn("--timeout is for --rpc generate", err)

    def test_wrong_options_are_explained(self):
        for options, words in (
                (["--sessions", "0"], "--sessions is 0; it must be 1 to"),
                (["--streams", "3"], "--streams is 3, more than the 2"),
                (["--rate", "-1"], "--rate is -1"),
                (["--duration", "soon"], "'soon' is not a duration"),
                (["--json", "--csv"], "only one of"),
                (["--rpc", "score"], "neither step nor generate"),
                (["--rpc", "generate", "--streams", "1"], "--rpc step"),
                (["--prompt_tokens", "normal:1:2"], "is neither a number of"),
                (["--slo", "ttft:20"], "'20' of ttft is not a duration"),
                (["--slo", "ttft:1s", "--slo_attainment", "99"], "0 to 1"),
                (["--sweep", "rate:2,1"], "above the one before"),
                (["--sweep", "rate:1,2", "--rate", "1"], "leave --rate"),
                (["--sweep", "sessions:1,2"], "leave --sessions out"),
                (["--repeat", "11"], "--repeat is 11; it must be 1 to 10"),
                (["--repeat", "2", "--duration", "0"], "never ends"),
                (["--stages", "10s"], "'10s' is not DURATION:RATE"),
                (["--stages", "1s:5", "--duration", "1s"], "only one of them"),
                (["--stages", "1s:5", "--warmup", "1s"], "no more than 1s"),
                (["--trace", "/nowhere/at/all"], "cannot read /nowhere"),
                (["--arrivals", "constant"], "for --rate and --stages"),
                (["--connections", "2"], "more than the 1 of --streams"),
                (["--metrics", "https://host:1"], "is encrypted"),
                (["more"], "unexpected 'more'")):
            done = subprocess.run(
                [STEADYSTATE, "load", "--sessions", "2", *options],
                capture_output=True, text=True, timeout=TIMEOUT_S)
            self.assertEqual((done.returncode, done.stdout), (2, ""), options)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main()
