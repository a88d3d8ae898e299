"""Goal: the Node.js client that client/README.md prints works as it stands.

Method: runs it against a real server and compares what the server has counted.
"""

import pathlib
import subprocess
import tempfile
import unittest

from clients.foreign_client import ForeignClientTest
from clients.peers import find_node
from readme.blocks import client_block
from testing.server_process import ROOT

NODE, NODE_MODULES = find_node()


class NodeClientTest(ForeignClientTest, unittest.TestCase):

    def block(self):
        return client_block("js")

    def run_client(self, code):
        with tempfile.TemporaryDirectory() as directory:
            folder = pathlib.Path(directory)
            (folder / "node_modules").symlink_to(NODE_MODULES)
            file = folder / "client.mjs"
            file.write_text(code)
            return subprocess.run([NODE, file], cwd=ROOT, text=True,
                                  errors="replace", capture_output=True,
                                  timeout=60, check=False)


del ForeignClientTest  # is no test by itself

if __name__ == "__main__":
    unittest.main()
