"""Goal: what README.md says is so.

Method: each command of a console block is carried out by the tests of groups.py
and what it prints is compared; the tables, names and paths are compared with
the programs, the protos and the tree. A command that belongs to no test fails.
Those that need tools which are not everywhere have tests of their own, which
can be skipped: readme_tools_test.py, readme_container_test.py.

Not as they stand: servers listen on free ports, and a text that the model makes
up must only be there. ./deploy/run builds what is out of date, not from
nothing. ./tests/run runs on a tree with one test of its own and without
installing anything. Of the Docker commands, readme_container_test.py says it.
"""

import os
import re
import signal
import subprocess
import tempfile
import unittest

from readme import blocks, transcript
from readme.groups import commands_in, group_of
from testing.scrape import scrape
from testing.server_process import BIN_DIR, ROOT, ServerProcess

TEXT = blocks.README.read_text()


def section(title, text=TEXT):
    """The text below a heading, up to the next."""
    return re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text,
                     re.DOTALL | re.MULTILINE).group(1)


def table_rows(text):
    """The cells of each row of a Markdown table, less its head."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in text.splitlines() if line.startswith("|")]
    return rows[2:]


def output_of(*command, **keywords):
    return subprocess.run(command, cwd=ROOT, text=True, timeout=60, check=True,
                          capture_output=True, **keywords).stdout


class BlocksTest(unittest.TestCase):

    def test_every_block_has_a_test(self):
        for block in blocks.read_blocks():
            with self.subTest(line=block.line):
                self.assertIn(block.language, ("console", "text"))
                if block.language == "console":
                    for command in blocks.commands_of(block):
                        group_of(command)


class CommandsTest(unittest.TestCase):

    def check(self, result):
        shown = f"README.md:{result.command.line}: {result.command.code}"
        # The model's text is another each time.
        if result.command.code.startswith("steadystate generate") and (
                result.status == 0):
            self.assertTrue(result.command.expected, shown)
            self.assertTrue(result.output, shown)
            return
        self.assertTrue(
            transcript.matches(result.command.expected, result.output),
            f"{shown}\nREADME says:\n{result.command.expected}\n"
            f"It printed:\n{result.output}")
        self.assertEqual(result.status != 0,
                         result.command.expected.startswith("error:"), shown)

    def test_shell_commands(self):
        commands = commands_in("shell")
        self.assertGreater(len(commands), 5)
        with tempfile.TemporaryDirectory() as directory, \
                ServerProcess() as server:
            environment = dict(os.environ, TMPDIR=directory)
            for result in transcript.run_commands(commands, server,
                                                  environment):
                with self.subTest(line=result.command.line):
                    self.check(result)

    def test_server_command(self):
        """Started as README says, but for the ports, and stopped by SIGTERM."""
        command, = commands_in("server")
        code = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:0", command.code)
        code = code.replace("steadystate-server",
                            str(BIN_DIR / "steadystate-server"))
        process = subprocess.Popen(
            ["bash", "-euc", f"exec {code}"], cwd=ROOT, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            line = process.stdout.readline()
            self.assertTrue(transcript.matches(command.expected, line), line)
        finally:
            process.terminate()
            rest, _ = process.communicate(timeout=60)
        self.assertEqual((process.returncode, rest), (0, ""))


class TwoCommandsTest(unittest.TestCase):

    def test_deploy_run(self):
        """Up to the Ctrl-C, on free ports. What it builds is there already."""
        command, = (c for c in commands_in("main") if "deploy/run" in c.code)
        arguments = "--listen 127.0.0.1:0 --metrics_listen 127.0.0.1:0"
        if BIN_DIR != ROOT / "build/release/bin":
            arguments += f" --bin_dir {BIN_DIR}"
        last_line = command.expected.splitlines()[-1].strip()
        process = subprocess.Popen(
            ["bash", "-euc", f"exec {command.code} {arguments}"], cwd=ROOT,
            text=True, errors="replace", stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
            # A shell that was started in the background ignores Ctrl-C, and so
            # would all that it starts.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        output = ""
        try:
            for line in process.stdout:
                output += line
                if line.replace(str(BIN_DIR), "build/release/bin").strip() == (
                        last_line):
                    break
        finally:
            os.killpg(process.pid, signal.SIGINT)
            rest, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, output + rest)
        self.assertTrue(
            transcript.matches(self.without_story(command.expected),
                               self.without_story(output)), output)

    def without_story(self, output):
        """What deploy/run prints, without the text that the model made up."""
        text, count = re.subn(
            r"(It continues: The database ?\n\nThe database )(.+?)"
            r"\n+(session +sessions/)", r"\1\n\n\3", output, flags=re.DOTALL)
        self.assertEqual(count, 1, output)
        return text

    # tests/run runs this test, so that this test cannot run it on this tree. It
    # is run on a tree with one test of its own instead.
    def run_tests_run(self, test_program):
        with tempfile.TemporaryDirectory() as tree:
            for folder in ("deploy", "tests"):
                os.mkdir(f"{tree}/{folder}")
            for file in ("tests/run", "CMakePresets.json"):
                os.symlink(ROOT / file, f"{tree}/{file}")
            with open(f"{tree}/tests/run", "rb") as script:
                body = script.read()
            os.unlink(f"{tree}/tests/run")  # it goes to where it really lies
            with open(f"{tree}/tests/run", "wb") as script:
                script.write(body)
            os.chmod(f"{tree}/tests/run", 0o755)
            with open(f"{tree}/deploy/install-packages", "w") as script:
                script.write("#!/bin/sh\necho install-packages \"$@\"\n")
            os.chmod(f"{tree}/deploy/install-packages", 0o755)
            with open(f"{tree}/CMakeLists.txt", "w") as lists:
                lists.write("cmake_minimum_required(VERSION 3.25)\n"
                            "project(sample NONE)\nenable_testing()\n"
                            f"add_test(NAME sample COMMAND {test_program})\n")
            command, = (c for c in commands_in("main") if "tests/run" in c.code)
            result = subprocess.run(
                ["bash", "-euc", command.code], cwd=tree, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
                check=False)
            return command, result

    def test_tests_run(self):
        command, result = self.run_tests_run("true")
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertTrue(transcript.matches(command.expected, result.stdout),
                        result.stdout)
        self.assertIn("install-packages --tests\n", result.stdout)
        self.assertRegex(
            result.stdout, r"\nrelease  passed in \d+ s: 100% tests passed, "
            r"0 tests failed out of 1\n$")

    def test_tests_run_fails_with_a_test(self):
        _, result = self.run_tests_run(
            "sh -c \"seq -f 'line %g.' 70; false\"")
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertRegex(
            result.stdout,
            r"(?s)\n== failed in release ==\n\n-- [^\n]*: sample [^\n]*Failed"
            r"[^\n]*\nline 2\d\..*\nline 70\.\n+== summary ==\n"
            r"release  FAILED in .*\n$")

    def test_continuous_integration_runs_the_same(self):
        self.assertIn("exec ./tests/run ", (ROOT / ".ci/run").read_text())

    def test_options_that_are_named(self):
        self.assertIn("--once", output_of("deploy/run", "--help"))
        self.assertIn("--all", output_of("tests/run", "--help"))
        self.assertIn("build/clients",
                      output_of("tests/clients/install", "--help"))


class FactsTest(unittest.TestCase):

    def test_flags(self):
        text = output_of(BIN_DIR / "steadystate-server", "--help")
        # An option of help is a line of its own; its text is indented farther.
        flags = {}
        for name, lines in re.findall(r"^  --(\w+).*\n((?:      .*\n)+)", text,
                                      re.MULTILINE):
            meaning = " ".join(lines.split())
            default = re.search(r"Default (\S+)\.$", meaning)
            flags[name] = (meaning, default and default[1])
        rows = table_rows(section("Serve a model of your own"))
        self.assertGreater(len(rows), 4)
        for names, _, defaults in rows:
            names = re.findall(r"`--(\w+)`", names)
            self.assertTrue(names)
            for name, default in zip(names, defaults.split(", "), strict=True):
                with self.subTest(flag=name):
                    if default == "required":
                        self.assertTrue(flags[name][0].startswith("Required"))
                        continue
                    self.assertEqual(default, flags[name][1])

    def test_mechanisms(self):
        known = {name for source in (ROOT / "server/model/mixers").glob("*.cc")
                 for name in re.findall(r'\.model_type = "(\w+)"',
                                        source.read_text())}
        families = (ROOT / "server/model/mixers/README.md").read_text()
        for text in (section("What works today"),
                     section("What each supports", families)):
            named = {name for row in table_rows(text)
                     for name in re.findall(r"`(\w+)`", row[1])}
            self.assertEqual(named - {"attn"}, known)

    def test_names_of_the_api(self):
        protos = "".join(path.read_text()
                         for path in (ROOT / "proto").rglob("*.proto"))
        names = set(re.findall(r"`([\w.]+)`", section("The API in ten lines")))
        self.assertGreater(len(names), 8)
        for name in names - {"grpcurl"}:
            for part in name.split("."):
                with self.subTest(name=name):
                    self.assertRegex(protos, rf"\b{part}\b")
        lines = re.findall(r"^\d+\. ", section("The API in ten lines"),
                           re.MULTILINE)
        self.assertEqual(len(lines), 10)

    def test_metrics(self):
        with ServerProcess() as server:
            exported = scrape(server.metrics)
        named = set(re.findall(r"`(steadystate_\w+)`", TEXT))
        self.assertGreater(len(named), 3)
        for name in named:
            with self.subTest(metric=name):
                self.assertTrue(name in exported or f"{name}_count" in exported)

    def test_bytes_of_a_session(self):
        with ServerProcess() as server:
            samples = scrape(server.metrics)
        value, = samples["steadystate_state_bytes_per_session"].values()
        shown = re.search(
            r"([\d,]+) bytes, so\s+the default budget of 4 GiB holds ([\d,]+)",
            TEXT)
        self.assertEqual([int(number.replace(",", "")) for number in
                          shown.groups()], [value, 2**32 // value])
        in_output = re.findall(r"(\d{5,}) bytes|per_session\{.*\} (\d+)", TEXT)
        self.assertGreater(len(in_output), 2)
        self.assertEqual({int("".join(numbers)) for numbers in in_output},
                         {value})

    def test_quality_of_the_demo_model(self):
        shown = re.search(r"([\d.]+)\s+bits\s+per\s+byte", TEXT).group(1)
        card = (ROOT / "deploy/models/demo/MODEL_CARD.md").read_text()
        self.assertIn(f"{shown} bits per byte", card)

    def test_layout(self):
        block, = (b for b in blocks.read_blocks()
                  if b.section == "Where things are")
        self.assertEqual(block.language, "text")
        listed = re.findall(r"^([\w.-]+)/ ", block.code, re.MULTILINE)
        there = [path.name for path in ROOT.iterdir()
                 if path.is_dir() and not path.name.startswith(".")
                 and path.name != "build"]
        self.assertEqual(sorted(listed), sorted(there))

    def test_paths(self):
        prose = re.sub(r"^```.*?^```$", "", TEXT,
                       flags=re.DOTALL | re.MULTILINE)
        paths = re.findall(r"\]\(([^)#:]+)\)", prose)
        paths += re.findall(r"`(?:\./)?([\w.-]+/[\w./-]+)`", prose)
        self.assertGreater(len(paths), 5)
        for path in paths:
            if path.startswith("build/"):  # made by the commands
                continue
            with self.subTest(path=path):
                self.assertTrue((ROOT / path).exists())


if __name__ == "__main__":
    unittest.main()
