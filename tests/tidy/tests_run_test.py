"""Goal: tests/run ends with what passed, what failed and printed, and how many
tests were skipped for which reason.

Method: the script in a tree of its own, with a project of a few tests that say
what the real ones say, built by the real CMake and run by the real ctest.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

from testing.server_process import ROOT

PRESETS = """{
  "version": 6,
  "configurePresets": [{"name": "release", "generator": "Ninja",
                        "binaryDir": "${sourceDir}/build/release"},
                       {"name": "asan", "inherits": "release",
                        "binaryDir": "${sourceDir}/build/asan"}],
  "buildPresets": [{"name": "release", "configurePreset": "release"},
                   {"name": "asan", "configurePreset": "asan"}],
  "testPresets": [{"name": "release", "configurePreset": "release",
                   "output": {"outputOnFailure": true}},
                  {"name": "asan", "inherits": "release",
                   "configurePreset": "asan"}]
}
"""
PROJECT = """cmake_minimum_required(VERSION 3.22)
project(tests NONE)
enable_testing()
function(add name code text)
  file(WRITE ${CMAKE_BINARY_DIR}/${name}.txt "${text}")
  add_test(NAME ${name}
           COMMAND sh -c "cat ${CMAKE_BINARY_DIR}/${name}.txt; exit ${code}")
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77
    SKIP_REGULAR_EXPRESSION "\\\\[  SKIPPED \\\\]")
endfunction()
"""


class TestsRunTest(unittest.TestCase):

    def run_project(self, tests, *options):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        root = pathlib.Path(directory.name)
        (root / "deploy").mkdir()
        (root / "tests").mkdir()
        script = shutil.copy(ROOT / "tests/run", root / "tests")
        installer = root / "deploy/install-packages"
        installer.write_text("#!/bin/sh\n")
        os.chmod(installer, 0o755)
        (root / "CMakePresets.json").write_text(PRESETS)
        (root / "CMakeLists.txt").write_text(PROJECT + "".join(
            f'add({name} {code} [==[{text}]==])\n'
            for name, code, text in tests))
        return subprocess.run([script, *options], capture_output=True,
                              text=True, timeout=120, check=False)

    def summary(self, output):
        lines = output.split("\n== summary ==\n")[1].splitlines()
        self.assertRegex(lines[0], r"^release +\w+ in \d+ s: ")
        return lines

    def test_skips_are_counted_by_reason(self):
        gtest = "[ RUN      ] A.B\n/a.cc:3: Skipped\n{}\n\n[  SKIPPED ] A.B\n"
        done = self.run_project([
            ("fine", 0, "skipped: it says so, and goes on\n"),
            ("a1", 77, "pulls\nskipped: no Docker engine\n"),
            ("a2", 77, "skipped: no Docker engine\n"),
            ("b1", 0, gtest.format("no native bf16")),
            ("b2", 0, gtest.format("no native bf16")),
            ("b3", 0, gtest.format("no native bf16")),
            ("c", 77, "not on this machine\n"),
            ("d", 77, "")])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lines = self.summary(done.stdout)
        self.assertIn("passed in", lines[0])
        self.assertEqual(lines[1:], ["skipped 3: no native bf16",
                                     "skipped 2: no Docker engine",
                                     "skipped 1: no reason given",
                                     "skipped 1: not on this machine"])

    def test_what_failed_prints_and_nothing_is_said_of_no_skips(self):
        done = self.run_project([("fine", 0, "all is well\n"),
                                 ("bad", 1, "all is lost\n")])
        self.assertEqual(done.returncode, 1)
        end = done.stdout[done.stdout.index("== failed in release =="):]
        self.assertIn("all is lost", end)
        self.assertNotIn("all is well", end)
        lines = self.summary(done.stdout)
        self.assertIn("FAILED in", lines[0])
        self.assertIn("1 tests failed out of 2", lines[0])
        self.assertEqual(len(lines), 1)

    def run_cut(self, tests, seconds):
        """Tests and one that hangs, with a sanitizer that has its time only."""
        start = time.monotonic()
        done = self.run_project(
            tests + [("hangs", '"$(sleep 600)"', "asleep\n")],
            "--preset", "asan", "--sanitizers-within", str(seconds))
        self.assertLess(time.monotonic() - start, 100)
        return done

    def test_a_sanitizer_is_cut_when_its_time_is_over(self):
        done = self.run_cut([("fine", 0, "all is well\n"),
                             ("skips", 77, "skipped: no engine\n")], 10)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(
            done.stdout.split("\n== summary ==\n")[1],
            r"^asan +cut in \d+ s: 1 tests had passed, 0 had failed\n$")

    def test_what_failed_before_the_cut_fails_the_run(self):
        done = self.run_cut([("bad", 1, "all is lost\n")], 10)
        self.assertEqual(done.returncode, 1)
        self.assertIn("all is lost", done.stdout[
            done.stdout.index("== failed in asan =="):])
        self.assertRegex(
            done.stdout, r"asan +FAILED in \d+ s: 0 tests had passed, 1 had f")

    def test_what_has_no_sanitizer_takes_its_time(self):
        done = self.run_project([("slow", '"$(sleep 2)"', "done\n")],
                                "--sanitizers-within", "0")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("passed in", self.summary(done.stdout)[0])


if __name__ == "__main__":
    unittest.main()
