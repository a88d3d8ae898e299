"""A real server for a test: started on free ports, stopped in order."""

import os
import pathlib
import re
import subprocess
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN_DIR = pathlib.Path(
    os.environ.get("STEADYSTATE_BIN_DIR", ROOT / "build/release/bin"))
DEMO_MODEL = ROOT / "deploy/models/demo"


class ServerProcess:
    """Runs steadystate-server within a `with` block.

    grpc and metrics are where it listens, "127.0.0.1:PORT". Leaving the block
    sends SIGTERM and fails the test unless the server then exits with 0.

    >>> with ServerProcess() as server:
    ...     subprocess.run([BIN_DIR / "steadystate", "health",
    ...                     "--address", server.grpc], check=True)
    """

    def __init__(self, *flags, model=DEMO_MODEL, timeout_s=60):
        self._command = [
            str(BIN_DIR / "steadystate-server"), "--model", str(model),
            "--listen", "127.0.0.1:0", "--metrics_listen", "127.0.0.1:0",
            *flags,
        ]
        self._timeout_s = timeout_s
        self._stderr = None  # its log, unless a test sets another

    def __enter__(self):
        self._log = tempfile.TemporaryFile(mode="w+")
        self._stderr = self._stderr or self._log
        self._process = subprocess.Popen(
            self._command, cwd=ROOT, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=self._stderr)
        try:
            self.grpc, self.metrics = self._wait_until_ready()
        except BaseException:
            self._process.kill()
            self._process.wait()
            self._close()
            raise
        return self

    def __exit__(self, error_type, error, traceback):
        try:
            self._process.terminate()
            try:
                code = self._process.wait(self._timeout_s)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
                code = "none within %d s of SIGTERM" % self._timeout_s
            if error is None and code != 0:
                raise AssertionError(
                    f"the server's exit status: {code}\n{self.log()}")
        finally:
            self._close()

    @property
    def pid(self):
        return self._process.pid

    def log(self):
        """What the server has written to standard error so far."""
        self._log.seek(0)
        return self._log.read()

    def _wait_until_ready(self):
        watchdog = threading.Timer(self._timeout_s, self._process.kill)
        watchdog.start()
        try:
            line = self._process.stdout.readline()
        finally:
            watchdog.cancel()
        found = re.fullmatch(r"listening grpc=(\S+) metrics=(\S+)\n", line)
        if not found:
            raise AssertionError(
                f"the server did not start: {line!r}\n{self.log()}")
        return found.groups()

    def _close(self):
        self._process.stdout.close()
        self._log.close()
