"""The API for Python: messages that protoc has made, and calls by their names.

Importing this module needs Debian's gRPC for Python: the script starts anew
with an interpreter that has it, or is skipped.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

from clients.peers import find_python
from testing.server_process import ROOT

try:
    import grpc
    import google.protobuf
except ImportError:
    python = find_python()
    os.execv(python, [python, "-B", *sys.argv])

_generated = tempfile.TemporaryDirectory()
subprocess.run(
    ["protoc", "-I", ROOT / "proto", f"--python_out={_generated.name}",
     *(str(path.relative_to(ROOT / "proto"))
       for folder in ("steadystate", "google")
       for path in (ROOT / "proto" / folder).rglob("*.proto"))],
    check=True, timeout=60)
sys.path.insert(0, _generated.name)
# google.rpc joins the installed package `google`.
import google
google.__path__.append(str(pathlib.Path(_generated.name, "google")))

from google.protobuf import empty_pb2
from google.rpc import error_details_pb2, status_pb2
from steadystate.v1 import generation_pb2 as generation
from steadystate.v1 import model_pb2 as model
from steadystate.v1 import session_pb2 as session

GENERATION = "/steadystate.v1.GenerationService/"
SESSIONS = "/steadystate.v1.SessionService/"
MODELS = "/steadystate.v1.ModelService/"
HEALTH = "/grpc.health.v1.Health/Check"
REFLECTION = ("/grpc.reflection.v1alpha.ServerReflection/"
              "ServerReflectionInfo")


def as_bytes(message):
    return message if isinstance(message, bytes) else (
        message.SerializeToString())


class Client:
    """One connection of its own. Requests are messages, or bytes that may be
    none."""

    def __init__(self, address):
        self.channel = grpc.insecure_channel(address, options=[
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_http_proxy", 0),
            ("grpc.max_receive_message_length", -1)])

        def unary(path, response):
            return self.channel.unary_unary(
                path, request_serializer=as_bytes,
                response_deserializer=response.FromString)

        def stream(path, response):
            return self.channel.unary_stream(
                path, request_serializer=as_bytes,
                response_deserializer=response.FromString)

        self.create = unary(SESSIONS + "CreateSession", session.Session)
        self.get = unary(SESSIONS + "GetSession", session.Session)
        self.delete = unary(SESSIONS + "DeleteSession", empty_pb2.Empty)
        self.fork = unary(SESSIONS + "ForkSession",
                          session.ForkSessionResponse)
        self.hibernate = unary(SESSIONS + "HibernateSession",
                               empty_pb2.Empty)
        self.step = unary(GENERATION + "Step", generation.StepResponse)
        self.tokenize = unary(MODELS + "Tokenize", model.TokenizeResponse)
        self.detokenize = unary(MODELS + "Detokenize",
                                model.DetokenizeResponse)
        self.generate = stream(GENERATION + "Generate",
                               generation.GenerateResponse)
        self.score = stream(GENERATION + "Score", generation.ScoreResponse)
        self.embed = stream(GENERATION + "Embed", generation.EmbedResponse)
        self.stream_step = self.channel.stream_stream(
            GENERATION + "StreamStep", request_serializer=as_bytes,
            response_deserializer=generation.StreamStepResponse.FromString)
        self.reflection = self.channel.stream_stream(REFLECTION)
        self._health = self.channel.unary_unary(HEALTH)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def close(self):
        self.channel.close()

    def new_session(self, **fields):
        request = session.CreateSessionRequest()
        request.session.MergeFrom(session.Session(**fields))
        return self.create(request, timeout=20).name

    def delete_session(self, name):
        self.delete(session.DeleteSessionRequest(name=name), timeout=20)

    def position(self, name):
        return self.get(session.GetSessionRequest(name=name),
                        timeout=20).position

    def one_step(self, name, tokens=(65,), timeout=20):
        return self.step(step_request(name, tokens), timeout=timeout)

    def serving(self, timeout=20):
        """Whether the health service says SERVING."""
        return self._health(b"", timeout=timeout) == b"\x08\x01"


def step_request(name, tokens=(65,), **fields):
    return generation.StepRequest(
        session=name, tokens=generation.Tokens(ids=tokens), **fields)


def reason_of(error):
    """The ErrorInfo's reason of a failed call; "" if there is none."""
    details = dict(error.trailing_metadata() or ()).get(
        "grpc-status-details-bin")
    if not details:
        return ""
    return reason_in(status_pb2.Status.FromString(details))


def reason_in(status):
    """The same of an error within a stream."""
    for detail in status.details:
        if detail.type_url.endswith("ErrorInfo"):
            return error_details_pb2.ErrorInfo.FromString(detail.value).reason
    return ""
