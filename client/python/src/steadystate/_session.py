"""One session, for asyncio."""

from __future__ import annotations

import io
import os
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from . import _wire
from ._fields import value_of, write_field, write_labels, write_tokens
from ._generation import generate, request_of
from ._snapshot import receive_snapshot
from ._transport import Deadline, Transport
from .errors import AlreadyExists, SteadystateError
from .types import (CheckpointInfo, EmbedResult, GeneratePart, Prompt, Sampling,
                    ScoredToken, ScoreResult, SessionInfo, StepResult, read,
                    write_prompt, write_sampling, write_session)

if TYPE_CHECKING:
    from .aio import AsyncClient


class AsyncSession:
    """A session on the server, as its client got it; no more than a name and
    a position.

    Every request names the position that it expects, so that none is carried
    out twice, and none after somebody else's. A session has one writer at a
    time: the server refuses a second one with SessionBusy.
    """

    def __init__(self, client: AsyncClient, transport: Transport,
                 info: SessionInfo) -> None:
        self._client = client
        self._transport = transport
        self.name = info.name
        self.created_as = info
        self._position: int | None = info.position

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} at {self._position}>"

    @property
    def id(self) -> str:
        """The name without "sessions/"."""
        return self.name.rpartition("/")[2]

    @property
    def position(self) -> int | None:
        """Tokens absorbed, as far as this object knows; None after a call that
        failed or was left half-way. The next call asks the server then."""
        return self._position

    async def info(self, *, timeout: float | None = None) -> SessionInfo:
        """The session as it is now. SessionNotFound, SessionExpired."""
        request = _wire.v1.GetSessionRequest(name=self.name)
        found = read(SessionInfo, await self._transport.call(
            "GetSession", request, timeout=timeout))
        self._position = found.position if found.state != "ACTIVE" else None
        return found

    async def generate(
            self, prompt: Prompt | None = None, *,
            max_tokens: int | None = None, sampling: Sampling | None = None,
            stop: str | Sequence[str] = (), stop_tokens: Sequence[int] = (),
            ignore_eos: bool = False, logprobs: int | None = None,
            reuse_prefix: bool = False,
            timeout: float | None = None) -> AsyncGenerator[GeneratePart, None]:
        """Absorbs the prompt, then draws tokens; gives them as they come. Goes
        on by itself where the stream breaks or the server restarts, if the
        server still has the session and remembers its tokens from the
        generation's first on (--history: 4,096), and no `logprobs` were asked
        for. A longer one goes on if no `stop` was given and the session stands
        at, or can be taken back to, what has arrived; ReplayUnavailable if not.

        prompt      text or token ids; None goes on after the last token
        max_tokens  None: until a stop token or stop string ends it; 0: absorbs
                    the prompt alone, of any length
        stop        a text, or several, that end it; stop_tokens the same by
                    their ids
        ignore_eos  the model's end token does not end it
        logprobs    of each token, and of so many others in its place

        Whoever leaves the loop early closes the generator, best by
        contextlib.aclosing. The session then has what was on its way, too:
        rewind(position=part.position) takes that back.
        """
        deadline = Deadline(timeout)
        request = request_of(prompt, max_tokens, sampling, stop, stop_tokens,
                             ignore_eos, logprobs)
        request.session = self.name
        request.reuse_prefix = reuse_prefix
        request.request_id = uuid.uuid4().hex
        request.expected_position = await self._position_now(deadline)
        self._position = None
        async with aclosing(generate(self._transport, request,
                                     deadline.left())) as parts:
            async for part in parts:
                if part.finish_reason:
                    self._position = part.position
                yield part

    async def absorb(self, prompt: Prompt, *,
                     timeout: float | None = None) -> int:
        """Absorbs a prompt of any length and draws nothing; gives the position
        after it."""
        async with aclosing(self.generate(prompt, max_tokens=0,
                                          timeout=timeout)) as parts:
            async for part in parts:
                position = part.position
        return position

    async def step(
            self, tokens: Prompt = (), *,
            embeddings: Sequence[float] | None = None,
            sampling: Sampling | None = None, top_logprobs: int | None = None,
            logits: bool = False, hidden: bool = False, text: bool = False,
            timeout: float | None = None) -> StepResult:
        """Absorbs tokens, or a text of at most 4,096 bytes, or embeddings
        f32[n, hidden_size] one after the other, all or none, at most
        ModelInfo.max_step_tokens; and answers what was asked for. `sampling`
        draws the token that follows, `text` asks for its text. Tried again
        without being carried out twice."""
        deadline = Deadline(timeout)
        request = _wire.v1.StepRequest(
            session=self.name, request_id=uuid.uuid4().hex,
            expected_position=await self._position_now(deadline))
        write_step(request, tokens, sampling, top_logprobs, text)
        if embeddings is not None:
            request.embeddings.values.extend(embeddings)
        if logits or hidden:
            write_field(request.output, "logits", logits)
            write_field(request.output, "hidden", hidden)
        self._position = None
        answer = read(StepResult, await self._transport.call(
            "Step", request, timeout=deadline.left()))
        self._position = answer.position
        return answer

    async def score(self, text: Prompt, *, top_logprobs: int | None = None,
                    logits: bool = False,
                    timeout: float | None = None) -> ScoreResult:
        """The log-probability of each token of a text, which the session
        absorbs. Is not tried again: what was answered is not kept."""
        deadline = Deadline(timeout)
        request = _wire.v1.ScoreRequest(
            session=self.name,
            expected_position=await self._position_now(deadline))
        self._position = None
        result = await score_of(self._transport, request, text, top_logprobs,
                                logits, deadline.left())
        self._position = result.position
        return result

    async def embed(self, text: Prompt, *, pooling: str | None = None,
                    timeout: float | None = None) -> EmbedResult:
        """Hidden vectors of a text, which the session absorbs; as score."""
        deadline = Deadline(timeout)
        request = _wire.v1.EmbedRequest(
            session=self.name,
            expected_position=await self._position_now(deadline))
        self._position = None
        result = await embed_of(self._transport, request, text, pooling,
                                deadline.left())
        self._position = result.position
        return result

    async def fork(self, count: int | None = None, *,
                   session_ids: Sequence[str] | None = None,
                   position: int | None = None, ttl: float | None = None,
                   labels: Mapping[str, str] | None = None,
                   timeout: float | None = None) -> list[AsyncSession]:
        """Copies of the session, as it is or as it was at `position`: all of
        them or none. Without ids the client draws them.

        AlreadyExists, BudgetExhausted; OutOfRange for a position.
        """
        deadline = Deadline(timeout)
        ids = list(session_ids or ())
        if not ids:
            ids = [uuid.uuid4().hex for _ in range(1 if count is None
                                                   else count)]
        elif count not in (None, len(ids)):
            raise ValueError(f"count is {count}, with {len(ids)} session_ids")
        if not ids:
            raise ValueError(f"count is {count}, 1 to 256 is needed")
        request = _wire.v1.ForkSessionRequest(name=self.name, session_ids=ids)
        write_field(request, "position", position)
        write_session(request.session, ttl=ttl, labels=labels)

        async def made_before(error: SteadystateError) -> Any:
            if not isinstance(error, AlreadyExists):
                raise error
            last = await self._client.get_session(ids[-1])
            return _wire.v1.ForkSessionResponse(
                sessions=map(_wire.session_name, ids), position=last.position)

        made = await self._transport.call(
            "ForkSession", request, timeout=deadline.left(),
            recover=made_before)
        return [AsyncSession(self._client, self._transport, SessionInfo(
            name=name, position=made.position)) for name in made.sessions]

    async def rewind(self, position: int | None = None, *,
                     tokens: int | None = None, checkpoint: str | None = None,
                     timeout: float | None = None) -> SessionInfo:
        """Takes the session back: to a position, by so many tokens, or to what
        a checkpoint is. OutOfRange if that is out of reach: SessionInfo's
        earliest_position says how far it goes."""
        if sum(to is not None for to in (position, tokens, checkpoint)) != 1:
            raise ValueError("one of position, tokens and checkpoint is needed")
        deadline = Deadline(timeout)
        request = _wire.v1.RewindSessionRequest(name=self.name)
        if checkpoint is not None:
            request.checkpoint = _wire.checkpoint_name(checkpoint)
        else:
            if tokens is not None:
                position = await self._position_now(deadline) - tokens
                if position < 0:
                    raise ValueError(f"tokens is {tokens}, but the session has "
                                     f"absorbed {position + tokens}")
            write_field(request, "position", position)
        self._position = None
        found = read(SessionInfo, await self._transport.call(
            "RewindSession", request, timeout=deadline.left()))
        self._position = found.position
        return found

    async def update(self, *, context_cap: int | None = None,
                     ttl: float | None = None,
                     labels: Mapping[str, str] | None = None,
                     timeout: float | None = None) -> SessionInfo:
        """Changes what is given: how many tokens the session can absorb, how
        many seconds it may be idle, all of its labels.

        BudgetExhausted: there is no room for so many; OutOfRange: the session
        has absorbed more.
        """
        request = _wire.v1.UpdateSessionRequest()
        request.session.name = self.name
        write_session(request.session, ttl=ttl, labels=labels,
                      context_cap=context_cap)
        for path, value in (("context_cap", context_cap), ("ttl", ttl),
                            ("labels", labels)):
            if value is not None:
                request.update_mask.paths.append(path)
        if not request.update_mask.paths:
            raise ValueError("nothing is to change: context_cap, ttl or labels "
                             "is needed")
        return read(SessionInfo, await self._transport.call(
            "UpdateSession", request, timeout=timeout))

    async def checkpoint(self, checkpoint_id: str | None = None, *,
                         labels: Mapping[str, str] | None = None,
                         timeout: float | None = None) -> CheckpointInfo:
        """Keeps the session as it is now, under a name. AlreadyExists,
        BudgetExhausted."""
        request = _wire.v1.CreateCheckpointRequest(
            session=self.name, checkpoint_id=checkpoint_id or uuid.uuid4().hex)
        write_labels(request.checkpoint.labels, labels)

        async def made_before(error: SteadystateError) -> Any:
            name = _wire.checkpoint_name(request.checkpoint_id)
            if isinstance(error, AlreadyExists):
                async for made in self._client.list_checkpoints():
                    if made.name == name:
                        return _wire.v1.Checkpoint(
                            name=name, position=made.position,
                            state_bytes=made.state_bytes, uid=made.uid)
            raise error

        return read(CheckpointInfo, await self._transport.call(
            "CreateCheckpoint", request, timeout=timeout, recover=made_before))

    async def export(self, *, timeout: float | None = None) -> bytes:
        """A snapshot of the session, of which import_session makes one on any
        server with the same model."""
        file = io.BytesIO()
        await self._export(file, timeout)
        return file.getvalue()

    async def export_to(self, path: str | os.PathLike[str], *,
                        timeout: float | None = None) -> int:
        """Writes the snapshot to a new file, chunk by chunk; gives the
        position in it. FileExistsError."""
        with open(path, "xb") as file:
            return await self._export(file, timeout)

    async def hibernate(self, *, timeout: float | None = None) -> None:
        """Gives its memory to others until the next request; needs a store."""
        await self._transport.call(
            "HibernateSession",
            _wire.v1.HibernateSessionRequest(name=self.name), timeout=timeout)

    async def delete(self, *, timeout: float | None = None) -> None:
        """Deletes the session. SessionNotFound."""
        await self._client.delete_session(self.name, timeout=timeout)

    async def _export(self, file: Any, timeout: float | None) -> int:
        return await receive_snapshot(
            self._transport, _wire.v1.ExportSessionRequest(name=self.name),
            file, timeout)

    # A call that was left half-way may be at work still. The server lets nobody
    # else write meanwhile, and what it says of the position moves.
    async def _position_now(self, deadline: Deadline) -> int:
        while self._position is None:
            found = await self.info(timeout=deadline.left())
            if found.state == "ACTIVE":
                await deadline.sleep(0.02, SteadystateError(
                    f"{self.name} is at work for a call that was left"))
        return self._position


