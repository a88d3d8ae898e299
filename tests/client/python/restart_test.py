"""Goal: 200 sessions over 4 streams go on through the death of their server,
and each says, to the byte, what it would have said without.

Method: runs the example as it stands against a real server; then again, with a
server that is killed (SIGKILL) when a third of the tokens is drawn, started
again, stopped in order (SIGTERM) at two thirds, and started again.
"""

import signal
import subprocess
import tempfile
import time
import unittest

from client.python.environment import example
from client.python.mortal_server import MortalServer
from testing.scrape import value
from testing.server_process import ServerProcess

SESSIONS, STREAMS, TOKENS = 200, 4, 40
FLAGS = ("--sessions", str(SESSIONS), "--streams", str(STREAMS),
         "--tokens", str(TOKENS))
TIMEOUT_S = 150


def wait_until_drawn(server, client, tokens):
    """Waits for the server to have taken so many steps' tokens."""
    deadline = time.monotonic() + TIMEOUT_S
    while value(server.metrics, "steadystate_tokens_total",
                kind="prompt") < tokens:
        if client.poll() is not None or time.monotonic() > deadline:
            raise AssertionError("the example does not go on: "
                                 f"{client.communicate(timeout=10)}")
        time.sleep(0.01)


class RestartTest(unittest.TestCase):

    def text_of(self, client):
        try:
            out, err = client.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            client.kill()
            self.fail(f"the example hangs: {client.communicate()}")
        self.assertEqual(client.returncode, 0, err)
        self.assertEqual(err, "")
        return out

    def test_sessions_go_on_through_kill_and_stop(self):
        with ServerProcess() as server:
            wanted = self.text_of(example(server.grpc, *FLAGS))
        self.assertEqual(len(set(wanted.splitlines())), SESSIONS)
        store = self.enterContext(tempfile.TemporaryDirectory())
        third = SESSIONS * TOKENS // 3
        flags = ("--store", store)
        with MortalServer(*flags) as server:
            address = server.grpc
            client = example(address, *FLAGS)
            wait_until_drawn(server, client, third)
            self.assertEqual(server.end(signal.SIGKILL), -signal.SIGKILL)
        flags += ("--listen", address)
        with MortalServer(*flags) as server:
            wait_until_drawn(server, client, third)
            self.assertEqual(server.end(signal.SIGTERM), 0)
        with ServerProcess(*flags) as server:
            said = self.text_of(client)
            # It was here that the last third was drawn.
            self.assertGreater(value(server.metrics, "steadystate_tokens_total",
                                     kind="prompt"), 0)
        self.assertEqual(said, wanted)


if __name__ == "__main__":
    unittest.main()
