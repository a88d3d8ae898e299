"""Goal: Triton's own Python client, unmodified, speaks with a server of ours.

Method: runs triton_suite.py against real servers, with an older client on
Debian's gRPC and protobuf, and with the newest of all three, as far as they are
there (tests/clients/install).
"""

import os
import subprocess
import sys

from clients.peers import find_tritonclients
from testing.server_process import ROOT


def run_suite(python, path):
    print(f"== {python}", *path, flush=True)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, [*path, ROOT / "tests"]))}
    return subprocess.run(
        [python, "-B", "-m", "unittest", "clients.triton_suite"],
        cwd=ROOT, env=environment, check=False, timeout=120).returncode


if __name__ == "__main__":
    FAILED = [environment for environment in find_tritonclients()
              if run_suite(*environment) != 0]
    sys.exit(bool(FAILED))
