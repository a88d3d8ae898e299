"""A generation that goes on after its stream broke."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator
from contextlib import aclosing

from . import _wire
from ._transport import Deadline, Transport
from .errors import ConnectionLost, SteadystateError
from .retry import Backoff
from .types import GeneratePart, read


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
