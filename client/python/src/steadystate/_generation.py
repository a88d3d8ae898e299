"""A generation that goes on after its stream broke."""

from __future__ import annotations

import dataclasses
import os
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from . import _wire
from ._fields import texts_of, write_field, write_tokens
from ._transport import Deadline, Transport
from .errors import (ConnectionLost, OutOfRange, ReplayUnavailable,
                     SteadystateError)
from .retry import Backoff
from .types import (GeneratePart, Prompt, Sampling, read, write_prompt,
                    write_sampling)


def request_of(prompt: Prompt | None, max_tokens: int | None,
               sampling: Sampling | None, stop: str | Sequence[str],
               stop_tokens: Sequence[int], ignore_eos: bool,
               logprobs: int | None) -> _wire.Message:
    """A GenerateRequest that names no session."""
    request = _wire.v1.GenerateRequest(stop=texts_of("stop", stop))
    write_tokens(request.stop_tokens, "stop_tokens", stop_tokens)
    write_field(request, "ignore_eos", ignore_eos)
    write_prompt(prompt, request)
    write_field(request, "max_tokens", max_tokens)
    write_field(request, "logprobs", logprobs)
    write_sampling(sampling, request.sampling)
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
    knows a repeat, tells what it had told before, and goes on. Where it does
    not remember that, the session is taken back to what has arrived, from
    where the same seed draws the same tokens.
    """
    if not request.sampling.HasField("seed"):
        request.sampling.seed = int.from_bytes(os.urandom(8), "big")
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
                rest = await _rest_of(transport, request, told, error, deadline)
                if rest is None:
                    raise
                told, request = told.rest(request), rest
            else:
                await deadline.sleep(wait, error)


async def _rest_of(transport: Transport, request: _wire.Message, told: _Told,
                   error: SteadystateError,
                   deadline: Deadline) -> _wire.Message | None:
    """What asks for the rest of a generation of which the server does not
    remember the beginning, once the session has been taken back to what was
    told. None: that cannot be. Text that might begin a stop string has been
    held back, and nobody has it; log-probabilities are not told twice."""
    if (not isinstance(error, ReplayUnavailable) or told.last is None or
            request.stop or request.HasField("logprobs")):
        return None
    model = await transport.call(
        "GetModel", _wire.v1.GetModelRequest(name="models/-"),
        timeout=deadline.left())
    if told.last in request.stop_tokens or (
            not request.ignore_eos and told.last in model.eos_tokens):
        return None  # it had ended
    try:
        await transport.call("RewindSession", _wire.v1.RewindSessionRequest(
            name=request.session, position=told.position),
            timeout=deadline.left())
    except OutOfRange:
        return None
    rest = _wire.v1.GenerateRequest()
    rest.CopyFrom(request)
    for field in ("text", "tokens", "reuse_prefix"):
        rest.ClearField(field)
    rest.request_id = uuid.uuid4().hex
    rest.expected_position = told.position
    if rest.HasField("max_tokens"):
        rest.max_tokens -= told.tokens
    return rest


def _part(message: _wire.Message) -> GeneratePart:
    part = read(GeneratePart, message)
    return dataclasses.replace(
        part, text=message.text_delta,
        finish_reason=part.finish_reason if message.finish_reason else "")


class _Told:
    """How much of the generation has been given on, in tokens and characters;
    `passed`: how much of that the present stream has told again.

    prompt, before  tokens of the prompt, and those that were drawn, before the
                    present request, which asks for the rest
    """

    def __init__(self, prompt: int = 0, before: int = 0) -> None:
        self._prompt, self._before = prompt, before
        self.tokens = self._characters = self.position = 0
        self.last: int | None = None  # token
        self.rewind()

    def rest(self, request: _wire.Message) -> _Told:
        """What is to be told after this, which `request` led to."""
        prompt = self.position - self.tokens - request.expected_position
        return _Told(self._prompt + prompt, self._before + self.tokens)

    def rewind(self) -> None:
        self._passed_tokens = self._passed_characters = 0

    def take(self, part: GeneratePart) -> GeneratePart | None:
        """What of a part is new; None if nothing is."""
        known_tokens = min(self.tokens - self._passed_tokens, len(part.tokens))
        known_text = min(self._characters - self._passed_characters,
                         len(part.text))
        self._passed_tokens += len(part.tokens)
        self._passed_characters += len(part.text)
        if self._passed_tokens > self.tokens:
            self.tokens = self._passed_tokens
            self.last, self.position = part.tokens[-1].token, part.position
        self._characters = max(self._characters, self._passed_characters)
        usage = part.usage and dataclasses.replace(
            part.usage, prompt_tokens=self._prompt + part.usage.prompt_tokens,
            generated_tokens=self._before + part.usage.generated_tokens)
        left = dataclasses.replace(part, tokens=part.tokens[known_tokens:],
                                   text=part.text[known_text:], usage=usage)
        said = (left.tokens or left.text or left.finish_reason or
                left.going_away)
        return left if said else None
