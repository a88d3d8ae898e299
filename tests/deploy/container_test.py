"""Goal: the image holds what it should and runs as operators run it.

Method: builds the image from the Dockerfile, looks through its file system,
and runs it on a real engine with no more rights than it needs. The release of
Debian is the Dockerfile's own, or STEADYSTATE_DEBIAN_RELEASE.
"""

import contextlib
import functools
import io
import json
import os
import pathlib
import re
import subprocess
import tarfile
import time
import unittest
import urllib.request

from testing import docker
from testing.docker import docker_output
from testing.elf import missing_guards
from testing.skip import skip

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = "usr/share/steadystate/models/demo/"
PROGRAMS = {"usr/local/bin/steadystate-server", "usr/local/bin/steadystate"}
# What these load from beside themselves, when a model asks for it.
MODULES = {"usr/local/bin/steadystate-sentencepiece.so"}
MAX_BYTES = 200 * 2**20
# The first build compiles the server; later ones find it in the cache.
BUILD_TIMEOUT_S = 3000
# What an engine gives a container to stop before it kills it.
DEFAULT_STOP_GRACE_S = 10
# The least rights that anybody may give it: another user than the image's too.
HARDENED = ("--read-only", "--cap-drop", "ALL", "--security-opt",
            "no-new-privileges", "--user", "12345:54321", "--memory", "1g",
            "--pids-limit", "256")

IMAGE = docker.unique_name()


def setUpModule():
    unittest.addModuleCleanup(docker.docker, "image", "rm", "--force", IMAGE)
    release = os.environ.get("STEADYSTATE_DEBIAN_RELEASE")
    arguments = ["--build-arg", f"DEBIAN_RELEASE={release}"] if release else []
    start = time.monotonic()
    docker_output("build", "--tag", IMAGE, "--build-arg", "REVISION=under-test",
                  *docker.build_flags(), *arguments, str(ROOT),
                  timeout_s=BUILD_TIMEOUT_S)
    print("built in %d s: %.1f MiB, %s" % (
        time.monotonic() - start, docker.inspect(IMAGE, ".Size") / 2**20,
        re.search('PRETTY_NAME="(.*)"', read_file("etc/os-release"))[1]))


@functools.cache
def file_system():
    """The files of a container before it runs: names to (entry, content)."""
    name = docker_output("create", IMAGE)
    try:
        exported = subprocess.run(
            ["docker", "export", name], capture_output=True, check=True)
    finally:
        docker_output("rm", name)
    files = {}
    with tarfile.open(fileobj=io.BytesIO(exported.stdout)) as archive:
        for entry in archive:
            content = archive.extractfile(entry) if entry.isfile() else None
            files[entry.name.rstrip("/")] = (
                entry, content.read() if content else b"")
    return files


def read_file(name):
    return file_system()[name][1].decode()


def run_image(*arguments):
    """Runs a container with these arguments of the image to its end."""
    return docker.docker("run", "--rm", "--network", "none", *HARDENED, IMAGE,
                         *arguments)


