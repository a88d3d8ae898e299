"""The messages and methods of the protos, made from their description.

They live in a pool of descriptors of their own: stubs that others have
generated from the same protos, or a google/rpc/status.proto that another
package brings, do not meet them.
"""

from __future__ import annotations

import dataclasses
import importlib.resources
import re
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

# A message: its class is known at run time only.
Message = Any

_FILE = "protos.binpb"


def _read_pool() -> descriptor_pool.DescriptorPool:
    try:
        data = (importlib.resources.files(__package__) / _FILE).read_bytes()
    except FileNotFoundError:
        raise ImportError(
            f"steadystate has no {_FILE}: install the package, with "
            "`pip install ./client/python`, rather than import its sources"
        ) from None
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(data).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


_POOL = _read_pool()
# protobuf 3.21 has no GetMessageClass, and later ones no GetPrototype.
_FACTORY: Any = getattr(message_factory, "MessageFactory", lambda pool: None)(
    _POOL)


def message_class(full_name: str) -> Any:
    """The class of a message, "steadystate.v1.Session". KeyError if there is
    none."""
    descriptor = _POOL.FindMessageTypeByName(full_name)
    make: Any = getattr(message_factory, "GetMessageClass", None)
    return make(descriptor) if make else _FACTORY.GetPrototype(descriptor)


class _Messages:
    """The messages of one proto package, as attributes."""

    def __init__(self, package: str) -> None:
        self._package = package

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        made = message_class(f"{self._package}.{name}")
        setattr(self, name, made)
        return made


v1 = _Messages("steadystate.v1")
rpc = _Messages("google.rpc")


def has_field(message: Message, name: str) -> bool:
    """Whether a message of these protos can have a field: servers and packages
    need not be of one version."""
    return name in message.DESCRIPTOR.fields_by_name


def enum_values(full_name: str) -> dict[str, int]:
    """The values of an enum, "steadystate.v1.ErrorReason", by their names."""
    values = _POOL.FindEnumTypeByName(full_name).values
    return {value.name: value.number for value in values}


@dataclasses.dataclass(frozen=True)
class Method:
    """One RPC. `kind` is what channels call it, "unary_stream"."""
    path: str
    kind: str
    request: Any
    response: Any


def _find_methods(*services: str) -> dict[str, Method]:
    methods = {}
    for name in services:
        service = _POOL.FindServiceByName(name)
        proto = descriptor_pb2.ServiceDescriptorProto()
        service.CopyToProto(proto)
        for method in proto.method:
            sides = (method.client_streaming, method.server_streaming)
            methods[method.name] = Method(
                path=f"/{name}/{method.name}",
                kind="_".join("stream" if s else "unary" for s in sides),
                request=message_class(method.input_type.lstrip(".")),
                response=message_class(method.output_type.lstrip(".")))
    return methods


# By their names, which no two of our services share.
METHODS = _find_methods(
    "steadystate.v1.SessionService", "steadystate.v1.GenerationService",
    "steadystate.v1.ModelService", "grpc.health.v1.Health")


def session_name(id_or_name: str) -> str:
    """ "sessions/{id}" of either form."""
    return _resource("sessions", id_or_name)


def checkpoint_name(id_or_name: str) -> str:
    """ "checkpoints/{id}" of either form."""
    return _resource("checkpoints", id_or_name)


def _resource(kind: str, id_or_name: str) -> str:
    if not isinstance(id_or_name, str):
        raise TypeError(f"{id_or_name!r} is no name: give \"{kind}/ID\" or ID")
    return (id_or_name if re.match(rf"{kind}/", id_or_name)
            else f"{kind}/{id_or_name}")
