"""Goal: the Python package is installed by pip, from an sdist too, works with
the newest gRPC and protobuf, and is what its types say.

Method: a venv in build/clients/python, kept for the next time, gets the newest
packages and then ours, from the wheel of an sdist that stands apart from the
repository. All suites run there; mypy judges the package and its example. The
descriptions that the oldest and the newest protoc make are both read by both.
Skips, with pip's word, where pip brings nothing.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from client.python.environment import (EXAMPLE, PACKAGE, copy_package,
                                       describe_protos, run, run_suites)
from testing.server_process import ROOT
from testing.skip import skip

VENV = ROOT / "build/clients/python"
PYTHON = VENV / "bin/python"
DEBIAN = pathlib.Path("/usr/bin/python3")
NEEDS = ("build", "grpcio", "grpcio-tools", "jinja2", "mypy", "protobuf",
         "setuptools", "types-grpcio", "types-protobuf", "wheel")

READ = """
import steadystate._wire as wire
print(wire.enum_values("steadystate.v1.ErrorReason"), wire.v1.Session())
"""
USER = """
from steadystate import AsyncClient, Client, Session

def use(client: Client) -> str:
    session: Session = client.create_session(ttl=5)
    session.generate("a", max_tokens="b")  # type: ignore[arg-type]
    session.nothing()  # type: ignore[attr-defined]
    return "".join(part.text for part in session.generate("a", max_tokens=3))

async def use_async(client: AsyncClient) -> int | None:
    session = await client.create_session()
    position: str = session.position  # type: ignore[assignment]
    async for part in session.generate([1, 2]):
        print(part.tokens[0].token + 1)
    return (await session.step([1])).sampled_token
"""


def make_venv():
    """Makes the venv, or takes up the one that is there and complete."""
    done = VENV / "complete"
    if done.exists() and done.read_text() == repr(NEEDS):
        return
    shutil.rmtree(VENV, ignore_errors=True)
    made = subprocess.run([sys.executable, "-m", "venv", VENV], text=True,
                          capture_output=True, check=False)
    if made.returncode != 0:
        skip(f"no venv here: {made.stdout}{made.stderr}")
    try:
        brought = run(PYTHON, "-m", "pip", "install", "--quiet", "--retries",
                      "0", "--timeout", "20", "--disable-pip-version-check",
                      *NEEDS, text=True, capture_output=True, check=False,
                      timeout=120)
    except subprocess.TimeoutExpired:
        skip("pip brings nothing within 120 s")
    if brought.returncode != 0:
        skip("pip brings no packages: " + brought.stderr.strip()[-300:])
    done.write_text(repr(NEEDS))


def output_of(*arguments, **keywords):
    done = run(PYTHON, *arguments, text=True, capture_output=True, check=False,
               timeout=120, **keywords)
    if done.returncode != 0:
        raise AssertionError(f"{arguments}: {done.returncode}\n{done.stdout}"
                             f"{done.stderr}")
    return done.stdout


def install_from_sdist():
    """Puts the package into the venv, by way of an sdist and its wheel."""
    with tempfile.TemporaryDirectory() as folder:
        output_of("-m", "build", "--no-isolation", "--outdir", folder, PACKAGE)
        wheel, = pathlib.Path(folder).glob("*.whl")
        output_of("-m", "pip", "install", "--quiet", "--force-reinstall",
                  "--no-deps", "--no-index", wheel)


class InstalledTest(unittest.TestCase):

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def test_all_suites(self):
        self.assertEqual(run_suites(PYTHON), 0)

    def test_types(self):
        cache = ROOT / "build/clients/mypy"
        output_of("-m", "mypy", f"--cache-dir={cache}", "--strict",
                  "--python-version=3.11", "-p", "steadystate", cwd=self.folder)
        # Strict also about an exception that is none.
        user = pathlib.Path(self.folder, "user.py")
        user.write_text(USER)
        output_of("-m", "mypy", f"--cache-dir={cache}", "--strict", EXAMPLE,
                  user, cwd=self.folder)

    def test_the_build_leaves_nothing_in_the_sources(self):
        found = {path.name for path in PACKAGE.rglob("*")}
        self.assertFalse(found & {"build", "dist", "proto"}, found)
        self.assertFalse([name for name in found
                          if name.endswith(".egg-info")])

    def test_metadata(self):
        shown = output_of("-m", "pip", "show", "steadystate")
        self.assertIn("License: Apache-2.0", shown)
        self.assertIn("Requires: grpcio, protobuf", shown)

    def test_the_oldest_protobuf_reads_what_the_newest_protoc_writes(self):
        if not DEBIAN.exists() or run(
                DEBIAN, "-c", "import grpc", check=False,
                capture_output=True).returncode != 0:
            self.skipTest("no Debian Python with gRPC here")
        copy_package(self.folder, PYTHON)  # by grpcio-tools
        self.assertIn("REPLAY_UNAVAILABLE", run(
            DEBIAN, "-c", READ, path=[self.folder], text=True,
            capture_output=True, check=True).stdout)

    def test_the_newest_protobuf_reads_what_the_oldest_protoc_writes(self):
        if shutil.which("protoc") is None:
            self.skipTest("no protoc here")
        # Debian's Python has no grpcio-tools, and so takes the protoc that the
        # server is built with.
        copy_package(self.folder, DEBIAN if DEBIAN.exists() else PYTHON)
        written = pathlib.Path(self.folder, "steadystate/protos.binpb")
        newest = pathlib.Path(self.folder, "newest")
        describe_protos(PYTHON, newest)
        self.assertGreater(written.stat().st_size, 10_000)
        self.assertIn("REPLAY_UNAVAILABLE", output_of(
            "-c", READ, path=[self.folder]))


if __name__ == "__main__":
    make_venv()
    install_from_sdist()
    unittest.main()
