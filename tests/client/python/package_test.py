"""Goal: the package is the project's, and keeps to itself.

Method: compares versions with the server's; imports it beside other stubs.
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import steadystate
from client.python.environment import EXAMPLE
from testing.server_process import BIN_DIR


class PackageTest(unittest.TestCase):

    def test_the_version_is_the_servers(self):
        said = subprocess.run([BIN_DIR / "steadystate-server", "--version"],
                              text=True, capture_output=True, check=True,
                              timeout=60).stdout
        self.assertIn(steadystate.__version__, said.split())

    def test_all_names_are_there(self):
        for name in steadystate.__all__:
            self.assertTrue(hasattr(steadystate, name), name)

    def test_everything_public_is_documented(self):
        for name in steadystate.__all__:
            thing = getattr(steadystate, name)
            if name != "__version__":
                self.assertTrue(thing.__doc__, name)
            for attribute, member in vars(thing).items() if isinstance(
                    thing, type) else ():
                if not attribute.startswith("_") and (
                        callable(member) or isinstance(member, property)):
                    self.assertTrue(member.__doc__, f"{name}.{attribute}")

    def test_generated_stubs_are_found_beside_it(self):
        with tempfile.TemporaryDirectory() as folder:
            beside = pathlib.Path(folder, "steadystate/v1")
            beside.mkdir(parents=True)
            (beside / "generation_pb2.py").write_text("HERE = True\n")
            said = subprocess.run(
                [sys.executable, "-B", "-c",
                 f"import sys; sys.path.insert(0, {folder!r})\n"
                 "import steadystate\n"
                 "from steadystate.v1 import generation_pb2 as stubs\n"
                 "print(stubs.HERE, steadystate.__version__)"],
                text=True, capture_output=True, timeout=60, check=False)
        self.assertEqual(said.stdout,
                         f"True {steadystate.__version__}\n", said.stderr)

    def test_the_example_is_short(self):
        lines = EXAMPLE.read_text().splitlines()
        self.assertLessEqual(len(lines), 40)
        self.assertLessEqual(max(map(len, lines)), 80)


if __name__ == "__main__":
    unittest.main()
