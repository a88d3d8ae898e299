"""A conversation over one session."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from . import _said
from ._fields import refuse, texts_of
from ._session import AsyncSession
from ._transport import Deadline
from .chat_template import render_chat
from .client import Session, _iterates
from .errors import DeadlineExceeded, SteadystateError
from .types import GeneratePart, ModelInfo, Sampling, TextPart

# What stands for the tokens that begin and end a sequence in a rendered text
# where the server knows them by their ids, not by a spelling. Neither is a
# character of Unicode.
_BEGIN, _END = "\ufdd0", "\ufdd1"
# A call of Tokenize takes at most 4,096 parts.
_MOST_PARTS = 4000
_T = TypeVar("_T")

USER_PREFIX = "\n\nUser: "
ASSISTANT_PREFIX = "\n\nAssistant:"


@dataclasses.dataclass(frozen=True)
class _Mark:
    """A position of the session, and the text that it has read there.
    `end_token` has been read after that text, and has none itself."""
    text: str
    position: int
    end_token: int | None = None


class AsyncChat:
    """A conversation over one session, which reads each turn once.

        chat = AsyncChat(await client.create_session(), system="Be brief.")
        async for part in chat.send("Who are you?", max_tokens=200):
            print(part, end="")

    Turns are written by the model's chat template (GetModel), or by `template`;
    both need the extra "chat". A model without one, or a chat that is given a
    prefix, has user_prefix before what the user says, and assistant_prefix
    before the answer, which the next user_prefix ends.

    `messages` may be changed between two turns: what the session has read of it
    stays read, and it is taken back to where the two part (OutOfRange if that
    is out of its reach). What they say is read as text, whatever marks it
    spells: the server finds special tokens in what the template writes, and in
    `variables`, alone. These are given to the template; bos_token and
    eos_token are what the checkpoint's tokenizer_config.json says, or the
    model's own tokens if it says neither, unless they are among them.

    REQUIRES: nobody else writes to the session. Its position when the first
    turn is sent is where the conversation begins.
    """

    def __init__(self, session: AsyncSession, *, system: str | None = None,
                 template: str | None = None, user_prefix: str | None = None,
                 assistant_prefix: str | None = None,
                 **variables: Any) -> None:
        if template is not None and (user_prefix, assistant_prefix) != (
                None, None):
            raise ValueError("template and prefixes are two ways to write a "
                             "turn: give one of them")
        if not isinstance(session, AsyncSession):
            refuse("session", session,
                   "an AsyncSession, such as await client.create_session(),")
        self.session = session
        self.messages: list[dict[str, str]] = []
        if system is not None:
            self.messages.append({"role": "system", "content": system})
        self._template = template
        self._by_prefix = (user_prefix, assistant_prefix) != (None, None)
        self._user_prefix = USER_PREFIX if user_prefix is None else user_prefix
        self._assistant_prefix = (ASSISTANT_PREFIX if assistant_prefix is None
                                  else assistant_prefix)
        self._variables = variables
        self._marks: list[_Mark] = []  # ascending

    async def send(
            self, text: str, *, max_tokens: int | None = None,
            sampling: Sampling | None = None, stop: str | Sequence[str] = (),
            timeout: float | None = None) -> AsyncGenerator[GeneratePart, None]:
        """Says something, and gives the answer as it comes. Both are in
        `messages` then; of an answer that is left early, what had come. After
        an error they are as before, and the same may be sent again."""
        deadline = Deadline(timeout)
        client = self.session._client
        model = await client.model(timeout=deadline.left())
        template = self._template or (
            "" if self._by_prefix else model.chat_template)
        said = [*self.messages, {"role": "user", "content": text}]
        if template:
            parts_read = await _within(
                deadline, self._render, template, said, model)
            stops = texts_of("stop", stop)
        else:
            parts_read = self._write(said)
            stops = [self._user_prefix.rstrip(" ") or self._user_prefix,
                     *texts_of("stop", stop)]
        rendered = "".join(words for words, _ in parts_read)
        tokens = await self._unread(parts_read, rendered, model, not template,
                                    deadline)
        before, answer = self.messages, {"role": "assistant", "content": ""}
        self.messages = [*said, answer]
        drawn: list[int] = []
        try:
            async with aclosing(self.session.generate(
                    tokens, max_tokens=max_tokens, sampling=sampling,
                    stop=stops, timeout=deadline.left())) as parts:
                async for part in parts:
                    answer["content"] += part.text
                    drawn += [token.token for token in part.tokens]
                    if part.finish_reason:
                        self._marks.append(
                            _Mark(rendered, part.position - len(drawn)))
                        await self._mark_answer(rendered, drawn, part)
                    yield part
        except SteadystateError:
            self.messages = before
            raise

    def undo(self) -> str:
        """Takes the last turn back, and gives what the user had said in it.
        IndexError: there is none."""
        turns = [index for index, message in enumerate(self.messages)
                 if message["role"] == "user"]
        if not turns:
            raise IndexError("there is no turn to take back")
        last = turns[-1]
        text = self.messages[last]["content"]
        del self.messages[last:]
        return text

    def _render(self, template: str, messages: Sequence[dict[str, str]],
                model: ModelInfo) -> list[tuple[str, bool]]:
        begin, end = model.bos_token, model.eos_token
        if not begin and not end:
            begin = _BEGIN if model.bos_tokens else ""
            end = _END if model.eos_tokens else ""
        variables = {"bos_token": begin, "eos_token": end, **self._variables}
        return _said.parts_of(render_chat(
            template, [_said.as_said(_clean(message)) for message in messages],
            **variables))

    def _write(self, messages: Sequence[dict[str, str]]
               ) -> list[tuple[str, bool]]:
        prefixes = {"user": self._user_prefix,
                    "assistant": self._assistant_prefix}
        text = _said.joined(
            prefixes.get(message["role"], "") +
            _said.said(_clean(message["content"])) for message in messages)
        return _said.parts_of(text.lstrip("\n") + self._assistant_prefix)

    async def _unread(self, parts: Sequence[tuple[str, bool]], rendered: str,
                      model: ModelInfo, add_bos: bool,
                      deadline: Deadline) -> list[int]:
        """Takes the session to where what it has read and `rendered` part;
        gives the tokens that it has to read from there."""
        position = await self.session._position_now(deadline)
        if not self._marks:
            self._marks.append(_Mark("", position))
        while not rendered.startswith(self._marks[-1].text):
            del self._marks[-1]
        mark = self._marks[-1]
        tokens = await self._tokens_of(
            list(_said.pieces(parts, len(mark.text))), model, deadline)
        if mark.end_token is not None:
            if tokens[:1] == [mark.end_token]:
                tokens = tokens[1:]
            else:
                mark = _Mark(mark.text, mark.position - 1)
                self._marks[-1] = mark
        if position != mark.position:
            await self.session.rewind(mark.position, timeout=deadline.left())
        if add_bos and mark.position == 0:
            tokens = [*model.bos_tokens, *tokens]
        return tokens

    async def _tokens_of(self, parts: Sequence[tuple[str, bool]],
                         model: ModelInfo, deadline: Deadline) -> list[int]:
        """One call for what stands between tokens of the model's own."""
        tokens: list[int] = []
        unread: list[TextPart] = []

        async def read() -> None:
            if unread:
                tokens.extend(await self.session._client.tokenize(
                    unread, timeout=deadline.left()))
                unread.clear()

        for text, literal in parts:
            for piece in re.split(f"([{_BEGIN}{_END}])", text):
                if piece in (_BEGIN, _END):
                    await read()
                    tokens += (model.bos_tokens if piece == _BEGIN
                               else model.eos_tokens[:1])
                elif piece:
                    # Between what the template writes and words, as where
                    # turns are read one by one.
                    if len(unread) >= _MOST_PARTS and not literal:
                        await read()
                    unread.append(TextPart(piece, literal))
        await read()
        return tokens

    async def _mark_answer(self, rendered: str, drawn: list[int],
                           last: GeneratePart) -> None:
        """Remembers what the session has read at an answer's end."""
        answer = self.messages[-1]["content"]
        read = rendered + _clean(answer)
        if last.finish_reason == "STOP_TOKEN":
            self._marks.append(_Mark(read, last.position, drawn[-1]))
        elif last.finish_reason == "LENGTH":
            self._marks.append(_Mark(read, last.position))
        else:
            # It has read the stop string, and whatever came with its token.
            whole = await self.session._client.detokenize(drawn)
            for text in (whole, " " + whole):
                if text.startswith(answer):
                    self._marks.append(_Mark(rendered + _clean(text),
                                             last.position))
                    break


