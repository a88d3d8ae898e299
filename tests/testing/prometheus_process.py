"""A real Prometheus for a test, with the shipped configuration."""

import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading
import urllib.error
import urllib.parse
import urllib.request

from testing.server_process import ROOT

CONFIG_DIR = ROOT / "deploy/prometheus"
# Two scrapes and an evaluation are there after a second and a half.
INTERVAL_S = 0.5


def _replace_once(text, old, new):
    if text.count(old) != 1:
        raise AssertionError(
            f"prometheus.yml has {old!r} {text.count(old)} times, not once")
    return text.replace(old, new)


class PrometheusProcess:
    """Runs prometheus within a `with` block, on a free port.

    The configuration is the shipped one but for its target and its intervals.
    """

    def __init__(self, target, timeout_s=60):
        self._target = target
        self._timeout_s = timeout_s
        self._process = None
        self._told = threading.Event()  # that it is ready, or has ended
        self._ready = False
        self._address = None

    def __enter__(self):
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="prometheus_"))
        self._log = []
        try:
            self._write_config()
            self._start()
            self._wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error):
        if self._process is not None:
            self._stop()
        shutil.rmtree(self._folder)

    def get(self, path, **parameters):
        """The "data" of an answer of the HTTP API; errors say the query."""
        url = f"http://{self._address}/api/v1/{path}"
        body = urllib.parse.urlencode(parameters, doseq=True)
        try:
            with urllib.request.urlopen(f"{url}?{body}", timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            detail = error.read().decode(errors="replace")
            raise AssertionError(f"{path} {parameters}: {detail}") from error

    def query(self, expression):
        """The samples of an instant vector or a scalar: [(labels, value)]."""
        data = self.get("query", query=expression)
        if data["resultType"] == "scalar":
            return [({}, float(data["result"][1]))]
        return [(sample["metric"], float(sample["value"][1]))
                for sample in data["result"]]

    def _write_config(self):
        config = (CONFIG_DIR / "prometheus.yml").read_text()
        config = _replace_once(config, "server:9464", self._target)
        for interval in "scrape_interval", "evaluation_interval":
            config = _replace_once(
                config, f"\n  {interval}: 5s\n",
                f"\n  {interval}: {INTERVAL_S * 1000:.0f}ms\n")
        (self._folder / "prometheus.yml").write_text(config)
        shutil.copy(CONFIG_DIR / "rules.yml", self._folder)

    def _start(self):
        self._process = subprocess.Popen(
            ["prometheus", f"--config.file={self._folder}/prometheus.yml",
             f"--storage.tsdb.path={self._folder}/data",
             "--web.listen-address=127.0.0.1:0"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read_log)
        self._reader.start()

    # Reads to the end: prometheus would block once the pipe is full.
    def _read_log(self):
        for line in self._process.stderr:
            self._log.append(line)
            found = re.search(r'msg="Listening on".* address=(\S+)', line)
            if found:
                self._address = found.group(1)
            if "Server is ready to receive web requests" in line:
                self._ready = True
            # These come in either order.
            if self._ready and self._address:
                self._told.set()
        self._told.set()

    def _wait_until_ready(self):
        self._told.wait(self._timeout_s)
        if not (self._ready and self._address):
            raise AssertionError("prometheus did not start:\n" +
                                 "".join(self._log[-20:]))

    def _stop(self):
        self._process.terminate()
        try:
            self._process.wait(self._timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._process.stderr.close()
