"""Goal: deploy/run says at once what is wrong with its options, before it
installs or builds anything.

Method: the script in a tree of its own, where installing says so and fails.
"""

import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import unittest

from testing.server_process import ROOT


class RunTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        deploy = pathlib.Path(directory.name) / "deploy"
        deploy.mkdir()
        self.script = shutil.copy(ROOT / "deploy/run", deploy)
        installer = deploy / "install-packages"
        installer.write_text("#!/bin/sh\necho installs\nexit 9\n")
        os.chmod(installer, 0o755)

    def run_with(self, *options):
        return subprocess.run([self.script, *options], capture_output=True,
                              text=True, timeout=60, check=False)

    def assert_told(self, options, code, text):
        done = self.run_with(*options)
        self.assertIn(text, done.stderr)
        self.assertEqual(done.returncode, code)
        self.assertEqual(done.stdout, "")

    def test_good_options_go_on_to_installing(self):
        for options in ((), ("--metrics-listen=off",),
                        ("--listen", "localhost:0")):
            done = self.run_with("--listen=127.0.0.1:0",
                                 "--metrics_listen=127.0.0.1:0", *options)
            self.assertEqual(done.stdout, "installs\n", done.stderr)
            self.assertEqual(done.returncode, 9)

    def test_addresses_that_are_none_are_told_with_the_form(self):
        for text, meant in (("50051", "127.0.0.1:50051"),
                            (":50052", "127.0.0.1:50052"),
                            ("localhost", "localhost:50051"),
                            ("http://127.0.0.1:50052/", "127.0.0.1:50052"),
                            ("127.0.0.1:99999", "127.0.0.1:50051"),
                            ("", "127.0.0.1:50051")):
            with self.subTest(text):
                said = f"'{text}' is not HOST:PORT, such as {meant}"
                self.assert_told(("--listen", text), 2, said + "\n")
                if text != "50051":
                    said = said.replace("50051", "9464")
                self.assert_told(("--listen=127.0.0.1:0",
                                  "--metrics-listen=" + text), 2,
                                 said + "; off: no metrics\n")

    def test_addresses_that_cannot_be_had_are_told(self):
        name = 70 * "a"  # too long for one, so that nobody is asked for it
        self.assert_told(("--listen", name + ":5"), 1,
                         f"the name {name} is not known")
        for address in ("192.0.2.1:5", "192.0.2.1:0"):  # of documents
            self.assert_told(("--listen", address), 1,
                             "192.0.2.1 is not an address of this machine")
        self.assert_told(("--listen=127.0.0.1:0", "--metrics_listen=none"), 2,
                         "such as 127.0.0.1:9464; off: no metrics")
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = "127.0.0.1:%d" % free.getsockname()[1]
        self.assert_told(("--listen", address, "--metrics_listen", address), 2,
                         f"are both {address}: give each a port of its own")

    def test_a_port_that_is_taken_is_told(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = "127.0.0.1:%d" % taken.getsockname()[1]
            self.assert_told(("--listen", address), 1, address + " is taken")
            self.assert_told(("--listen=127.0.0.1:0", "--metrics_listen",
                              address), 1, "another with --metrics_listen")

    def test_unknown_options_are_told(self):
        self.assert_told(("--listne", "127.0.0.1:0"), 2,
                         "unknown option --listne")
        self.assert_told(("--prompt",), 2, "--prompt needs a value")
        self.assert_told(("--listen", "--once"), 2,
                         "--listen needs a value, and --once is an option; as "
                         "a value it is written --listen=--once")
        self.assert_told(("--once=no",), 2, "--once takes no value")


if __name__ == "__main__":
    unittest.main()