class ImageTest(unittest.TestCase):
    """What the image is made of."""

    def test_is_small(self):
        self.assertLess(docker.inspect(IMAGE, ".Size"), MAX_BYTES)

    def test_runs_as_nobody_special(self):
        self.assertEqual(docker.inspect(IMAGE, ".Config.User"), "65532:65532")
        self.assertRegex(read_file("etc/passwd"), r"(?m)^\w+:x:65532:65532:")

    def test_labels_say_what_it_is(self):
        labels = docker.inspect(IMAGE, ".Config.Labels")
        prefix = "org.opencontainers.image."
        self.assertEqual(labels[prefix + "title"], "Steadystate")
        self.assertEqual(labels[prefix + "licenses"], "Apache-2.0")
        self.assertEqual(labels[prefix + "revision"], "under-test")
        self.assertTrue(labels[prefix + "description"])
        version = run_image("--version").stdout.split()
        self.assertEqual(version,
                         ["steadystate-server", labels[prefix + "version"]])

    def test_only_our_programs_can_be_executed(self):
        programs = {
            name for name, (entry, content) in file_system().items()
            if entry.isfile() and entry.mode & 0o111 and
            not re.search(r"\.so(\.|$)", name) and content}
        self.assertEqual(programs, PROGRAMS)

    def test_modules_lie_beside_the_programs(self):
        beside = {name for name, (entry, _) in file_system().items()
                  if name.startswith("usr/local/bin/") and entry.isfile()}
        self.assertEqual(beside - PROGRAMS, MODULES)
        for name in MODULES:
            self.assertTrue(file_system()[name][0].mode & 0o004, name)

    def test_our_programs_have_guards_against_overruns(self):
        for name in ("steadystate-server", "steadystate"):
            content = file_system()[f"usr/local/bin/{name}"][1]
            self.assertEqual(missing_guards(content), set(), name)
        # The module calls no function that FORTIFY would replace.
        content = file_system()["usr/local/bin/steadystate-sentencepiece.so"][1]
        self.assertLessEqual(missing_guards(content), {"FORTIFY"})

    def test_nothing_is_left_of_the_build(self):
        left = [name for name in file_system() if re.search(
            r"(^|/)(src|include|apt|cmake|python3?)/|\.(h|cc|o|a|py|so)$"
            r"|(^|/)(ba|da)?sh$", name)]
        self.assertEqual(sorted(set(left) - MODULES), [])

    def test_nobody_gains_rights_by_a_file(self):
        files = file_system()
        self.assertEqual([name for name, (entry, _) in files.items()
                          if entry.mode & 0o6000], [])
        writable = {name for name, (entry, _) in files.items()
                    if not entry.issym() and entry.mode & 0o002}
        # The engine adds the devices of a terminal.
        self.assertEqual({name for name in writable
                          if not name.startswith("dev/")},
                         {"tmp", "var/lib/steadystate"})

    def test_everybody_can_read_the_model(self):
        for name in ("config.json", "model.safetensors", "MODEL_CARD.md"):
            entry, content = file_system()[MODEL + name]
            self.assertTrue(entry.mode & 0o004, name)
            self.assertEqual(
                content, (ROOT / "deploy/models/demo" / name).read_bytes())

    def test_libraries_are_on_record(self):
        """Each library is from a package that is recorded with its licence."""
        records = {name.rpartition("/")[2]: content.decode()
                   for name, (entry, content) in file_system().items()
                   if name.startswith("var/lib/dpkg/status.d/")}
        for package, record in records.items():
            self.assertRegex(record, r"(?m)^Version: \S", package)
            self.assertTrue(read_file(f"usr/share/doc/{package}/copyright"))
        # A sample by name: Debian renames the packages with each version.
        for library in ("libc6", "libgrpc", "libdnnl", "libstdc++", "libssl",
                        "libsentencepiece"):
            self.assertTrue([name for name in records
                             if name.startswith(library)], library)
        self.assertIn("Apache License",
                      read_file("usr/share/doc/steadystate/LICENSE"))
        self.assertIn("NVIDIA CORPORATION",
                      read_file("usr/share/doc/steadystate/NOTICE"))
        # The same packages, and our programs, in the SPDX document.
        document = json.loads(
            read_file("usr/share/doc/steadystate/sbom.spdx.json"))
        self.assertEqual(
            {package["name"] for package in document["packages"]},
            {name.rpartition("/")[2] for name in records} | {"steadystate"})


class CommandTest(unittest.TestCase):
    """What the arguments of `docker run` do."""

    def test_help(self):
        done = run_image("--help")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("--state_memory", done.stdout)

    def test_wrong_flag_is_an_error(self):
        done = run_image("--no_such_flag=1")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no_such_flag", done.stderr)

    def test_argument_replaces_the_demo_model(self):
        done = run_image("--model", "/no/such/model")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/no/such/model", done.stderr)

    def test_command_line_instead_of_the_server(self):
        done = docker.docker("run", "--rm", "--network", "none", *HARDENED,
                             "--entrypoint", "steadystate", IMAGE, "health")
        self.assertEqual(done.returncode, 3, done.stderr)


