"""Goal: what is installed serves others: find_package(Steadystate) finds it,
a program outside the tree is built with it and talks to a real server, as does
the one of client/README.md, and programs come without what it takes to develop.
Method: `cmake --install` into a temporary folder, by component;
tests/client/consumer is built against it.
"""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

from readme.blocks import CLIENT_README, read_blocks
from testing.server_process import BIN_DIR, ROOT, ServerProcess

BUILD_DIR = BIN_DIR.parent
CONSUMER = ROOT / "tests/client/consumer"


def run(*command):
    """Runs a command and returns its standard output."""
    done = subprocess.run([str(word) for word in command], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise AssertionError("%s ended with %d:\n%s" % (
            command, done.returncode, done.stdout))
    return done.stdout


def cached(name):
    """A value of the build's cache."""
    for line in (BUILD_DIR / "CMakeCache.txt").read_text().splitlines():
        if line.startswith(name + ":"):
            return line.partition("=")[2]
    raise AssertionError("the build's cache has no " + name)


def files_of(prefix):
    return sorted(str(path.relative_to(prefix))
                  for path in prefix.rglob("*") if path.is_file())


def readme_program(address):
    """The example of client/README.md, as a whole program."""
    code = next(block.code for block in read_blocks(CLIENT_README.read_text())
                if block.language == "cpp").replace("127.0.0.1:50051", address)
    head, begin, body = code.partition("using ")
    return f"{head}int main() {{\n{begin}{body}}}\n"


class InstallTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.prefix = self.directory / "prefix"

    def install(self, component):
        run("cmake", "--install", BUILD_DIR, "--prefix", self.prefix,
            "--component", component)

    def test_programs_come_alone(self):
        self.install("runtime")
        self.assertEqual(files_of(self.prefix), [
            "bin/steadystate", "bin/steadystate-sentencepiece.so",
            "bin/steadystate-server"])
        self.assertIn("steadystate ",
                      run(self.prefix / "bin/steadystate", "version"))

    def test_manuals_and_completions_come_where_they_are_looked_for(self):
        self.install("documentation")
        installed = files_of(self.prefix)
        documents = [path for path in installed
                     if path.startswith("share/doc/steadystate/")]
        self.assertIn("share/doc/steadystate/server/rpc/README.md", documents)
        self.assertEqual([path for path in installed
                          if path not in documents], sorted(
            place for name in ("steadystate", "steadystate-server")
            for place in (
                f"share/bash-completion/completions/{name}",
                f"share/fish/vendor_completions.d/{name}.fish",
                f"share/man/man1/{name}.1",
                f"share/zsh/vendor-completions/_{name}")))
        manual = (self.prefix / "share/man/man1/steadystate.1").read_text()
        self.assertTrue(manual.startswith(".TH STEADYSTATE 1 "))
        run("bash", "-n", self.prefix /
            "share/bash-completion/completions/steadystate-server")

    def test_others_build_with_the_library(self):
        self.install("development")
        headers = [path for path in files_of(self.prefix)
                   if path.startswith("include/steadystate/")
                   and path.count("/") == 2]
        self.assertEqual(headers, [
            "include/steadystate/" + name + ".h"
            for name in ("call", "client", "error", "step_stream")])
        source = shutil.copytree(CONSUMER, self.directory / "consumer")
        with open(source / "CMakeLists.txt", "a") as project:
            project.write("add_executable(readme readme.cc)\n"
                          "target_link_libraries(readme PRIVATE "
                          "Steadystate::client)\n")
        build = self.directory / "build"
        with ServerProcess() as server:
            (source / "readme.cc").write_text(readme_program(server.grpc))
            run("cmake", "-S", source, "-B", build, "-G", "Ninja",
                "-DCMAKE_PREFIX_PATH=%s" % self.prefix,
                "-DCMAKE_CXX_COMPILER=" + cached("CMAKE_CXX_COMPILER"),
                "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror")
            run("cmake", "--build", build)
            self.assertEqual(
                run(build / "consumer", server.grpc, "some text"),
                "position 9\n")
            self.assertEqual(run(build / "readme"), "3\n")


if __name__ == "__main__":
    unittest.main()
