"""Goal: README's Docker commands do what it says.

Method: builds the image as README says, under a name of its own, and runs it on
a real engine, but without a network and so without the published ports, which
are only compared with the image's. `docker compose up` is not carried out:
Compose is asked whether it takes the file (config --quiet). That its services
run is compose_test's, which leaves out those whose images are not there.
Without an engine only what the commands name is checked, and the rest is
skipped.
"""

import re
import shutil
import subprocess
import sys
import unittest

from readme.groups import commands_in
from testing import docker
from testing.server_process import ROOT
from testing.skip import SKIPPED

BUILD_TIMEOUT_S = 3000


def command_that(begins):
    command, = (c for c in commands_in("container") if c.code.startswith(begins))
    return command


class NamesTest(unittest.TestCase):
    """Needs no engine."""

    def test_ports_are_those_of_the_image(self):
        exposed = re.search(r"^EXPOSE (.*)$", (ROOT / "Dockerfile").read_text(),
                            re.MULTILINE).group(1)
        published = re.findall(r"-p 127\.0\.0\.1:(\d+):(\d+) ",
                               command_that("docker run").code)
        self.assertEqual([inner for _, inner in published], exposed.split())

    def test_the_image_that_is_built_is_run(self):
        name = re.fullmatch(r"docker build -t (\S+) \.",
                            command_that("docker build").code).group(1)
        self.assertEqual(command_that("docker run").code.split()[-1], name)
        compose = (ROOT / "deploy/compose.yaml").read_text()
        self.assertIn("image: ${STEADYSTATE_IMAGE:-%s}" % name, compose)

    def test_compose_has_the_file_and_the_ports(self):
        code = command_that("docker compose").code
        file = re.fullmatch(r"docker compose -f (\S+) up", code).group(1)
        self.assertIn("127.0.0.1:${GRAFANA_PORT:-3000}:3000",
                      (ROOT / file).read_text())


@unittest.skipIf(docker.why_no_engine(), docker.why_no_engine() or "")
class EngineTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.image = docker.unique_name()
        cls.addClassCleanup(docker.docker, "image", "rm", "--force", cls.image)
        command = command_that("docker build").code.split()[1:]
        command[command.index("steadystate")] = cls.image
        docker.docker_output(command[0], *docker.build_flags(), *command[1:-1],
                             str(ROOT), timeout_s=BUILD_TIMEOUT_S)

    def test_run(self):
        """Up to the Ctrl-C."""
        command = command_that("docker run")
        name = docker.unique_name()
        arguments = re.sub(r" -p \S+", "", command.code).split()[1:-1]
        process = subprocess.Popen(
            ["docker", *arguments, "--name", name, "--network", "none",
             self.image],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            line = process.stdout.readline()
            self.assertEqual(line, command.expected)
            docker.docker_output("exec", name, "steadystate", "health")
        finally:
            docker.docker("stop", name)
            process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)

    def test_compose_takes_the_file(self):
        command = command_that("docker compose").code.split()
        compose = ["docker", "compose"]
        if docker.docker("compose", "version").returncode != 0:
            compose = ["docker-compose"]
            if not shutil.which(*compose):
                self.skipTest("docker has no compose here")
        done = subprocess.run(
            [*compose, *command[2:-1], "config", "--quiet"], cwd=ROOT,
            capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    program = unittest.main(exit=False)
    if docker.why_no_engine() and program.result.wasSuccessful():
        print(f"skipped: {docker.why_no_engine()}")
        sys.exit(SKIPPED)
    sys.exit(not program.result.wasSuccessful())
