"""A Docker engine for tests: images, networks and containers that go away."""

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import time
import uuid

# Docker's own answers; what takes longer hangs.
_TIMEOUT_S = 120


def docker(*arguments, timeout_s=_TIMEOUT_S):
    """Runs docker and gives its exit status and output, whatever it is."""
    return subprocess.run(["docker", *arguments], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=timeout_s,
                          check=False)


def docker_output(*arguments, timeout_s=_TIMEOUT_S):
    """The standard output of docker, which must succeed."""
    done = docker(*arguments, timeout_s=timeout_s)
    if done.returncode != 0:
        raise AssertionError(f"docker {shlex.join(arguments)}: exit status "
                             f"{done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def why_no_engine():
    """A sentence that says what is missing, or nothing if an engine answers."""
    if shutil.which("docker") is None:
        return "docker is not installed"
    answer = docker("version", "--format", "{{.Server.Os}}")
    if answer.returncode != 0:
        return "no Docker engine answers: " + answer.stderr.strip()
    if answer.stdout.strip() != "linux":
        return f"the engine runs {answer.stdout.strip()} containers, not Linux"
    return None


def unique_name():
    return "steadystate-test-" + uuid.uuid4().hex[:12]


def build_flags():
    """Flags that a build needs on this engine.

    STEADYSTATE_DOCKER_BUILD_FLAGS may name more. An engine without its default
    bridge gives builds no network but the host's.
    """
    networks = docker_output("network", "ls", "--format", "{{.Name}}").split()
    flags = [] if "bridge" in networks else ["--network", "host"]
    return flags + shlex.split(
        os.environ.get("STEADYSTATE_DOCKER_BUILD_FLAGS", ""))


@contextlib.contextmanager
def network():
    """A network of its own, where containers find each other by name."""
    name = unique_name()
    docker_output("network", "create", name)
    try:
        yield name
    finally:
        docker_output("network", "rm", name)


@contextlib.contextmanager
def container(*arguments):
    """Starts `docker run --detach ARGUMENTS`, gives its id, removes it."""
    name = unique_name()
    try:
        yield docker_output("run", "--detach", "--name", name, *arguments)
    finally:
        docker("rm", "--force", "--volumes", name)


def inspect(name, template):
    """What a template of `docker inspect` gives, from JSON."""
    return json.loads(
        docker_output("inspect", "--format", "{{json %s}}" % template, name))


def wait_until(condition, timeout_s, what):
    """Polls until condition() is true; what may be a function for the error."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("not within %d s: %s" % (
                timeout_s, what() if callable(what) else what))
        time.sleep(0.1)


def wait_until_healthy(name, timeout_s=60):
    def failure():
        log = docker("logs", name)
        return "healthy, but %s\n%s%s" % (
            inspect(name, ".State.Health"), log.stdout, log.stderr)

    wait_until(lambda: inspect(name, ".State.Health.Status") == "healthy",
               timeout_s, failure)
