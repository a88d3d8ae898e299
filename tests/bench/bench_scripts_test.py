"""Goal: the scripts around steadystate-bench take nothing for measured that is
not, and tell what is wrong with their command line before they work.

Method: a report made with --quick, reports made up, options that are wrong.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from xml.etree import ElementTree

SVG = "{http://www.w3.org/2000/svg}"
HERE = pathlib.Path(__file__).resolve().parent
BENCH = pathlib.Path(os.environ["STEADYSTATE_BIN_DIR"]) / "steadystate-bench"


def run(*command, code=0):
    """Runs a script; returns (what it prints, what it tells)."""
    process = subprocess.run([str(word) for word in command], text=True,
                             timeout=100, capture_output=True, check=False)
    if process.returncode != code:
        raise AssertionError(f"{command}: {process.returncode}, "
                             f"{process.stderr}")
    return process.stdout, process.stderr


def targets(*arguments, code=0):
    return run(sys.executable, "-B", HERE / "targets.py", *arguments, code=code)


class ScriptsTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, report):
        path = self.folder / name
        path.write_text(json.dumps(report))
        return path

    def test_quick_reports_are_not_taken_for_measured(self):
        only = (self.folder, "--only", "mixed", "--program", BENCH)
        table, _ = targets(*only, "--quick")
        self.assertIn("mamba2-tiny", table)
        self.assertIn("`mixed --shape mamba2-tiny --quick`", table)
        table, told = targets(*only, code=1)
        self.assertEqual(table, "")
        self.assertIn("mixed.json was made with --quick", told)

    def test_measured_reports_need_no_program(self):
        row = {"model": "m", "sessions": 16, "prompt_tokens": 8192,
               "p99_ratio": 2.5, "prefill_ratio": 0.5}
        self.write("mixed.json", {"benchmark": "mixed", "mixed": [row],
                                  "environment": {"quick": False}})
        no_program = (self.folder, "--program", self.folder / "none", "--only")
        table, _ = targets(*no_program, "mixed")
        self.assertIn("| 2.50 | `mixed --shape mamba2-130m` |", table)
        table, told = targets(*no_program, "mixed,age", code=1)
        self.assertEqual(table, "")
        self.assertIn("no program", told)

    def test_what_is_no_report_is_refused(self):
        self.write("age.json", {"benchmark": "engine", "environment": {}})
        self.write("mixed.json", [])
        for name, message in (("age", "is a report of engine"),
                              ("mixed", "is no report")):
            _, told = targets(self.folder, "--only", name, code=1)
            self.assertIn(message, told)

    def test_plot_refuses_the_report_of_another_command(self):
        path = self.write("engine.json", {"benchmark": "engine", "decode": []})
        for option, message in (("--age", "is no report of steadystate-bench"),
                                ("--engine", "has nothing to draw")):
            _, told = run(sys.executable, "-B", HERE / "plot.py", option, path,
                          self.folder / "out.svg", code=2)
            self.assertIn(message, told)

    def test_a_chat_over_one_session_computes_what_is_new(self):
        out, svg = self.folder / "chat.json", self.folder / "chat.svg"
        chat = (sys.executable, "-B", HERE / "chat_turns.py")
        run(*chat, "--shape", "mamba2-tiny", "--turns", "3", "--system", "9",
            "--user", "4", "--answer", "5", "--json", out, "--svg", svg)
        report = json.loads(out.read_text())
        tokens = {}
        for row in report["rows"]:
            tokens.setdefault(row["way"], []).append(row["tokens_computed"])
            self.assertLess(0, row["seconds_to_first_token"])
            self.assertLess(row["seconds_to_first_token"], row["seconds"])
        self.assertEqual(tokens, {"one session": [18, 9, 9],
                                  "everything again": [18, 27, 36]})
        self.assertEqual(report["totals"]["one session"]["tokens_computed"], 36)
        drawn = ElementTree.fromstring(svg.read_text())
        # Three turns twice for tokens, and four times for seconds.
        self.assertEqual(len(list(drawn.iter(SVG + "circle"))), 18)
        for option in ("--turns", "--answer"):
            self.assertIn("0 is not a number from 1 on",
                          run(*chat, option, "0", code=2)[1])

    def test_peers_look_at_their_options_before_they_install(self):
        # Who does not look finds no programs there.
        peers = (HERE / "peers/run", "--bin", self.folder)
        for arguments, message in [
                (("--state_dtype", "f7"), "argument --state_dtype"),
                (("--shape", "demo"), "argument --shape"),
                (("--torch", "--shape", "lfm2-1.2b"), "PyTorch is not asked"),
                (("--prefill", "0"), "argument --prefill"),
                (("--behind", "-1"), "argument --behind"),
                (("--rounds", "-1"), "argument --rounds"),
                (("--seconds", "nan"), "argument --seconds"),
                (("--tor",), "unrecognized arguments: --tor"),
                (("--venv",), "argument --venv"),
                ((), "no steadystate-bench in"),
        ]:
            with self.subTest(arguments=arguments):
                self.assertIn(message, run(*peers, *arguments, code=2)[1])
        for option in ("-h", "--help"):
            self.assertIn("--no_search", run(*peers, option)[0])


if __name__ == "__main__":
    unittest.main()
