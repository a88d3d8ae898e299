"""Goal: behind nginx, as deploy/nginx has it, the server works for clients and
is not reached by what gRPC's own HTTP/2 does not bear.

Method: Debian's nginx with the shipped file, ports replaced by free ones,
before a real server; real clients and raw bytes go through it.
"""

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

from testing import http2
from testing.scrape import value
from testing.server_process import BIN_DIR, ROOT, ServerProcess
from testing.skip import skip

CONFIG = ROOT / "deploy/nginx/steadystate.conf"
NGINX = (shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin") or
         skip("no nginx here; deploy/install-packages --tests brings it"))
STEP = b"/steadystate.v1.GenerationService/Step"
WATCH = b"/grpc.health.v1.Health/Watch"

# What Debian's nginx.conf has around the file.
AROUND = """
daemon off;
pid {folder}/pid;
error_log stderr error;
worker_processes 4;
{user}
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  include {folder}/steadystate.conf;
}}
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def replaced(text, old, new):
    if len(re.findall(rf"^[^#\n]*{re.escape(old)}", text, re.M)) != 1:
        raise AssertionError(f"{CONFIG}: not one directive with {old}")
    return re.sub(rf"^([^#\n]*){re.escape(old)}", rf"\g<1>{new}", text,
                  flags=re.M)


class Nginx:
    """Runs nginx before a server within a `with` block; address is where."""

    def __init__(self, upstream, max_conns=4096):
        self._upstream = upstream
        self._max_conns = max_conns

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory()
        folder = self._folder.name
        self.address = f"127.0.0.1:{free_port()}"
        text = replaced(CONFIG.read_text(), "127.0.0.1:50051", self._upstream)
        text = replaced(text, "127.0.0.1:50052", self.address)
        text = replaced(text, "max_conns=4096", f"max_conns={self._max_conns}")
        with open(f"{folder}/steadystate.conf", "w") as file:
            file.write(text)
        with open(f"{folder}/nginx.conf", "w") as file:
            file.write(AROUND.format(
                folder=folder, user="user root;" if os.geteuid() == 0 else ""))
        self._process = subprocess.Popen(
            [NGINX, "-e", "stderr", "-p", folder, "-c", f"{folder}/nginx.conf"],
            stdin=subprocess.DEVNULL)
        self._wait_until_it_listens()
        return self

    def _wait_until_it_listens(self):
        host, port = self.address.split(":")
        deadline = time.monotonic() + 60
        while True:
            try:
                return socket.create_connection((host, int(port))).close()
            except ConnectionRefusedError:
                if (time.monotonic() > deadline or
                        self._process.poll() is not None):
                    raise
                time.sleep(0.02)

    def __exit__(self, *error):
        self._process.terminate()
        self._process.wait(60)
        self._folder.cleanup()


def wait_for_headers(connection):
    """Reads until an answer begins, whichever."""
    with connection.makefile("rb") as received:
        while True:
            head = received.read(9)
            if len(head) < 9:
                raise AssertionError("closed without an answer")
            received.read(int.from_bytes(head[:3], "big"))
            if head[3] == http2.HEADERS:
                return


class NginxTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(ServerProcess(
            "--max_connections", "512", "--max_connections_per_peer", "512",
            "--state_memory", "64MiB"))
        cls.nginx = cls.enterClassContext(Nginx(cls.server.grpc))

    @classmethod
    def steadystate(cls, *arguments):
        """What the command line prints that asks through nginx."""
        result = subprocess.run(
            [BIN_DIR / "steadystate", *arguments, "--address",
             cls.nginx.address], text=True, capture_output=True, timeout=120,
            check=False)
        if result.returncode != 0:
            raise AssertionError(f"{arguments}: {result.stderr}")
        return result.stdout

    def connect(self, nginx=None):
        host, port = (nginx or self.nginx).address.split(":")
        connection = socket.create_connection((host, int(port)), timeout=60)
        self.addCleanup(connection.close)
        connection.sendall(http2.PREFACE + http2.frame(http2.SETTINGS, 0, 0))
        return connection

    def send_until_closed(self, connection, chunks):
        try:
            for chunk in chunks:
                connection.sendall(chunk)
        except ConnectionError:
            pass

    def metric(self, name):
        return value(self.server.metrics, name)

    def test_serves_every_kind_of_call(self):
        self.assertIn("SERVING", self.steadystate("health"))
        generated = self.steadystate("generate", "--prompt", "The ",
                                     "--max_tokens", "20")
        self.assertNotEqual(generated.strip(), "")
        for rpc in ("step", "generate"):
            report = self.steadystate(
                "load", "--rpc", rpc, "--sessions", "4", "--duration", "1s",
                "--warmup", "0s")
            self.assertRegex(report, r"errors +none")

    def test_streams_may_pause_and_be_long(self):
        """As the file says it: nginx' own 60 s would be long for a test."""
        directives = dict(re.findall(r"^  (\w+) ([^;]+);", CONFIG.read_text(),
                                     re.M))
        for name in ("client_body_timeout", "grpc_read_timeout",
                     "grpc_send_timeout"):
            self.assertEqual(directives[name], "24h", name)
        self.assertEqual(directives["client_max_body_size"], "0")

    def test_a_giant_header_does_not_reach_the_server(self):
        counted = ("process_cpu_seconds_total",
                   "steadystate_grpc_connections_accepted_total")
        cpu_s, connections = [self.metric(name) for name in counted]
        # nginx takes its bytes, keeps none and opens no connection for it.
        self.send_until_closed(self.connect(), http2.giant_header(64 << 20))
        self.assertLess(self.metric(counted[0]) - cpu_s, 2)
        self.assertEqual(self.metric(counted[1]), connections)
        self.assertIn("SERVING", self.steadystate("health"))

    def test_all_workers_together_keep_to_max_conns(self):
        """Calls that last, on connections that any worker may take."""
        name = "steadystate_grpc_connections_accepted_total"
        before = self.metric(name)
        with Nginx(self.server.grpc, max_conns=2) as nginx:
            connections = [self.connect(nginx) for _ in range(32)]
            for connection in connections:
                connection.sendall(
                    http2.frame(http2.HEADERS, http2.END_HEADERS, 1,
                                http2.request_headers(WATCH)) +
                    http2.frame(http2.DATA, http2.END_STREAM, 1, bytes(5)))
            for connection in connections:
                wait_for_headers(connection)
        self.assertEqual(self.metric(name) - before, 2)

    def test_resets_leave_no_memory_behind(self):
        before = self.metric("process_resident_memory_bytes")
        connection = self.connect()
        batch, count = 100, 20000
        self.send_until_closed(
            connection, (http2.resets(1 + 2 * i, batch, STEP)
                         for i in range(0, count, batch)))
        self.steadystate("health")
        grown = self.metric("process_resident_memory_bytes") - before
        # By the server's own port they leave 17 KiB each.
        self.assertLess(grown, 64 << 20)
        self.assertIn("SERVING", self.steadystate("health"))


if __name__ == "__main__":
    unittest.main()
