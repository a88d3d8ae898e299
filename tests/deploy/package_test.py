"""Goal: the Debian package has what it takes to run the server as a service.

Method: cpack makes it of the programs that were built; its list and its control
file are read, it is unpacked, and the programs are run from there.
"""

import functools
import pathlib
import re
import subprocess
import tempfile
import unittest

from testing.server_process import BIN_DIR, ROOT

BUILD_DIR = BIN_DIR.parent
DIRECTORY = tempfile.TemporaryDirectory()


def setUpModule():
    unittest.addModuleCleanup(DIRECTORY.cleanup)


def output_of(*command):
    done = subprocess.run([str(word) for word in command], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=300)
    if done.returncode != 0:
        raise AssertionError("%s ended with %d:\n%s" % (
            command, done.returncode, done.stdout))
    return done.stdout


@functools.cache
def package():
    output_of("cpack", "--config", BUILD_DIR / "CPackConfig.cmake", "-G", "DEB",
              "-B", DIRECTORY.name)
    [found] = pathlib.Path(DIRECTORY.name).glob("*.deb")
    return found


@functools.cache
def unpacked():
    root = pathlib.Path(DIRECTORY.name) / "root"
    output_of("dpkg-deb", "-x", package(), root)
    return root


class PackageTest(unittest.TestCase):

    def test_says_what_it_is_and_needs(self):
        def field(name):
            return output_of("dpkg-deb", "-f", package(), name).strip()
        version = re.search(r"project\(steadystate VERSION ([\d.]+)",
                            (ROOT / "CMakeLists.txt").read_text())[1]
        self.assertEqual(field("Package"), "steadystate")
        self.assertEqual(field("Version"), version)
        self.assertIn("libgrpc++", field("Depends"))
        self.assertIn("librocksdb", field("Depends"))

    def test_has_programs_unit_and_model(self):
        names = {str(path.relative_to(unpacked()))
                 for path in unpacked().rglob("*") if path.is_file()}
        for name in ("usr/bin/steadystate-server", "usr/bin/steadystate",
                     "usr/bin/steadystate-sentencepiece.so",
                     "usr/lib/systemd/system/steadystate.service",
                     "etc/default/steadystate",
                     "usr/share/steadystate/models/demo/model.safetensors",
                     "usr/share/doc/steadystate/copyright",
                     "usr/share/doc/steadystate/NOTICE",
                     "usr/share/man/man1/steadystate.1",
                     "usr/share/man/man1/steadystate-server.1",
                     "usr/share/bash-completion/completions/steadystate"):
            self.assertIn(name, names)
        self.assertFalse([name for name in names if name.endswith((".h", ".a"))])

    def test_its_documents_lead_to_each_other(self):
        root = unpacked() / "usr/share/doc/steadystate"
        documents = list(root.rglob("*.md"))
        for name in ("README.md", "CHANGELOG.md", "client/README.md",
                     "server/session/LOG.md"):
            self.assertIn(root / name, documents)
        for document in documents:
            links = re.findall(r"\]\(([^)#:]+\.md|LICENSE)[)#]",
                               document.read_text())
            for link in links:
                self.assertTrue((document.parent / link).is_file(),
                                f"{document.relative_to(root)}: {link}")

    def test_its_programs_run(self):
        for program in ("steadystate-server --version", "steadystate version"):
            name, argument = program.split()
            self.assertIn("steadystate",
                          output_of(unpacked() / "usr/bin" / name, argument))

    def test_its_unit_names_what_is_there(self):
        unit = (unpacked() / "usr/lib/systemd/system/steadystate.service")
        start = re.search("^ExecStart=(.*)$", unit.read_text(), re.M)[1].split()
        self.assertTrue((unpacked() / start[0].lstrip("/")).is_file())
        defaults = (unpacked() / "etc/default/steadystate").read_text()
        model = re.search("^STEADYSTATE_MODEL=(.*)$", defaults, re.M)[1]
        self.assertTrue((unpacked() / model.lstrip("/") / "config.json").is_file())
        # The time to stop is longer than what the server takes by default.
        flags = output_of(BIN_DIR / "steadystate-server", "--help")
        budget = sum(int(re.search(
            rf"--{name} .*?Default (\d+)s?\.", flags, re.DOTALL)[1])
            for name in ("drain_lag", "drain_timeout", "drain_budget"))
        stop = re.search(r"^TimeoutStopSec=(\d+)$", unit.read_text(), re.M)[1]
        self.assertGreater(int(stop), budget)


if __name__ == "__main__":
    unittest.main()