async def _within(deadline: Deadline, function: Callable[..., _T],
                  *arguments: Any) -> _T:
    """What a function gives, called in a thread of its own: templates may take
    long, and others wait for this one."""
    try:
        return await asyncio.wait_for(
            asyncio.to_thread(function, *arguments), deadline.left())
    except TimeoutError:
        raise DeadlineExceeded(
            "the timeout passed while the chat template was at work",
            code="DEADLINE_EXCEEDED") from None


def _clean(value: Any) -> Any:
    """What somebody says, for a prompt: it begins and ends nothing there."""
    if isinstance(value, str):
        return _said.clean(re.sub(f"[{_BEGIN}{_END}]", "\ufffd", value))
    if isinstance(value, Mapping):
        return {key: _clean(field) for key, field in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_clean, value))
    return value


class Chat:
    """AsyncChat for programs without asyncio.

        chat = Chat(client.create_session(), system="Be brief.")
        for part in chat.send("Who are you?", max_tokens=200):
            print(part, end="", flush=True)
    """

    def __init__(self, session: Session, *, system: str | None = None,
                 template: str | None = None, user_prefix: str | None = None,
                 assistant_prefix: str | None = None,
                 **variables: Any) -> None:
        if not isinstance(session, Session):
            refuse("session", session,
                   "a Session, such as client.create_session(),")
        self.session = session
        self._runner = session._runner
        self._wrapped = AsyncChat(
            session._wrapped, system=system, template=template,
            user_prefix=user_prefix, assistant_prefix=assistant_prefix,
            **variables)

    @property
    def messages(self) -> list[dict[str, str]]:
        """As AsyncChat.messages."""
        return self._wrapped.messages

    send = _iterates(AsyncChat.send)

    def undo(self) -> str:
        """As AsyncChat.undo."""
        return self._wrapped.undo()