def write_step(request: _wire.Message, tokens: Prompt,
               sampling: Sampling | None, top_logprobs: int | None,
               text: bool) -> None:
    """Sets what a StepRequest absorbs and answers."""
    if isinstance(tokens, str):
        request.text = tokens
    elif tokens:
        write_tokens(request.tokens.ids, "tokens", tokens)
    if text:
        request.output.text = True
    write_sampling(sampling, request.output.sample)
    if top_logprobs is not None:
        write_field(request.output, "top_logprobs", top_logprobs)


async def score_of(transport: Transport, request: _wire.Message, text: Prompt,
                   top_logprobs: int | None, logits: bool,
                   timeout: float | None) -> ScoreResult:
    """Carries out a ScoreRequest that has its session, or none."""
    write_prompt(text, request)
    write_field(request, "logits", logits)
    write_field(request, "top_logprobs", top_logprobs)
    messages = await transport.collect("Score", request, timeout=timeout,
                                       repeat=not request.session)
    summary = messages[-1].summary
    return ScoreResult(
        tokens=tuple(read(ScoredToken, token)
                     for message in messages for token in message.tokens),
        scored_tokens=summary.scored_tokens,
        total_logprob=summary.total_logprob, position=summary.position)


async def embed_of(transport: Transport, request: _wire.Message, text: Prompt,
                   pooling: str | None,
                   timeout: float | None) -> EmbedResult:
    """Carries out an EmbedRequest that has its session, or none."""
    write_prompt(text, request)
    if pooling is not None:
        request.pooling = value_of("pooling", pooling,
                                   "steadystate.v1.Pooling")
    messages = await transport.collect("Embed", request, timeout=timeout,
                                       repeat=not request.session)
    summary = messages[-1].summary
    return EmbedResult(
        vectors=tuple(tuple(row.hidden)
                      for message in messages for row in message.rows),
        tokens=summary.tokens, position=summary.position)
