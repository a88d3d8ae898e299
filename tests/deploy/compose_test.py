"""Goal: compose.yaml fits the image, the programs and the files it mounts.

Method: reads it as YAML and compares it with what it names; and, where there
are an engine and Compose, runs the server and its load from it. Prometheus and
Grafana run with them if the images of the file are on this machine already:
nothing is pulled, and the images that are absent are printed.
"""

import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest
import urllib.request

from testing import docker
from testing import yaml_file
from testing.skip import SKIPPED, skip

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = DEPLOY / "compose.yaml"
BIN_DIR = pathlib.Path(
    os.environ.get("STEADYSTATE_BIN_DIR", ROOT / "build/release/bin"))
OUR_IMAGE = "${STEADYSTATE_IMAGE:-steadystate}"
UNITS = {"k": 2**10, "m": 2**20, "g": 2**30,
         "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def services():
    return yaml_file.load(COMPOSE)["services"]


def byte_count(text):
    number, unit = re.fullmatch(r"(\d+)([A-Za-z]+)", text).groups()
    return int(number) * UNITS[unit]


def seconds(text):
    return int(re.fullmatch(r"(\d+)s", text)[1])


def mounts(service):
    """The mounts from the repository: path within the container to ours."""
    result = {}
    for volume in service.get("volumes", []):
        source, target, *mode = volume.split(":")
        if source.startswith("."):
            if mode != ["ro"]:
                raise AssertionError(f"{volume} can be written")
            result[target] = (DEPLOY / source).resolve()
    return result


def help_of(program, *command):
    return subprocess.run([BIN_DIR / program, *command, "--help"], check=True,
                          capture_output=True, text=True).stdout


class EveryServiceTest(unittest.TestCase):
    """What holds of every service."""

    def check_each(self, check):
        for name, service in services().items():
            with self.subTest(name):
                check(service)

    def test_what_there_is(self):
        self.assertEqual(set(services()),
                         {"server", "load", "prometheus", "grafana"})

    def test_versions_are_pinned(self):
        def check(service):
            if service["image"] != OUR_IMAGE:
                self.assertRegex(service["image"],
                                 r"^[\w/-]+:v?\d+\.\d+\.\d+$")

        self.check_each(check)

    def test_ports_are_this_machines_alone(self):
        def check(service):
            for port in service.get("ports", []):
                self.assertRegex(port, r"^127\.0\.0\.1:\$\{\w+:-\d+\}:\d+$")

        self.check_each(check)

    def test_rights_and_resources_are_bounded(self):
        def check(service):
            self.assertIs(service["read_only"], True)
            self.assertEqual(service["cap_drop"], ["ALL"])
            self.assertIn("no-new-privileges:true", service["security_opt"])
            self.assertGreater(byte_count(service["mem_limit"]), 0)
            self.assertGreater(service["pids_limit"], 0)
            self.assertGreater(seconds(service["stop_grace_period"]), 0)
            self.assertIn("max-size", service["logging"]["options"])

        self.check_each(check)

    def test_what_is_mounted_exists_and_cannot_be_written(self):
        def check(service):
            for path in mounts(service).values():
                self.assertTrue(path.exists(), path)

        self.check_each(check)


class WiringTest(unittest.TestCase):
    """What services and files say about one another."""

    def test_memory_holds_all_that_is_bounded(self):
        """The bounds are those that README.md lists."""
        server = services()["server"]
        command = server["command"]
        states = command[command.index("--state_memory") + 1]
        model = sum(path.stat().st_size
                    for path in (DEPLOY / "models/demo").glob("*.safetensors"))
        clients = (4 * 256 + 1024 + 512) * 2**20
        for bound in ("`--max_outbound_bytes` (256 MiB)", "| 256 MiB, or 16",
                      "| 256 MiB |", "| 1 GiB |", "| 512 MiB, or 16"):
            self.assertIn(bound, (DEPLOY / "README.md").read_text())
        self.assertGreaterEqual(
            byte_count(server["mem_limit"]),
            1.03 * byte_count(states) + 2 * model + 50 * 2**20 + clients)

    def test_server_may_finish_its_requests_and_store_its_sessions(self):
        server = services()["server"]
        drain = sum(self.drain_seconds(server["command"], flag)
                    for flag in ("lag", "timeout", "budget"))
        self.assertGreaterEqual(drain, 15)
        self.assertGreaterEqual(seconds(server["stop_grace_period"]),
                                drain + 10)

    def drain_seconds(self, command, flag):
        """Of --drain_lag and the like: what is given, or the default."""
        if f"--drain_{flag}" in command:
            return seconds(command[command.index(f"--drain_{flag}") + 1])
        default = re.search(
            rf"--drain_{flag} DURATION\n(?:      .*\n)*?.*Default (\d+)s?\.\n",
            help_of("steadystate-server"))
        return int(default[1])

    def test_sessions_are_kept_on_a_volume(self):
        server = services()["server"]
        command = server["command"]
        volume, _, target = server["volumes"][0].partition(":")
        self.assertTrue(
            command[command.index("--store") + 1].startswith(target + "/"))
        self.assertIn(volume, yaml_file.load(COMPOSE)["volumes"])

    def test_server_publishes_the_ports_of_the_image(self):
        exposed = re.search(r"(?m)^EXPOSE (.*)$",
                            (ROOT / "Dockerfile").read_text())[1].split()
        self.assertEqual([port.rpartition(":")[2]
                          for port in services()["server"]["ports"]], exposed)

    def test_load_takes_its_flags(self):
        """Wrong flags end with 2; with right ones the server is missed."""
        load = services()["load"]
        program, *command = load["entrypoint"]
        flags = load["command"]
        self.assertIn("--address=server:50051", flags)
        done = subprocess.run(
            [BIN_DIR / program, *command, *flags, "--address=127.0.0.1:1"],
            capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 3, done.stderr)

    def test_load_waits_for_the_server(self):
        self.assertEqual(services()["load"]["depends_on"],
                         {"server": {"condition": "service_healthy"}})

    def test_prometheus_scrapes_the_server(self):
        prometheus = services()["prometheus"]
        flags = dict(flag.split("=", 1) for flag in prometheus["command"])
        path = pathlib.PurePosixPath(flags["--config.file"])
        config = yaml_file.load(
            mounts(prometheus)[str(path.parent)] / path.name)
        targets = [target for job in config["scrape_configs"]
                   for group in job["static_configs"]
                   for target in group["targets"]]
        self.assertEqual(targets, ["server:9464"])
        self.assertIn("prometheus:" + flags["--storage.tsdb.path"],
                      prometheus["volumes"])

    def test_grafana_asks_prometheus(self):
        mounted = mounts(services()["grafana"])
        folder = mounted["/etc/grafana/provisioning"] / "datasources"
        sources = [source for path in folder.glob("*.yml")
                   for source in yaml_file.load(path)["datasources"]]
        self.assertEqual([source["url"] for source in sources],
                         ["http://prometheus:9090"])

    def test_grafana_finds_the_dashboard(self):
        grafana = services()["grafana"]
        mounted = mounts(grafana)
        folder = mounted["/etc/grafana/provisioning"] / "dashboards"
        providers = [provider for path in folder.glob("*.yml")
                     for provider in yaml_file.load(path)["providers"]]
        self.assertEqual(len(providers), 1)
        home = grafana["environment"][
            "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
        self.assertEqual(mounted[home], DEPLOY / "grafana/steadystate.json")
        self.assertEqual(str(pathlib.PurePosixPath(home).parent),
                         providers[0]["options"]["path"])

    def test_grafana_lets_everybody_look_and_nobody_log_in(self):
        environment = services()["grafana"]["environment"]
        self.assertEqual(environment["GF_AUTH_ANONYMOUS_ORG_ROLE"], "Viewer")
        self.assertEqual(environment["GF_AUTH_BASIC_ENABLED"], "false")
        self.assertEqual(
            environment["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"], "true")


def compose_command():
    """Compose as a plugin of docker or, on Debian 12, a program; or None."""
    if shutil.which("docker") and docker.docker(
            "compose", "version").returncode == 0:
        return ["docker", "compose"]
    return ["docker-compose"] if shutil.which("docker-compose") else None


def others_present():
    """Prometheus and Grafana, less those whose images are not here."""
    present = []
    for name in ("prometheus", "grafana"):
        image = services()[name]["image"]
        if docker.docker("image", "inspect", image).returncode == 0:
            present.append(name)
        else:
            print(f"not run: {name}, for the image {image} is absent",
                  flush=True)
    return present


class RunTest(unittest.TestCase):
    """The services that can run here, run from the file as it is."""

    def setUp(self):
        missing = docker.why_no_engine()
        self.command = compose_command()
        if missing is None and self.command is None:
            missing = "Compose is not installed"
        if missing:
            self.skipTest(missing)
        self.project = docker.unique_name()
        image = docker.unique_name()
        self.environment = {
            **os.environ, "STEADYSTATE_IMAGE": image, "STEADYSTATE_PORT": "0",
            "STEADYSTATE_METRICS_PORT": "0", "PROMETHEUS_PORT": "0",
            "GRAFANA_PORT": "0"}
        self.addCleanup(docker.docker, "image", "rm", "--force", image)
        docker.docker_output("build", "--tag", image, *docker.build_flags(),
                             str(ROOT), timeout_s=3000)

    def compose(self, *arguments):
        done = subprocess.run(
            [*self.command, "--file", COMPOSE, "--project-name", self.project,
             *arguments], env=self.environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout.strip()

    def get(self, service, port, path):
        """What a service answers, or nothing while it does not."""
        published = self.compose("port", service, port).rpartition(":")[2]
        url = f"http://127.0.0.1:{published}/{path}"
        try:
            with urllib.request.urlopen(url, timeout=30) as response:
                return response.read().decode()
        except (OSError, http.client.HTTPException):
            return ""

    def wait_for(self, condition, what):
        docker.wait_until(condition, 60,
                          lambda: what + "\n" + self.compose("logs"))

    def tokens_come(self):
        found = re.search(
            r'^steadystate_tokens_total{[^}]*kind="generated"[^}]*} (\S+)$',
            self.get("server", "9464", "metrics"), re.MULTILINE)
        return found and float(found[1]) > 500

    def server_is_up(self):
        """Whether Prometheus has scraped the one target, with success."""
        answer = self.get("prometheus", "9090",
                          "api/v1/query?query=up")
        if not answer:
            return False
        return [(sample["metric"]["instance"], sample["value"][1])
                for sample in json.loads(answer)["data"]["result"]
                ] == [("server:9464", "1")]

    def dashboard_is_there(self):
        """Whether Grafana is well and somebody without a name can find it."""
        health = self.get("grafana", "3000", "api/health")
        found = self.get("grafana", "3000", "api/search?query=Steadystate")
        return (health and json.loads(health)["database"] == "ok" and found and
                [one["uid"] for one in json.loads(found)] == ["steadystate"])

    def test_services_run_together_and_ours_end_in_order(self):
        others = others_present()
        with contextlib.ExitStack() as stack:
            stack.callback(self.compose, "down", "--volumes")
            self.compose("up", "--detach", "server", "load", *others)
            self.wait_for(self.tokens_come, "tokens under load")
            if "prometheus" in others:
                self.wait_for(self.server_is_up, "a server that is up")
            if "grafana" in others:
                self.wait_for(self.dashboard_is_there, "the dashboard")
            containers = {name: self.compose("ps", "--quiet", name)
                          for name in ("load", "server", *others)}
            for name, container in containers.items():
                self.assertEqual(docker.inspect(container, ".RestartCount"), 0,
                                 name)
            self.compose("stop")
            for name in "load", "server":
                self.assertEqual(
                    docker.inspect(containers[name], ".State.ExitCode"), 0,
                    docker.docker("logs", containers[name]))


if __name__ == "__main__":
    if not yaml_file.available():
        skip("the package python3-yaml is not installed")
    program = unittest.main(verbosity=2, exit=False)
    skipped = [reason for _, reason in program.result.skipped]
    if program.result.wasSuccessful() and skipped:
        print(f"skipped in part: {skipped[0]}")
        sys.exit(SKIPPED)
    sys.exit(not program.result.wasSuccessful())
