"""How the tests of the Python package are run by several Pythons."""

import os
import pathlib
import shutil
import subprocess
import sys

from testing.server_process import ROOT

PACKAGE = ROOT / "client/python"
EXAMPLE = PACKAGE / "examples/two_hundred_sessions.py"
# What runs in each of the environments.
SUITES = ("address", "aio", "chat", "client", "errors", "generation",
          "multiplexer", "package", "readme", "restart", "retry", "types")


def copy_package(folder, python):
    """Makes the package as it is when it is installed, without pip: its
    sources and the description of the protos, made by `python`."""
    package = pathlib.Path(folder) / "steadystate"
    shutil.copytree(PACKAGE / "src/steadystate", package,
                    ignore=shutil.ignore_patterns("protos.binpb", "*.pyc"))
    describe_protos(python, package / "protos.binpb")


def describe_protos(python, output):
    subprocess.run([python, "-B", PACKAGE / "describe_protos.py", output],
                   check=True, timeout=60)


def run(python, *arguments, path=(), **keywords):
    """Runs a Python program with these folders in its path."""
    environment = {**os.environ,
                   "PYTHONPATH": os.pathsep.join(map(str, path))}
    return subprocess.run([python, "-B", *map(str, arguments)],
                          env=environment, **keywords)


def run_suites(python, path=()):
    """Runs all suites, their output on ours; gives the exit status."""
    print(f"== {python}", flush=True)
    names = [f"client.python.{suite}_test" for suite in SUITES]
    return run(python, "-W", "error::ResourceWarning", "-m", "unittest",
               *names, path=[*path, ROOT / "tests"], check=False,
               timeout=240).returncode


def example(address, *flags):
    """Starts the example, with the Python and the path of its caller."""
    return subprocess.Popen(
        [sys.executable, "-B", EXAMPLE, address, *flags], text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE)
