"""What somebody says, followed through a template into the text of a prompt."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, SupportsIndex

# What stands around words in a rendered text. Neither is a character of
# Unicode; words have none of them.
_OPEN, _CLOSE = "\ufdd2", "\ufdd3"


def marked(text: str) -> str:
    """Words with marks around them, blanks at their ends left outside: templates
    cut these."""
    core = text.strip()
    if not core:
        return text
    before = text.index(core)
    return (text[:before] + _OPEN + core + _CLOSE +
            text[before + len(core):])


class Said(str):
    """What somebody says: as a string, the words. What a template makes of it
    is what somebody says, too, or, once it is joined with something else, a
    plain string with marks around the words."""

    __slots__ = ()

    def __str__(self) -> str:
        return marked(str.__str__(self))

    def __repr__(self) -> str:
        return marked(str.__repr__(self))

    def __format__(self, form: str) -> str:
        return format(str(self), form)

    def __html__(self) -> str:
        return str(self)

    def __add__(self, other: str) -> str:
        return str(self) + str(other)

    def __radd__(self, other: str) -> str:
        return str(other) + str(self)

    def __mod__(self, values: Any) -> str:
        return Said(str.__str__(self) % values)

    def __mul__(self, count: SupportsIndex) -> str:
        return Said(str.__mul__(self, count))

    __rmul__ = __mul__

    def __getitem__(self, where: SupportsIndex | slice) -> str:
        return Said(str.__getitem__(self, where))

    def __iter__(self) -> Iterator[str]:
        return map(Said, str.__iter__(self))

    def join(self, strings: Iterable[str]) -> str:
        return str(self).join(map(str, strings))


def _said(value: Any) -> Any:
    if isinstance(value, str):
        return Said(value)
    return type(value)(map(_said, value))


def _followed(name: str) -> Callable[..., Any]:
    method = getattr(str, name)

    def follow(self: Said, *arguments: Any, **keywords: Any) -> Any:
        return _said(method(self, *arguments, **keywords))

    follow.__name__ = name
    return follow


for _name in ("capitalize", "casefold", "center", "expandtabs", "format",
              "format_map", "ljust", "lower", "lstrip", "partition",
              "removeprefix", "removesuffix", "replace", "rjust", "rpartition",
              "rsplit", "rstrip", "split", "splitlines", "strip", "swapcase",
              "title", "translate", "upper", "zfill"):
    setattr(Said, _name, _followed(_name))


def as_said(value: Any) -> Any:
    """A message, or what it has, with all strings as what somebody says; but
    the role where that is a word: templates write marks with it."""
    if isinstance(value, str):
        return Said(value)
    if isinstance(value, Mapping):
        return {key: field if key == "role" and isinstance(field, str) and
                re.fullmatch(r"\w+", field) else as_said(field)
                for key, field in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(as_said, value))
    return value


def plain(value: Any) -> Any:
    """The same as plain strings, with marks: for what does not ask a string how
    it is to be written."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return {plain(key): plain(field) for key, field in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(plain, value))
    return value


def without_marks(text: str, instead: str = "") -> str:
    """A text without the marks that stand around words."""
    return re.sub(f"[{_OPEN}{_CLOSE}]", instead, text)


def parts_of(text: str) -> list[tuple[str, bool]]:
    """A text with marks as parts, of which True are words. Where a template has
    cut a text that had marks, so that one of two is missing, more is taken for
    words than is; never less."""
    parts: list[tuple[str, bool]] = []
    depth = 0
    for piece in re.split(f"([{_OPEN}{_CLOSE}])", text):
        if piece == _OPEN:
            depth += 1
        elif piece == _CLOSE and depth > 0:
            depth -= 1
        elif piece == _CLOSE:
            parts = parts[:-1] + [(words, True) for words, _ in parts[-1:]]
        else:
            # Between any two marks is one, perhaps empty.
            parts.append((piece, depth > 0))
    return [part for part in parts if part[0]]


def pieces(parts: Sequence[tuple[str, bool]],
           start: int) -> Iterator[tuple[str, bool]]:
    """The parts of a text from a character on."""
    for text, words in parts:
        if start < len(text):
            yield text[max(start, 0):], words
        start -= len(text)
