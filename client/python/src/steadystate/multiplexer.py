"""Many sessions on few streams, for asyncio."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import datetime
import os
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Any

from . import _wire
from ._fields import refuse, write_tokens
from ._session import AsyncSession, write_step
from ._step_stream import PendingStep, StepStream
from ._transport import Deadline
from .errors import ClientClosed, PositionMismatch, ReplayUnavailable
from .types import Prompt, Sampling, StepResult, write_sampling

if TYPE_CHECKING:
    from .aio import AsyncClient


@dataclasses.dataclass(frozen=True)
class StreamedToken:
    """A token that a session drew through a multiplexer.

    token          its id
    logprob        its log-probability, by the model's own distribution
    position       tokens that the session has, once this one is absorbed
    replayed       it had been drawn before its stream broke
    finish_reason  of the last one: "LENGTH" or "STOP_TOKEN"; else empty
    text           if it was asked for: what becomes certain with it, whole
                   characters; none of the token that ends a generation
    """

    token: int
    logprob: float | None
    position: int
    replayed: bool
    finish_reason: str
    text: str = ""


class AsyncMultiplexer:
    """Carries the steps of many sessions over a few StreamStep streams.

        async with client.multiplexer(streams=4) as multiplexer:
            carried = multiplexer.carry(await client.create_session())
            async for drawn in carried.generate("The ", max_tokens=100):
                print(drawn.token)

    A stream that breaks is opened again, as often as the client's Retry
    allows, and steps without an answer are sent again by their position and
    name: the server carries each out once, and repeats its answer (`replayed`).
    So sessions go on through a restart of a server that keeps them (--store).
    A server that is about to shut down (`going_away`) gets no steps after the
    time that it gives; they wait until a server is there again.

    Memory is bounded: a session has one step under way; `max_in_flight` steps
    are without an answer at once, further ones wait for their turn; and there
    are `max_sessions` at most. A step is sent when its answer is asked for, so
    nothing piles up for whoever does not read.

    Belongs to its client's event loop; within it, any task may use it.
    """

    def __init__(self, client: AsyncClient, streams: int, *,
                 max_in_flight: int, max_sessions: int) -> None:
        for name, value in (("streams", streams),
                            ("max_in_flight", max_in_flight),
                            ("max_sessions", max_sessions)):
            if value < 1:
                raise ValueError(f"{name} is {value}, at least 1 is needed")
        self._client = client
        self._streams = [StepStream(client._transport) for _ in range(streams)]
        self._loads = [0] * streams  # sessions on each
        self._max_sessions = max_sessions
        self._room = asyncio.Semaphore(max_in_flight)
        self._carried: dict[str, CarriedSession] = {}
        # Names of steps: no other client's, and short, since the server keeps
        # those of many.
        self._prefix = base64.urlsafe_b64encode(os.urandom(9)).decode()
        self._count = 0
        self._closed = False
        client._multiplexers.add(self)

    async def __aenter__(self) -> AsyncMultiplexer:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    @property
    def going_away(self) -> datetime.datetime | None:
        """Until when the server takes steps, by its clock, if it has said, on
        any stream, that it is about to shut down: the latest such time."""
        times = [stream.going_away for stream in self._streams
                 if stream.going_away is not None]
        return max(times, default=None)

    @property
    def in_flight(self) -> int:
        """Steps without an answer."""
        return sum(map(len, self._streams))

    @property
    def opened_streams(self) -> int:
        """How often a stream has been opened, the first times included."""
        return sum(stream.opened_count for stream in self._streams)

    def carry(self, session: AsyncSession) -> CarriedSession:
        """Takes up a session, or gives the one that is carried by its name.
        Until `release` nobody else should write to it. ValueError: there are
        max_sessions."""
        if not isinstance(session, AsyncSession):
            refuse("session", session,
                   "an AsyncSession, such as await client.create_session(),")
        if self._closed:
            raise ClientClosed("the multiplexer has been closed",
                               code="CANCELLED")
        carried = self._carried.get(session.name)
        if carried is None:
            if len(self._carried) >= self._max_sessions:
                raise ValueError(
                    f"{len(self._carried)} sessions are carried, at most "
                    f"{self._max_sessions}: release some, or "
                    "raise max_sessions")
            stream = self._loads.index(min(self._loads))
            self._loads[stream] += 1
            carried = CarriedSession(self, session, stream)
            self._carried[session.name] = carried
        return carried

    async def close(self) -> None:
        """Ends the streams; steps without an answer raise ClientClosed. The
        sessions stay on the server. May be called again."""
        self._closed = True
        self._client._multiplexers.discard(self)
        await asyncio.gather(*(stream.close() for stream in self._streams))

    # -- Of the package's own use

    def _next_name(self) -> str:
        self._count += 1
        return f"{self._prefix}{self._count:x}"

    async def _send(self, step: PendingStep, stream: int) -> None:
        await self._room.acquire()
        if self._closed:
            self._room.release()
            raise ClientClosed("the multiplexer has been closed",
                               code="CANCELLED")
        settle = step.on_done

        def settle_and_release(done: PendingStep) -> None:
            step.on_done = settle  # it may be sent again
            self._room.release()
            settle(done)

        step.done.clear()
        step.on_done = settle_and_release
        self._streams[stream].send(step)

    def _forget(self, session: CarriedSession) -> None:
        if self._carried.get(session.name) is session:
            del self._carried[session.name]
            self._loads[session._stream] -= 1


class CarriedSession:
    """A session that a multiplexer carries. Its calls take turns: each waits
    for the one before, also for one whose caller was cancelled."""

    def __init__(self, multiplexer: AsyncMultiplexer, session: AsyncSession,
                 stream: int) -> None:
        self._multiplexer = multiplexer
        self._session = session
        self._stream = stream
        self._turn = asyncio.Lock()
        self._last: PendingStep | None = None  # sent, and not looked at yet
        self._carry: list[int] = []  # drawn and returned, not absorbed
        self._generation: object | None = None  # the one under way
        self.name = session.name

    @property
    def position(self) -> int | None:
        """Tokens absorbed, as far as answers tell."""
        return self._session.position

    @property
    def unabsorbed(self) -> tuple[int, ...]:
        """The token that was returned last, while the session has not absorbed
        it: of a generation that was left early, or is under way. It goes ahead
        of the next step's tokens; `settle` absorbs it."""
        return tuple(self._carry)

    async def step(self, tokens: Prompt = (), *,
                   sampling: Sampling | None = None,
                   top_logprobs: int | None = None,
                   text: bool = False) -> StepResult:
        """Absorbs `unabsorbed` and tokens, at most ModelInfo.max_step_tokens,
        or a text of at most 4,096 bytes, and answers. `sampling` draws the
        token that follows, which is the caller's to send, and `text` asks for
        its text. SteadystateError: nothing was absorbed, unless `settle` finds
        out otherwise, or a text came behind `unabsorbed`, in a step of its own.

        A caller that is cancelled leaves a step that was not sent undone; one
        that was sent is carried out, and the next call waits for that.
        """
        template = _wire.v1.StepRequest()
        write_step(template, (), sampling, top_logprobs, text)
        output = template.output if template.HasField("output") else None
        async with self._turn:
            self._generation = None
            if isinstance(tokens, str):
                await self._settle(absorb=True)
                return await self._step(tokens, output)
            return await self._step(list(tokens), output)

    async def generate(
            self, prompt: Prompt | None = None, *,
            max_tokens: int | None = None, sampling: Sampling | None = None,
            stop_tokens: Sequence[int] = (), ignore_eos: bool = False,
            text: bool = False) -> AsyncGenerator[StreamedToken, None]:
        """Absorbs the prompt, then draws tokens, one step each, with their
        `text` if that is asked for. At the end the session has absorbed all of
        them. Who leaves early closes the generator,
        best by contextlib.aclosing; the last token is then `unabsorbed`.

        ValueError: there is nothing to go on from, neither a prompt nor an
        unabsorbed token.
        """
        if max_tokens is not None and max_tokens < 1:
            raise ValueError(
                f"max_tokens is {max_tokens}, at least 1 is needed")
        client = self._multiplexer._client
        model = await client.model()
        tokens = (await client.tokenize(prompt) if isinstance(prompt, str)
                  else list(prompt or ()))
        stops = _wire.v1.GenerateRequest().stop_tokens
        write_tokens(stops, "stop_tokens", stop_tokens)
        ends = {*stops, *(() if ignore_eos else model.eos_tokens)}
        output = _wire.v1.StepOutput()
        write_sampling(sampling or Sampling(), output.sample)
        output.text = text
        most = model.max_step_tokens or 4096
        generation = object()
        async with self._turn:
            self._generation = generation
            await self._settle()
            if not tokens and not self._carry:
                raise ValueError(
                    "a prompt is needed: no token was drawn that is not "
                    "absorbed. A session's own generate() goes on without one")
            room = most - len(self._carry)
            while len(tokens) > room:
                await self._step(tokens[:room], None)
                tokens, room = tokens[room:], most
        drawn = 0
        while True:
            async with self._turn:
                if self._generation is not generation:
                    raise RuntimeError(f"{self.name} was used for something "
                                       "else during this generation")
                answer = await self._step(tokens, output)
                token = answer.sampled_token
                assert token is not None
                tokens, self._carry = [], [token]
                drawn += 1
                finish = ("STOP_TOKEN" if token in ends else
                          "LENGTH" if drawn == max_tokens else "")
                if finish:
                    await self._settle(absorb=True)
            yield StreamedToken(
                token=token, logprob=answer.sampled_logprob,
                position=answer.position + 1, replayed=answer.replayed,
                finish_reason=finish,
                text="" if token in ends else answer.text_delta)
            if finish:
                return

    async def settle(self) -> int:
        """Waits until nothing of the session is under way and all that it
        returned is absorbed; gives its position. Asks the server about a step
        that failed in doubt, by sending it again."""
        async with self._turn:
            self._generation = None
            await self._settle(absorb=True)
            if self.position is None:
                await self._session._position_now(Deadline(None))
            assert self.position is not None
            return self.position

    async def release(self) -> AsyncSession:
        """Settles the session and gives it back, for other calls."""
        await self.settle()
        self._multiplexer._forget(self)
        return self._session

    # -- With the turn

    # A text needs _settle(absorb=True) before it.
    async def _step(self, tokens: list[int] | str, output: Any) -> StepResult:
        await self._settle()
        position = await self._session._position_now(Deadline(None))
        carried = self._carry
        inputs = tokens if isinstance(tokens, str) else carried + tokens
        step = PendingStep(self.name, self._multiplexer._next_name(), position,
                           inputs, output)
        self._carry = []

        def settle(done: PendingStep) -> None:
            if done.answer is not None:
                self._session._position = done.answer.position
            elif done.position != position:  # a part was absorbed
                self._session._position = done.position
            elif isinstance(done.error, ReplayUnavailable):
                self._session._position = None  # all was, unanswered
            elif not done.in_doubt:  # nothing was
                self._carry = carried
                if isinstance(done.error, PositionMismatch):
                    self._session._position = None

        step.on_done = settle
        try:
            await self._multiplexer._send(step, self._stream)
        except BaseException:
            self._carry = carried
            raise
        self._last = step
        return await self._answer_of(step)

    async def _answer_of(self, step: PendingStep) -> StepResult:
        try:
            await step.done.wait()
        except asyncio.CancelledError:
            self._multiplexer._streams[self._stream].withdraw(step)
            raise
        if not step.in_doubt:
            self._last = None
        if step.answer is None:
            raise step.failure()
        return step.answer

    async def _settle(self, absorb: bool = False) -> None:
        last = self._last
        if last is not None:
            if last.done.is_set() and last.in_doubt:
                await self._multiplexer._send(last, self._stream)
            await last.done.wait()
            if last.in_doubt:
                raise last.failure()
            self._last = None
        if absorb and self._carry:
            await self._step([], None)
