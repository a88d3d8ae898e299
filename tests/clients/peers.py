"""Where the foreign clients are: in build/clients, or in the PATH."""

import os
import pathlib
import shutil
import subprocess
import sys

from testing.server_process import ROOT
from testing.skip import skip

DIRECTORY = ROOT / "build/clients"  # see tests/clients/install


def find_program(name):
    """The path of a program; skips the test if there is none."""
    path = os.pathsep.join([str(DIRECTORY / "bin"), os.environ["PATH"]])
    return shutil.which(name, path=path) or skip(
        f"no {name} here; tests/clients/install brings it")


def find_python():
    """A Python that has gRPC and protobuf; skips the test if there is none."""
    for python in (sys.executable, "/usr/bin/python3"):
        if pathlib.Path(python).exists() and subprocess.run(
                [python, "-c", "import google.protobuf, grpc"],
                capture_output=True, check=False).returncode == 0:
            return python
    return skip("no Python with gRPC here; "
                "deploy/install-packages --tests brings it")


def find_tritonclients():
    """Where Triton's client is: Pythons, and what to put into their paths.
    Skips the test if it is nowhere."""
    found = []
    for python, path in (
            ("/usr/bin/python3", [DIRECTORY / "tritonclient-debian"]),
            (DIRECTORY / "tritonclient/bin/python", [])):
        if pathlib.Path(python).exists() and subprocess.run(
                [python, "-c", "import tritonclient.grpc.aio"],
                env={**os.environ,
                     "PYTHONPATH": os.pathsep.join(map(str, path))},
                capture_output=True, check=False).returncode == 0:
            found.append((python, path))
        else:
            print(f"no tritonclient for {python}", flush=True)
    return found or skip("no tritonclient here; tests/clients/install "
                         "brings it")


def find_perf_analyzer():
    """The path of perf_analyzer; skips the test if there is none that runs."""
    found = shutil.which("perf_analyzer", path=os.pathsep.join(
        [str(DIRECTORY / "tritonclient/bin"), os.environ["PATH"]]))
    if found is None:
        return skip("no perf_analyzer here; tests/clients/install brings it "
                    "where glibc is 2.38 or later")
    told = subprocess.run([found, "--version"], text=True, capture_output=True,
                          check=False)
    return found if told.returncode == 0 else skip(
        f"perf_analyzer does not run here: {told.stderr.strip()[:200]}")


def find_node():
    """Node.js and the folder of its gRPC packages; skips the test if one of
    them is missing."""
    node = shutil.which("node") or skip("no node here")
    candidates = [DIRECTORY / "node_modules"] + [
        pathlib.Path(path)
        for path in os.environ.get("NODE_PATH", "").split(os.pathsep) if path]
    for modules in candidates:
        if all((modules / "@grpc" / package).is_dir()
               for package in ("grpc-js", "proto-loader")):
            return node, modules
    return skip("Node.js has no @grpc/grpc-js and @grpc/proto-loader here; "
                "tests/clients/install brings them")
