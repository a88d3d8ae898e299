"""Goal: the client with raw stubs that client/python/README.md prints works as
it stands.

Method: generates the stubs with the README's own command, runs the client
against a real server, and compares what the server has counted.
"""

import os
import subprocess
import tempfile
import unittest

from clients.foreign_client import ForeignClientTest
from clients.peers import find_python
from readme.blocks import PYTHON_README, client_block, commands_of
from testing.server_process import ROOT

PYTHON = find_python()


def readme_block(language):
    return client_block(language, PYTHON_README, "Without the package")


def generate_stubs(directory):
    """Runs the README's protoc command, into another directory."""
    command, = [command.code for command in commands_of(readme_block("console"))
                if command.code.startswith("protoc ")]
    command = command.replace("build/clients", directory)
    subprocess.run(["bash", "-euc", command], cwd=ROOT, check=True, timeout=60)


class PythonClientTest(ForeignClientTest, unittest.TestCase):

    def block(self):
        return readme_block("python")

    def run_client(self, code):
        with tempfile.TemporaryDirectory() as directory:
            generate_stubs(directory)
            file = os.path.join(directory, "client.py")
            with open(file, "w") as stream:
                stream.write(code)
            return subprocess.run([PYTHON, "-B", file], cwd=ROOT, text=True,
                                  errors="replace", capture_output=True,
                                  timeout=60, check=False)


del ForeignClientTest  # is no test by itself

if __name__ == "__main__":
    unittest.main()
