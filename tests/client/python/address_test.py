"""Goal: an address is what people mean by it, or is refused with the form to
use before anything is sent.

Method: each form on its own, and one of them against a real server.
"""

import unittest

import grpc

import steadystate
from steadystate._address import read_address
from testing.server_process import ServerProcess


class AddressTest(unittest.TestCase):

    def test_forms_that_people_write(self):
        for text, address in (
                ("localhost", "localhost:50051"),
                ("10.0.0.1:80", "10.0.0.1:80"),
                (":50052", "127.0.0.1:50052"),
                ("50052", "127.0.0.1:50052"),
                ("http://host:50051/", "host:50051"),
                ("grpc://host", "host:50051"),
                ("[::1]", "[::1]:50051"),
                ("[::1]:7", "[::1]:7"),
                ("unix:/run/socket", "unix:/run/socket"),
                ("dns:///host:50051", "dns:///host:50051")):
            self.assertEqual(read_address(text), address, text)

    def test_what_is_none_is_refused_with_the_form_to_use(self):
        for text, why in (
                ("", "give HOST:PORT"), ("a b", "give HOST:PORT"),
                ("host/path", "give HOST:PORT"),
                ("ftp://host", "give HOST:PORT"),
                ("::1", "brackets"), ("host:0", "1 to 65535"),
                ("70000", "1 to 65535"), ("host:", "1 to 65535"),
                ("https://host", "credentials=")):
            with self.assertRaisesRegex(ValueError, why, msg=text):
                read_address(text)

    def test_a_client_with_credentials_may_be_told_https(self):
        self.assertEqual(read_address("https://host:443", encrypted=True),
                         "host:443")
        with steadystate.Client(
                "https://host:443",
                credentials=grpc.ssl_channel_credentials()) as client:
            self.assertEqual(client.address, "host:443")

    def test_a_client_reads_it(self):
        with ServerProcess() as server:
            port = server.grpc.rsplit(":", 1)[1]
            with steadystate.Client(f"http://127.0.0.1:{port}/") as client:
                self.assertTrue(client.model().name)
        with self.assertRaisesRegex(ValueError, "is not the address"):
            steadystate.Client("host:port")


if __name__ == "__main__":
    unittest.main()
