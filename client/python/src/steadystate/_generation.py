"""A generation that goes on after its stream broke."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from . import _wire
from ._transport import Deadline, Transport
from .errors import ConnectionLost, SteadystateError
from .retry import Backoff
from .types import GeneratePart, Prompt, Sampling, read, write_prompt


def request_of(prompt: Prompt | None, max_tokens: int | None,
               sampling: Sampling | None, stop: Sequence[str],
               stop_tokens: Sequence[int], ignore_eos: bool,
               logprobs: int | None) -> _wire.Message:
    """A GenerateRequest that names no session."""
    request = _wire.v1.GenerateRequest(stop=stop, stop_tokens=stop_tokens,
                                       ignore_eos=ignore_eos)
    write_prompt(prompt, request)
    if max_tokens is not None:
        request.max_tokens = max_tokens
    if logprobs is not None:
        request.logprobs = logprobs
    if sampling is not None:
        sampling.write(request.sampling)
    return request


async def generate_alone(
        transport: Transport, request: _wire.Message,
        timeout: float | None) -> AsyncGenerator[GeneratePart, None]:
    """The parts of one Generate without a session. Is tried again until its
    first part has come: later the server has forgotten it."""
    deadline = Deadline(timeout)
    backoff = Backoff(transport.retry)
    begun = False
    while True:
        try:
            async with aclosing(transport.messages(
                    "Generate", request, deadline.left())) as messages:
                async for message in messages:
                    begun = True
                    yield _part(message)
                    if message.finish_reason:
                        return
            raise ConnectionLost("the generation's end is missing",
                                 code="UNAVAILABLE")
        except SteadystateError as error:
            wait = None if begun else backoff.next_wait(error)
            if wait is None:
                raise
            await deadline.sleep(wait, error)


async def generate(transport: Transport, request: _wire.Message,
                   timeout: float | None) -> AsyncGenerator[GeneratePart, None]:
    """The parts of one Generate, each once, however often it takes the server
    to tell them.

    REQUIRES: the request has expected_position and request_id. So the server
    knows a repeat, tells what it had told before, and goes on.
    """
    deadline = Deadline(timeout)
    backoff = Backoff(transport.retry)
    told = _Told()
    while True:
        told.rewind()
        try:
            async with aclosing(transport.messages(
                    "Generate", request, deadline.left())) as messages:
                async for message in messages:
                    part = told.take(_part(message))
                    if part is not None:
                        backoff.succeed()
                        yield part
                    if message.finish_reason:
                        return
            raise ConnectionLost("the generation's end is missing",
                                 code="UNAVAILABLE")
        except SteadystateError as error:
            wait = backoff.next_wait(error)
            if wait is None:
                raise
            await deadline.sleep(wait, error)


def _part(message: _wire.Message) -> GeneratePart:
    part = read(GeneratePart, message)
    return dataclasses.replace(
        part, text=message.text_delta,
        finish_reason=part.finish_reason if message.finish_reason else "")


class _Told:
    """How much of the generation has been given on, in tokens and characters;
    `passed`: how much of that the present stream has told again."""

    def __init__(self) -> None:
        self._tokens = self._characters = 0
        self.rewind()

    def rewind(self) -> None:
        self._passed_tokens = self._passed_characters = 0

    def take(self, part: GeneratePart) -> GeneratePart | None:
        """What of a part is new; None if nothing is."""
        known_tokens = min(self._tokens - self._passed_tokens, len(part.tokens))
        known_text = min(self._characters - self._passed_characters,
                         len(part.text))
        self._passed_tokens += len(part.tokens)
        self._passed_characters += len(part.text)
        self._tokens = max(self._tokens, self._passed_tokens)
        self._characters = max(self._characters, self._passed_characters)
        left = dataclasses.replace(part, tokens=part.tokens[known_tokens:],
                                   text=part.text[known_text:])
        said = (left.tokens or left.text or left.finish_reason or
                left.going_away)
        return left if said else None
