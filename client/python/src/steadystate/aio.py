"""The client for asyncio."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import grpc

from . import _wire
from ._address import DEFAULT_ADDRESS, read_address
from ._fields import refuse, write_field, write_labels, write_tokens
from ._generation import generate_alone, request_of
from ._session import AsyncSession, embed_of, score_of
from ._snapshot import Source, send_snapshot
from ._transport import Deadline, Transport
from .errors import (AlreadyExists, ConnectionLost, FailedPrecondition,
                     NotFound, SteadystateError)
from .multiplexer import AsyncMultiplexer
from .retry import Backoff, Retry
from .types import (CheckpointInfo, EmbedResult, GeneratePart, ModelInfo,
                    Prompt, Sampling, ScoreResult, SessionInfo, TextPart,
                    WatchPart, read, write_session)


class AsyncClient:
    """A connection to a server.

        async with AsyncClient("127.0.0.1:50051") as client:
            session = await client.create_session()
            async for part in session.generate("The ", max_tokens=100):
                print(part, end="")
            await session.delete()

    address      HOST:PORT, or what people mean by one: "localhost", ":50052",
                 "http://host:50051/"; by default that of STEADYSTATE_ADDRESS,
                 or else 127.0.0.1:50051. ValueError for what is none. Nothing
                 is sent before the first call.
    credentials  for TLS, as grpc.ssl_channel_credentials() makes them; by
                 default none
    retry        what is done about errors that pass by themselves
    max_message_bytes  the largest message either way

    Belongs to the event loop of its first call; within it, any task may use
    it. Calls raise SteadystateError, and take `timeout`, in seconds, for all
    their tries together. Not for use in a process that fork() made after it:
    its calls raise RuntimeError there.
    """

    def __init__(self, address: str | None = None, *,
                 credentials: grpc.ChannelCredentials | None = None,
                 retry: Retry | None = None,
                 max_message_bytes: int = 64 << 20) -> None:
        self._transport = Transport(
            read_address(
                address or os.environ.get("STEADYSTATE_ADDRESS") or
                DEFAULT_ADDRESS, encrypted=credentials is not None),
            retry=Retry() if retry is None else retry,
            credentials=credentials, max_message_bytes=max_message_bytes)
        self._models: dict[str, ModelInfo] = {}
        self._multiplexers: set[AsyncMultiplexer] = set()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.address}>"

    @property
    def address(self) -> str:
        """Where the server is, as gRPC takes it."""
        return self._transport.address

    async def close(self) -> None:
        """Ends what is under way, with ClientClosed, and the connection. May be
        called again."""
        for multiplexer in list(self._multiplexers):
            await multiplexer.close()
        await self._transport.close()

    # -- Sessions

    async def create_session(
            self, session_id: str | None = None, *, ttl: float | None = None,
            labels: Mapping[str, str] | None = None,
            durability: str | None = None, from_checkpoint: str | None = None,
            reuse_prefix: Sequence[int] | None = None,
            context_cap: int | None = None,
            timeout: float | None = None) -> AsyncSession:
        """Creates a session. Without an id the client draws one, so that no
        second session is made where an answer is lost.

        ttl              seconds that it may be idle, 1 to 30 days
        labels           notes of your own
        durability       "NONE", "SHUTDOWN", "LOG" or "SYNC"; needs a store
        from_checkpoint  a checkpoint's name or id: begins as that is
        reuse_prefix     tokens of a prompt, see the proto; Session.position
                         says how many of them need not be sent
        context_cap      most tokens, of a model with softmax layers

        AlreadyExists, BudgetExhausted, NotFound, InvalidArgument,
        FailedPrecondition.
        """
        request = _wire.v1.CreateSessionRequest(
            session_id=session_id or uuid.uuid4().hex)
        write_session(request.session, ttl=ttl, labels=labels,
                      durability=durability, context_cap=context_cap)
        if from_checkpoint is not None:
            request.from_checkpoint = _wire.checkpoint_name(from_checkpoint)
        if reuse_prefix is not None:
            request.reuse_prefix.SetInParent()
            write_tokens(request.reuse_prefix.ids, "reuse_prefix",
                         reuse_prefix)

        async def made_before(error: SteadystateError) -> Any:
            if not isinstance(error, AlreadyExists):
                raise error
            return await self._get(request.session_id, timeout)

        made = await self._transport.call("CreateSession", request,
                                          timeout=timeout, recover=made_before)
        return self._session(made)

    async def get_session(self, name: str, *,
                          timeout: float | None = None) -> AsyncSession:
        """The session of a name or id. SessionNotFound, SessionExpired."""
        return self._session(await self._get(name, timeout))

    async def list_sessions(
            self, match: str | None = None, *,
            labels: Mapping[str, str] | None = None, page_size: int = 0,
            timeout: float | None = None) -> AsyncGenerator[SessionInfo, None]:
        """All sessions, in the order of their ids, a page at a time; `timeout`
        is each page's.

        match   only those with such an id: `*` stands for any characters, `?`
                for one
        labels  only those that have all of these
        """
        request = _wire.v1.ListSessionsRequest(match=match or "")
        write_labels(request.labels, labels)
        write_field(request, "page_size", page_size)
        async for page in self._pages("ListSessions", request, timeout):
            for session in page.sessions:
                yield read(SessionInfo, session)

    async def watch_sessions(
            self, session: str | None = None, *, cursor: str = "",
            timeout: float | None = None) -> AsyncGenerator[WatchPart, None]:
        """What happens to sessions, or to those of one name or id, from now on
        or from a WatchPart's cursor on. The first part comes at once, maybe
        without events: who lists the sessions then misses nothing. Goes on by
        itself where the stream breaks; does not end by itself.

        OutOfRange: events are lost that came after the cursor, for instance
        because the server was restarted.
        """
        request = _wire.v1.WatchSessionsRequest(cursor=cursor)
        if session is not None:
            request.session = _wire.session_name(session)
        deadline = Deadline(timeout)
        backoff = Backoff(self._transport.retry)
        while True:
            try:
                async with aclosing(self._transport.messages(
                        "WatchSessions", request, deadline.left())) as messages:
                    async for message in messages:
                        backoff.succeed()
                        request.cursor = message.cursor
                        yield read(WatchPart, message)
                raise ConnectionLost("the watch has ended", code="UNAVAILABLE")
            except SteadystateError as error:
                wait = backoff.next_wait(error)
                if wait is None:
                    raise
                await deadline.sleep(wait, error)

    async def delete_session(self, name: str, *,
                             timeout: float | None = None) -> None:
        """Deletes a session. SessionNotFound."""
        request = _wire.v1.DeleteSessionRequest(name=_wire.session_name(name))
        await self._delete("DeleteSession", request, timeout)

    async def import_session(
            self, snapshot: Source, session_id: str | None = None, *,
            ttl: float | None = None, labels: Mapping[str, str] | None = None,
            durability: str | None = None, context_cap: int | None = None,
            timeout: float | None = None) -> AsyncSession:
        """Creates a session from a snapshot: its bytes, or the path of a file.
        Without an id it gets that of the session that was exported. Is not
        tried again by itself.

        SnapshotRejected, AlreadyExists, BudgetExhausted.
        """
        first = _wire.v1.ImportSessionRequest(session_id=session_id or "")
        write_session(first.session, ttl=ttl, labels=labels,
                      durability=durability, context_cap=context_cap)
        return self._session(await send_snapshot(self._transport, snapshot,
                                                 first, timeout))

    # -- Without a session

    async def generate(
            self, prompt: Prompt, *, max_tokens: int | None = None,
            sampling: Sampling | None = None, stop: str | Sequence[str] = (),
            stop_tokens: Sequence[int] = (), ignore_eos: bool = False,
            logprobs: int | None = None,
            timeout: float | None = None) -> AsyncGenerator[GeneratePart, None]:
        """As AsyncSession.generate, from a state of its own, which is gone at
        the end. Is tried again until its first part has come; a stream that
        breaks later is ConnectionLost."""
        request = request_of(prompt, max_tokens, sampling, stop, stop_tokens,
                             ignore_eos, logprobs)
        async with aclosing(generate_alone(self._transport, request,
                                           timeout)) as parts:
            async for part in parts:
                yield part

    async def score(
            self, text: Prompt, *, top_logprobs: int | None = None,
            logits: bool = False,
            timeout: float | None = None) -> ScoreResult:
        """The log-probability of each token of a text, from a fresh state.
        Logits are f32[vocab_size] for each token: memory is yours to bound."""
        return await score_of(self._transport, _wire.v1.ScoreRequest(), text,
                              top_logprobs, logits, timeout)

    async def embed(self, text: Prompt, *, pooling: str | None = None,
                    bidirectional: bool = False,
                    timeout: float | None = None) -> EmbedResult:
        """Hidden vectors of a text, from a fresh state: each, or with `pooling`
        "MEAN" or "LAST" one."""
        request = _wire.v1.EmbedRequest(bidirectional=bidirectional)
        return await embed_of(self._transport, request, text, pooling, timeout)

    # -- Checkpoints

    async def list_checkpoints(
            self, *, page_size: int = 0,
            timeout: float | None = None
            ) -> AsyncGenerator[CheckpointInfo, None]:
        """All checkpoints, as list_sessions. AsyncSession.checkpoint makes
        them."""
        request = _wire.v1.ListCheckpointsRequest()
        write_field(request, "page_size", page_size)
        async for page in self._pages("ListCheckpoints", request, timeout):
            for checkpoint in page.checkpoints:
                yield read(CheckpointInfo, checkpoint)

    async def delete_checkpoint(self, name: str, *,
                                timeout: float | None = None) -> None:
        """Deletes a checkpoint. NotFound."""
        request = _wire.v1.DeleteCheckpointRequest(
            name=_wire.checkpoint_name(name))
        await self._delete("DeleteCheckpoint", request, timeout)

    # -- The model

    async def model(self, name: str = "models/-", *,
                    timeout: float | None = None) -> ModelInfo:
        """The model that is served; asked for once. NotFound."""
        if name not in self._models:
            request = _wire.v1.GetModelRequest(name=name)
            self._models[name] = read(ModelInfo, await self._transport.call(
                "GetModel", request, timeout=timeout))
        return self._models[name]

    async def tokenize(self, text: str | Sequence[TextPart], *,
                       timeout: float | None = None) -> list[int]:
        """The ids of a text's tokens, which may come in parts of which some are
        literal. TokenizerUnavailable; FailedPrecondition: the server is too old
        to tell parts apart."""
        deadline = Deadline(timeout)
        if not isinstance(text, str) and not (
                isinstance(text, (list, tuple)) and
                all(isinstance(part, TextPart) for part in text)):
            refuse("text", text, "a str, or a list of TextPart,")
        whole = (text if isinstance(text, str) else
                 "".join(part.text for part in text))
        request = _wire.v1.TokenizeRequest(text=whole)
        if not isinstance(text, str):
            if "parts" not in request.DESCRIPTOR.fields_by_name:
                raise _too_old()
            request = _wire.v1.TokenizeRequest(parts=[
                _wire.v1.TextPart(text=part.text, literal=part.literal)
                for part in text])
        answer = await self._transport.call("Tokenize", request,
                                            timeout=deadline.left())
        # An older server does not see the parts. Blanks may have no tokens, too.
        if (not answer.tokens and whole and not isinstance(text, str) and
                await self.tokenize(whole, timeout=deadline.left())):
            raise _too_old()
        return list(answer.tokens)

    async def detokenize(self, tokens: Iterable[int], *,
                         timeout: float | None = None) -> str:
        """The text of tokens. TokenizerUnavailable, InvalidArgument."""
        request = _wire.v1.DetokenizeRequest()
        write_tokens(request.tokens, "tokens", tokens)
        answer = await self._transport.call("Detokenize", request,
                                            timeout=timeout)
        return str(answer.text)

    # -- The server

    async def health(self, *, timeout: float | None = None) -> str:
        """What the server says of itself: "SERVING" or "NOT_SERVING". Is not
        tried again."""
        request = _wire.METHODS["Check"].request()
        answer = await self._transport.once("Check", request, timeout)
        known = _wire.enum_values(
            "grpc.health.v1.HealthCheckResponse.ServingStatus")
        return next((name for name, number in known.items()
                     if number == answer.status), str(answer.status))

    async def wait_until_serving(self, *, timeout: float = 60.0) -> None:
        """Waits for the server, which may be starting. DeadlineExceeded."""
        deadline = Deadline(timeout)
        while True:
            error = None
            try:
                if await self.health(timeout=deadline.left()) == "SERVING":
                    return
            except SteadystateError as failure:
                error = failure
            await deadline.sleep(0.1, error or SteadystateError(
                "the server is not serving", code="UNAVAILABLE"))

    def multiplexer(self, streams: int = 4, *, max_in_flight: int = 1024,
                    max_sessions: int = 100_000) -> AsyncMultiplexer:
        """Few streams that carry the steps of many sessions, see
        AsyncMultiplexer. Is closed with the client at the latest."""
        return AsyncMultiplexer(self, streams, max_in_flight=max_in_flight,
                                max_sessions=max_sessions)

    # -- Of the package's own use

    def _session(self, session: _wire.Message) -> AsyncSession:
        return AsyncSession(self, self._transport, read(SessionInfo, session))

    async def _get(self, name: str, timeout: float | None) -> Any:
        request = _wire.v1.GetSessionRequest(name=_wire.session_name(name))
        return await self._transport.call("GetSession", request,
                                          timeout=timeout)

    async def _delete(self, method: str, request: _wire.Message,
                      timeout: float | None) -> None:
        async def gone_before(error: SteadystateError) -> None:
            if not isinstance(error, NotFound):
                raise error

        await self._transport.call(method, request, timeout=timeout,
                                   recover=gone_before)

    async def _pages(self, method: str, request: _wire.Message,
                     timeout: float | None) -> AsyncGenerator[Any, None]:
        while True:
            page = await self._transport.call(method, request, timeout=timeout)
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token


def _too_old() -> FailedPrecondition:
    return FailedPrecondition(
        "the server, or the stubs in use, are older than this package: they "
        "cannot tell literal parts of a text from others",
        code="FAILED_PRECONDITION")