class ServerTest(unittest.TestCase):
    """A server that runs with its defaults and as few rights as possible."""

    @classmethod
    def setUpClass(cls):
        stack = contextlib.ExitStack()
        cls.addClassCleanup(stack.close)
        cls.network = stack.enter_context(docker.network())
        cls.server = stack.enter_context(docker.container(
            *HARDENED, "--network", cls.network, "--network-alias", "server",
            "--publish", "127.0.0.1::9464", IMAGE))
        docker.wait_until_healthy(cls.server)

    def execute(self, *command):
        return docker.docker("exec", self.server, *command)

    def metrics(self):
        port = docker_output("port", self.server, "9464").rpartition(":")[2]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics",
                                    timeout=30) as response:
            return response.read().decode()

    def generated_tokens(self):
        found = re.search(
            r'(?m)^steadystate_tokens_total{[^}]*kind="generated"[^}]*} (\S+)$',
            self.metrics())
        return float(found[1]) if found else 0.0

    def test_generates_where_it_runs(self):
        before = self.generated_tokens()
        done = self.execute("steadystate", "generate", "--prompt", "The ",
                            "--max_tokens", "20", "--ignore_eos", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(json.loads(done.stdout)["tokens"]), 20)
        self.assertEqual(self.generated_tokens() - before, 20)

    def test_is_found_by_its_name(self):
        done = docker.docker(
            "run", "--rm", *HARDENED, "--network", self.network,
            "--entrypoint", "steadystate", IMAGE, "score", "--address",
            "server:50051", "--text", "The database is open.")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_name_that_does_not_exist(self):
        done = self.execute("steadystate", "health", "--address", "nowhere:1")
        self.assertEqual(done.returncode, 3, done.stdout)

    def test_health_check_is_the_images_own(self):
        check = docker.inspect(IMAGE, ".Config.Healthcheck.Test")
        self.assertEqual(check[0], "CMD")
        self.assertEqual(self.execute(*check[1:]).returncode, 0)
        done = docker.docker("exec", "--env", "STEADYSTATE_ADDRESS=127.0.0.1:1",
                             self.server, *check[1:])
        self.assertEqual(done.returncode, 3)

    def test_kernels_are_chosen_at_run_time(self):
        """A processor of another kind gets the kernels that it can run."""
        with docker.container(*HARDENED, "--network", "none", "--env",
                              "ONEDNN_MAX_CPU_ISA=SSE41", IMAGE) as old:
            docker.wait_until_healthy(old)
            done = docker.docker("exec", old, "steadystate", "generate",
                                 "--max_tokens", "3", "--prompt", "The ")
            self.assertEqual(done.returncode, 0, done.stderr)


class StopTest(unittest.TestCase):
    """`docker stop`, which sends SIGTERM to the server as process 1."""

    def check_stops(self, server):
        start = time.monotonic()
        docker_output("stop", server)
        self.assertEqual(docker.inspect(server, ".State.ExitCode"), 0,
                         docker.docker("logs", server).stderr)
        self.assertLess(time.monotonic() - start, DEFAULT_STOP_GRACE_S)

    def test_idle(self):
        with docker.container(*HARDENED, "--network", "none", IMAGE) as server:
            docker.wait_until_healthy(server)
            self.check_stops(server)

    def test_within_a_request(self):
        """A text without end is cut short, and its client is told."""
        with docker.container(*HARDENED, "--network", "none", IMAGE) as server:
            docker.wait_until_healthy(server)
            client = subprocess.Popen(
                ["docker", "exec", server, "steadystate", "generate",
                 "--prompt", "The ", "--max_tokens", "none", "--ignore_eos"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE)
            try:
                self.assertTrue(client.stdout.read(1))
                self.check_stops(server)
            finally:
                client.kill()
                client.communicate()


class StoreTest(unittest.TestCase):
    """Sessions on a volume, which the next container goes on with."""

    def setUp(self):
        self.volume = docker_output("volume", "create")
        self.addCleanup(docker.docker, "volume", "rm", self.volume)

    def container(self, *arguments):
        return docker.container(
            *HARDENED, "--network", "none", "--user", "12345:12345",
            "--volume", f"{self.volume}:/var/lib/steadystate", IMAGE,
            "--store", "/var/lib/steadystate/store", *arguments)

    def execute(self, server, *command):
        done = docker.docker("exec", server, "steadystate", *command)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def generate(self, server, session, tokens, *prompt):
        done = self.execute(
            server, "generate", "--session", session, "--max_tokens",
            str(tokens), "--ignore_eos", "--seed", "7", "--json", *prompt)
        return json.loads(done)["tokens"]

    def test_sessions_outlive_their_container(self):
        with self.container() as server:
            docker.wait_until_healthy(server)
            for session in ("whole", "parts"):
                self.execute(server, "session", "create", "--id", session)
            prompt = ("--prompt", "The ")
            whole = self.generate(server, "whole", 30, *prompt)
            tokens = self.generate(server, "parts", 10, *prompt)
            docker_output("stop", server)
            self.assertEqual(docker.inspect(server, ".State.ExitCode"), 0)
        with self.container("--hibernate_after", "1s") as server:
            docker.wait_until_healthy(server)
            tokens += self.generate(server, "parts", 20)
            self.assertEqual(tokens, whole)
            while "HIBERNATED" not in self.execute(server, "session", "get",
                                                   "parts"):
                time.sleep(0.1)
            docker_output("kill", server)
        with self.container() as server:
            docker.wait_until_healthy(server)
            listed = self.execute(server, "session", "list")
            self.assertEqual(
                [line.split()[0] for line in listed.splitlines()],
                ["sessions/parts", "sessions/whole"])


if __name__ == "__main__":
    missing = docker.why_no_engine()
    if missing:
        skip(missing)
    unittest.main(verbosity=2)
