"""Goal: what the package's README shows works as it stands.

Method: runs each of its Python blocks against a real server. The one with raw
stubs is run by clients/python_client_test.py.
"""

import inspect
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import steadystate
from client.python.environment import PACKAGE
from readme.blocks import read_blocks
from testing.server_process import ServerProcess

TEXT = (PACKAGE / "README.md").read_text()
ADDRESS = "localhost:50051"


class ReadmeTest(unittest.TestCase):

    def test_every_block_runs(self):
        blocks = [block for block in read_blocks(TEXT)
                  if block.language == "python" and
                  block.section != "Without the package"]
        self.assertEqual(len(blocks), 6)
        with ServerProcess() as server, tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "client.py")
            for block in blocks:
                with self.subTest(section=block.section, line=block.line):
                    self.assertIn(ADDRESS, block.code)
                    file.write_text(block.code.replace(ADDRESS, server.grpc))
                    done = subprocess.run(
                        [sys.executable, "-B", "-X", "utf8", file], text=True,
                        capture_output=True, timeout=60, check=False)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    self.assertTrue(done.stdout.strip())

    def test_every_class_of_errors_is_named(self):
        for name, cls in inspect.getmembers(steadystate, inspect.isclass):
            if issubclass(cls, steadystate.SteadystateError):
                self.assertTrue(re.search(rf"`{name}`", TEXT), name)

    def test_every_call_is_named(self):
        for cls in (steadystate.Client, steadystate.Session):
            for name in vars(cls):
                if not name.startswith("_") and name not in (
                        "address", "close", "multiplexer", "position"):
                    self.assertTrue(re.search(rf"`{name}`", TEXT), name)


if __name__ == "__main__":
    unittest.main()
