"""Goal: a peer that crashes is reported and left out, and the others are
measured all the same; any other failure is one.

Method: workers that end themselves, contenders that are made up.
"""

import argparse
import importlib.util
import pathlib
import subprocess
import tempfile
import unittest

import paths  # noqa: F401  where `testing` is
from testing.skip import skip

if not importlib.util.find_spec("numpy"):
    skip("no NumPy here")

import report  # noqa: E402
from contenders import Peer  # noqa: E402
from settings import Settings  # noqa: E402
from turns import measure_group  # noqa: E402
from work import Crashed, Work, run_worker  # noqa: E402

WORKS = (Work("prefill", 8), Work("decode", 1))


class Contender:
    """Crashes at some work."""

    def __init__(self, name, crashes_at=None):
        self.name = name
        self.crashes_at = crashes_at

    def can(self, work):
        return True

    def rate(self, work, seconds):
        if work == self.crashes_at:
            raise Crashed("SIGSEGV")
        return 10.0


class TurnsTest(unittest.TestCase):

    def figures(self, *peers, works=WORKS):
        figures = {"about": {}, "logits": {}, "settings": [], "rows": [],
                   "crashed": []}
        options = argparse.Namespace(rounds=3, seconds=0, no_search=False)
        measure_group([Contender("Steadystate, bf16"), *peers], works, options,
                      figures)
        return figures

    def test_who_crashes_is_left_out_of_that_work_alone(self):
        figures = self.figures(Contender("one", WORKS[0]), Contender("other"))
        names = [sorted(row["rates"]) for row in figures["rows"]]
        self.assertEqual(names, [["Steadystate, bf16", "other"],
                                 ["Steadystate, bf16", "one", "other"]])
        for row in figures["rows"]:
            for rates in row["rates"].values():
                self.assertEqual(rates, [10.0] * 3)
        self.assertEqual(figures["crashed"], [
            {"contender": "one", "what": "prefill, 8 tokens",
             "signal": "SIGSEGV"}])

    def test_report_says_who_crashed(self):
        for markdown in (False, True):
            text = report.text(self.figures(Contender("one", WORKS[0])),
                               markdown)
            self.assertRegex(text, r"one .*prefill, 8 tokens .*SIGSEGV")

    def test_search_for_settings_may_crash_too(self):
        class Searching(Contender):
            def search(self, work, seconds):
                raise Crashed("SIGABRT")

        figures = self.figures(Searching("one"))
        self.assertEqual(len(figures["crashed"]), len(WORKS))
        for row in figures["rows"]:
            self.assertEqual(list(row["rates"]), ["Steadystate, bf16"])

    def test_settings_are_searched_once_for_works_that_are_alike(self):
        class Searching(Peer):
            def __init__(self):
                super().__init__("one", "no.py", "no", Settings(1))
                self.used = []

            def _rate_with(self, settings, work, seconds):
                self.used.append((str(work), settings.waiting))
                return 2.0 if settings.waiting == "asleep" else 1.0

        peer = Searching()
        works = (Work("prefill", 8), Work("prefill", 9), Work("decode", 2),
                 Work("decode", 2, 5), Work("decode", 3))
        figures = self.figures(peer, works=works)
        self.assertEqual([each["work"] for each in figures["settings"]],
                         [str(works[i]) for i in (0, 2, 4)])
        for work in works:
            self.assertIn((str(work), "asleep"), peer.used)
        self.assertNotIn((str(works[1]), "in a loop"), peer.used)
        self.assertNotIn((str(works[3]), "in a loop"), peer.used)


class WorkTest(unittest.TestCase):

    def test_names_and_options(self):
        for work, name, options in (
                (Work("prefill", 9), "prefill, 9 tokens",
                 ["prefill", "--prompt", 9]),
                (Work("decode", 1), "decode, 1 sequence",
                 ["decode", "--sequences", 1, "--behind", 0]),
                (Work("decode", 8, 4000), "decode, 8 sequences, 4000 behind",
                 ["decode", "--sequences", 8, "--behind", 4000])):
            self.assertEqual(str(work), name)
            self.assertEqual(work.options(), options)


class WorkerTest(unittest.TestCase):

    def run_script(self, text):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "worker.py"
            script.write_text(text)
            return run_worker(script, [])

    def test_output_is_parsed(self):
        self.assertEqual(self.run_script("print('{\"a\": 1}')"), {"a": 1})

    def test_signal_is_a_crash(self):
        with self.assertRaisesRegex(Crashed, "SIGKILL"):
            self.run_script("import os, signal\n"
                            "os.kill(os.getpid(), signal.SIGKILL)")

    def test_failure_is_none(self):
        with self.assertRaises(subprocess.CalledProcessError):
            self.run_script("raise SystemExit(3)")


if __name__ == "__main__":
    unittest.main()
