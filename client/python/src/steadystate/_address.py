"""What people mean by the address of a server."""

from __future__ import annotations

import re

from ._fields import refuse

DEFAULT_ADDRESS = "127.0.0.1:50051"
_HOST, _PORT = DEFAULT_ADDRESS.rsplit(":", 1)
_FORMS_OF_GRPC = ("unix:", "dns:", "ipv4:", "ipv6:")


def read_address(text: str, *, encrypted: bool = False) -> str:
    """`text` as gRPC takes it: "localhost" is the usual port there, ":50052"
    and "50052" are that port of this machine, "http://host:50051/" is what is
    between. gRPC's own forms, such as "unix:/run/socket", stay as they are.

    Raises ValueError, with the form to use, for what is no address, and for
    "https://..." without credentials."""
    if not isinstance(text, str):
        refuse("address", text, f"a str, such as {DEFAULT_ADDRESS!r},")
    if text.startswith(_FORMS_OF_GRPC):
        return text
    scheme, separator, rest = text.partition("://")
    if not separator:
        rest = text
    elif scheme == "https" and not encrypted:
        raise _no_address(text, "https needs credentials=, and a proxy that "
                          "encrypts; ")
    elif scheme not in ("http", "https", "grpc"):
        raise _no_address(text)
    else:
        rest = rest.removesuffix("/")
    if not rest or re.search(r"[/\s]", rest):
        raise _no_address(text)
    if rest.isascii() and rest.isdecimal():
        rest = ":" + rest
    if ":" not in rest or rest.endswith("]"):
        return f"{rest}:{_PORT}"
    host, port = rest.rsplit(":", 1)
    if ":" in host and not host.startswith("["):
        raise _no_address(text, "an IPv6 address is in brackets; ")
    if not re.fullmatch("[0-9]{1,5}", port) or not 0 < int(port) < 65536:
        raise _no_address(text, "ports are 1 to 65535; ")
    return f"{host or _HOST}:{port}"


def _no_address(text: str, why: str = "") -> ValueError:
    return ValueError(
        f"{text!r} is not the address of a server: {why}give HOST:PORT, such "
        f"as {DEFAULT_ADDRESS}, localhost:50051 or [::1]:50051")
