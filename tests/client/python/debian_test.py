"""Goal: the Python package works with Debian's gRPC and protobuf, without pip.

Method: lays its sources beside a description of the protos and runs all suites
of this folder with Debian's Python.
"""

import sys
import tempfile

from client.python.environment import copy_package, run_suites
from clients.peers import find_python

if __name__ == "__main__":
    PYTHON = find_python()
    with tempfile.TemporaryDirectory() as FOLDER:
        copy_package(FOLDER, PYTHON)
        sys.exit(run_suites(PYTHON, [FOLDER]))
