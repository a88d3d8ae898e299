"""Snapshots of sessions: from a file to the server, and back."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, TypeAlias

from . import _wire
from ._transport import Transport
from .errors import SnapshotRejected

# Bytes of a snapshot, or the path of a file that has them.
Source: TypeAlias = bytes | str | os.PathLike[str]

# The server takes 1 MiB.
_CHUNK_BYTES = 512 << 10


async def send_snapshot(transport: Transport, source: Source,
                        first: _wire.Message, timeout: float | None) -> Any:
    """Imports a snapshot and gives the Session; `first` is what else the first
    message has. One chunk at a time is in memory."""
    file = (io.BytesIO(source) if isinstance(source, bytes)
            else open(source, "rb"))
    with file:
        first.snapshot_bytes = file.seek(0, os.SEEK_END)
        file.seek(0)

        async def requests() -> AsyncIterator[Any]:
            message = first
            while chunk := await asyncio.to_thread(file.read, _CHUNK_BYTES):
                message.chunk = chunk
                yield message
                message = _wire.v1.ImportSessionRequest()
            if message is first:  # an empty file, of which the server tells
                yield message

        return await transport.once("ImportSession", requests(), timeout)


async def receive_snapshot(transport: Transport, request: _wire.Message,
                           file: Any, timeout: float | None) -> int:
    """Writes a snapshot to a file; gives the session's position in it."""
    position, wanted, written = 0, None, 0
    async with aclosing(transport.messages("ExportSession", request,
                                           timeout)) as messages:
        async for message in messages:
            if wanted is None:
                position, wanted = message.position, message.snapshot_bytes
            await asyncio.to_thread(file.write, message.chunk)
            written += len(message.chunk)
    if written != wanted:
        raise SnapshotRejected(
            f"{written} bytes of {wanted} came", code="DATA_LOSS")
    return position
