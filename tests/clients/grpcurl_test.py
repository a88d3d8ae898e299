"""Goal: grpcurl, which knows our services by reflection only, can use them.

Method: the real program against a real server with the demo model.
"""

import json
import subprocess
import unittest

from clients.peers import find_program
from testing.server_process import ROOT, ServerProcess

GRPCURL = find_program("grpcurl")


class GrpcurlTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(ServerProcess())

    def grpcurl(self, *arguments, data=None):
        command = [GRPCURL, "-plaintext", "-max-time", "30"]
        if data is not None:
            command += ["-d", json.dumps(data)]
        return subprocess.run(
            [*command, self.server.grpc, *arguments], cwd=ROOT, text=True,
            capture_output=True, timeout=60, check=False)

    def messages(self, *arguments, **keywords):
        """What a call answers, as a list of parsed messages."""
        result = self.grpcurl(*arguments, **keywords)
        self.assertEqual(result.returncode, 0, result.stderr)
        decoder, rest, messages = json.JSONDecoder(), result.stdout.strip(), []
        while rest:
            message, end = decoder.raw_decode(rest)
            messages.append(message)
            rest = rest[end:].lstrip()
        return messages

    def create_session(self, session_id):
        name = self.messages("steadystate.v1.SessionService/CreateSession",
                             data={"session_id": session_id})[0]["name"]
        self.addCleanup(
            self.messages, "steadystate.v1.SessionService/DeleteSession",
            data={"name": name})
        return name

    def test_lists_the_services(self):
        result = self.grpcurl("list")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.split(), [
            "grpc.health.v1.Health",
            "grpc.reflection.v1alpha.ServerReflection",
            "inference.GRPCInferenceService",
            "steadystate.v1.GenerationService",
            "steadystate.v1.ModelService",
            "steadystate.v1.SessionService",
        ])

    def test_describes_services_and_messages(self):
        service = self.grpcurl("describe", "steadystate.v1.GenerationService")
        self.assertEqual(service.returncode, 0, service.stderr)
        self.assertIn("rpc StreamStep ( stream .steadystate.v1."
                      "StreamStepRequest ) returns ( stream .steadystate.v1."
                      "StreamStepResponse );", service.stdout)
        message = self.grpcurl("describe", "steadystate.v1.StepRequest")
        self.assertEqual(message.returncode, 0, message.stderr)
        self.assertIn("optional uint64 expected_position = 4;", message.stdout)

    def test_reflection_can_be_turned_off(self):
        with ServerProcess("--reflection=false") as server:
            result = subprocess.run(
                [GRPCURL, "-plaintext", server.grpc, "list"], text=True,
                capture_output=True, timeout=60, check=False)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("server does not support the reflection API",
                      result.stderr)

    def test_asks_for_health(self):
        for service in ("", "steadystate.v1.GenerationService"):
            self.assertEqual(
                self.messages("grpc.health.v1.Health/Check",
                              data={"service": service}),
                [{"status": "SERVING"}])

    def test_reads_a_generation(self):
        session = self.create_session("generation")
        messages = self.messages(
            "steadystate.v1.GenerationService/Generate",
            data={"session": session, "text": "The ", "max_tokens": 20,
                  "ignore_eos": True})
        tokens = [token["token"] for message in messages
                  for token in message.get("tokens", [])]
        self.assertEqual(len(tokens), 20)
        last = messages.pop()
        self.assertEqual(last["finish_reason"], "LENGTH")
        self.assertEqual(last["position"], "24")
        self.assertEqual(last["usage"]["prompt_tokens"], "4")
        self.assertEqual(last["usage"]["generated_tokens"], "20")
        self.assertTrue(all("usage" not in message for message in messages))

    def test_steps_on_a_stream(self):
        session = self.create_session("stream")
        steps = "".join(json.dumps(
            {"request_id": str(i),
             "step": {"session": session, "tokens": {"ids": [65 + i]},
                      "expected_position": i}}) for i in range(3))
        result = subprocess.run(
            [GRPCURL, "-plaintext", "-d", "@", self.server.grpc,
             "steadystate.v1.GenerationService/StreamStep"], input=steps,
            text=True, capture_output=True, timeout=60, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        for i in range(3):
            self.assertIn(f'"request_id": "{i}"', result.stdout)
        self.assertEqual(
            self.messages("steadystate.v1.SessionService/GetSession",
                          data={"name": session})[0]["position"], "3")

    def test_shows_the_reason_of_an_error(self):
        result = self.grpcurl("steadystate.v1.SessionService/GetSession",
                              data={"name": "sessions/never-made"})
        self.assertEqual(result.returncode, 64 + 5, result.stderr)  # NOT_FOUND
        self.assertIn("Code: NotFound", result.stderr)
        self.assertIn('"@type": "type.googleapis.com/google.rpc.ErrorInfo"',
                      result.stderr)
        self.assertIn('"reason": "SESSION_NOT_FOUND"', result.stderr)
        self.assertIn('"domain": "steadystate"', result.stderr)


if __name__ == "__main__":
    unittest.main()
