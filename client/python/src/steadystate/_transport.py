"""Calls over one channel, with errors as this package's."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import Any

import grpc
import grpc.aio

from . import _wire
from .errors import (Cancelled, ClientClosed, ConnectionLost,
                     DeadlineExceeded, SteadystateError, from_rpc_error)
from .retry import Backoff, Retry

_OPTIONS: list[tuple[str, int]] = [
    # What may be repeated, and how, is decided here.
    ("grpc.enable_retries", 0),
    # A proxy that is set for web pages is not meant for a server next door.
    ("grpc.enable_http_proxy", 0),
    # A client is a connection, also if there are several to one server.
    ("grpc.use_local_subchannel_pool", 1),
    # A server that is silent for 30 s is asked for a sign of life.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    # A server that comes back is found within a second, not two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
]

# gRPC tells of a call's end some milliseconds after it was cancelled. Its
# version 1.51 waits for ever, when the program ends, for what it could not tell
# because the event loop had ended before.
_SETTLE_SECONDS = 0.05


class Transport:
    """A channel to one server. Of one event loop, that of its first call."""

    def __init__(self, address: str, *, retry: Retry,
                 credentials: grpc.ChannelCredentials | None,
                 max_message_bytes: int) -> None:
        self.address = address
        self.retry = retry
        self._credentials = credentials
        self._options = [*_OPTIONS,
                         ("grpc.max_receive_message_length", max_message_bytes),
                         ("grpc.max_send_message_length", max_message_bytes)]
        self._channel: grpc.aio.Channel | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._calls: set[Any] = set()  # that have not ended
        self._cancelled_at = -math.inf  # the last one, by the monotonic clock
        self._closed = False
        self._pid = os.getpid()

    def start(self, method: str, request: _wire.Message = None,
              timeout: float | None = None) -> Any:
        """Begins a call and gives gRPC's object for it. A call that takes a
        stream has no `request`, or an iterator of them."""
        how = _wire.METHODS[method]
        open_call = getattr(self._open_channel(), how.kind)(
            how.path, request_serializer=how.request.SerializeToString,
            response_deserializer=how.response.FromString)
        call = (open_call(timeout=timeout) if how.kind == "stream_stream"
                else open_call(request, timeout=timeout))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        return call

    async def once(self, method: str, request: _wire.Message,
                   timeout: float | None = None) -> Any:
        """One try of a call with one answer."""
        call = self.start(method, request, timeout)
        try:
            with self.errors():
                return await call
        finally:
            self.cancel(call)

    async def call(self, method: str, request: _wire.Message, *,
                   timeout: float | None = None,
                   recover: Callable[[SteadystateError],
                                     Awaitable[Any]] | None = None) -> Any:
        """A call with one answer, tried again as `retry` says. `timeout`
        seconds bound all of it.

        REQUIRES: a repeat changes nothing, or fails. In that case `recover`
        looks at the error that came after a try of which nobody knows whether
        it was carried out: it returns what to answer, or raises.
        """
        deadline = Deadline(timeout)
        backoff = Backoff(self.retry)
        in_doubt = False
        while True:
            try:
                return await self.once(method, request, deadline.left())
            except SteadystateError as error:
                wait = backoff.next_wait(error)
                if wait is None:
                    if in_doubt and recover:
                        return await recover(error)
                    raise
                in_doubt = in_doubt or isinstance(error, ConnectionLost)
                await deadline.sleep(wait, error)

    async def collect(self, method: str, request: _wire.Message, *,
                      repeat: bool, timeout: float | None = None) -> list[Any]:
        """All messages of a call that answers with a stream. With `repeat`,
        which is for calls that change nothing, it is tried again."""
        deadline = Deadline(timeout)
        backoff = Backoff(self.retry if repeat else Retry.never())
        while True:
            try:
                return [message async for message in self.messages(
                    method, request, deadline.left())]
            except SteadystateError as error:
                wait = backoff.next_wait(error)
                if wait is None:
                    raise
                await deadline.sleep(wait, error)

    async def messages(
            self, method: str, request: _wire.Message,
            timeout: float | None = None) -> AsyncGenerator[Any, None]:
        """The messages of one try of a call. Whoever leaves it half-read closes
        it, or lets it go: the call is then cancelled."""
        call = self.start(method, request, timeout)
        try:
            while True:
                with self.errors():
                    message = await call.read()
                if message is grpc.aio.EOF:
                    return
                yield message
        finally:
            self.cancel(call)

    def cancel(self, call: Any) -> None:
        """Ends a call, if it has not ended."""
        if call.cancel() or call.cancelled():
            self._cancelled_at = time.monotonic()

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Makes what gRPC raises this package's errors."""
        try:
            yield
        except grpc.RpcError as error:
            raise from_rpc_error(error) from None
        except asyncio.CancelledError:
            # gRPC raises it for calls that end with CANCELLED, whoever ended
            # them. A task that nobody has cancelled must not look so.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            if self._closed:
                raise self._closed_error() from None
            raise Cancelled("the call was cancelled",
                            code="CANCELLED") from None

    async def close(self) -> None:
        """Ends the calls that are under way. May be called again."""
        self._closed = True
        channel, self._channel = self._channel, None
        if channel is None or self._pid != os.getpid():
            return
        calls = list(self._calls)
        for call in calls:
            call.cancel()
        if calls or time.monotonic() - self._cancelled_at < _SETTLE_SECONDS:
            await asyncio.sleep(_SETTLE_SECONDS)
        await channel.close()

    def _closed_error(self) -> ClientClosed:
        return ClientClosed(f"the client of {self.address} has been closed",
                            code="CANCELLED")

    def _open_channel(self) -> grpc.aio.Channel:
        if self._pid != os.getpid():
            raise RuntimeError(
                "this client was made before fork(); gRPC's connections do not "
                "survive that: make a client in each process")
        if self._closed:
            raise self._closed_error()
        loop = asyncio.get_running_loop()
        if self._channel is None:
            self._loop = loop
            self._channel = (
                grpc.aio.insecure_channel(self.address, options=self._options)
                if self._credentials is None else
                grpc.aio.secure_channel(self.address, self._credentials,
                                        options=self._options))
        elif self._loop is not loop:
            raise RuntimeError("this client belongs to another event loop: "
                               "make a client in each")
        return self._channel


class Deadline:
    """What is left of a call's timeout, in seconds."""

    def __init__(self, timeout: float | None) -> None:
        self._end = None if timeout is None else time.monotonic() + timeout

    def left(self) -> float | None:
        """Seconds, at least 0; None: no bound."""
        return (None if self._end is None
                else max(self._end - time.monotonic(), 0.0))

    async def sleep(self, wait: float, error: SteadystateError) -> None:
        """Sleeps before another try, or raises DeadlineExceeded with the error
        of the last one, if there is no time for that."""
        left = self.left()
        if left is not None and left <= wait:
            raise DeadlineExceeded(
                f"the timeout passed before another try; the last one: {error}",
                code="DEADLINE_EXCEEDED") from error
        await asyncio.sleep(wait)
