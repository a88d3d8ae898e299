"""What somebody says, followed through a template into the text of a prompt.

Each character that somebody says is kept as another one, of planes of Unicode
that have no characters: whatever cuts, joins or copies a text, also code that
knows nothing of this, cannot part a character from where it came from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, SupportsIndex

# The planes with characters, or for private ones; the n-th of them is kept as
# plane _FIRST + n.
_PLANES = (0, 1, 2, 3, 14, 15, 16)
_FIRST = 4
_PLANE = 0x10000
_KEPT = f"{chr(_FIRST * _PLANE)}-{chr((_FIRST + len(_PLANES)) * _PLANE - 1)}"
_RUN = re.compile(f"[{_KEPT}]+")
# What no text has: Unicode assigns nothing there.
_NOTHING = re.compile("[\U00040000-\U000dffff]")


def clean(text: str) -> str:
    """Words without code points that Unicode does not assign and that are
    needed here."""
    return _NOTHING.sub("\ufffd", text)


class _Kept(dict[int, int]):
    """As what a character is kept: a table for str.translate."""

    def __missing__(self, code: int) -> int:
        plane, rest = divmod(code, _PLANE)
        if plane in _PLANES:
            code = (_FIRST + _PLANES.index(plane)) * _PLANE + rest
        return code


class _Released(dict[int, int]):
    """The way back."""

    def __missing__(self, code: int) -> int:
        plane, rest = divmod(code, _PLANE)
        return _PLANES[plane - _FIRST] * _PLANE + rest


_KEEP, _RELEASE = _Kept(), _Released()


def _keep(words: str) -> str:
    return words.translate(_KEEP)


def _release(run: re.Match[str]) -> str:
    return run.group().translate(_RELEASE)


def _raw(text: str) -> str:
    """The characters as they are kept."""
    return str.__str__(text)


def words_of(text: str) -> str:
    """The text itself, whoever says what of it."""
    if isinstance(text, Traced):
        return text.words
    return _RUN.sub(_release, _raw(text))


def _said_somewhere(text: str) -> bool:
    return _RUN.search(_raw(text)) is not None


class Traced(str):
    """A text that knows of each character whether somebody says it. It is to
    templates what a string with those characters is; what is made of it knows
    that, too. Where single characters cannot be followed, all are said."""

    words: str

    def __new__(cls, raw: str, words: str | None = None) -> Traced:
        text = super().__new__(cls, raw)
        text.words = _RUN.sub(_release, raw) if words is None else words
        return text

    def _cut(self, first: int, end: int) -> Traced:
        return Traced(_raw(self)[first:end], self.words[first:end])

    def _changed(self, words: str) -> Traced:
        """The same with other characters in the places of these."""
        if len(words) != len(self.words):
            return said(words) if _said_somewhere(self) else Traced(words)
        return Traced("".join(
            _keep(new) if kept != old else new
            for new, kept, old in zip(words, _raw(self), self.words)), words)

    def __str__(self) -> str:
        return self

    def __repr__(self) -> str:
        return said(repr(self.words))

    def __format__(self, form: str) -> str:
        return said(format(self.words, form)) if form else self

    def __html__(self) -> str:
        return self

    def __hash__(self) -> int:
        return hash(self.words)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.words == words_of(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: str) -> bool:
        return self.words < words_of(other)

    def __le__(self, other: str) -> bool:
        return self.words <= words_of(other)

    def __gt__(self, other: str) -> bool:
        return self.words > words_of(other)

    def __ge__(self, other: str) -> bool:
        return self.words >= words_of(other)

    def __contains__(self, part: object) -> bool:
        return isinstance(part, str) and words_of(part) in self.words

    def __add__(self, other: str) -> str:
        if not isinstance(other, str):
            return NotImplemented
        return joined((self, other))

    def __radd__(self, other: str) -> str:
        if not isinstance(other, str):
            return NotImplemented
        return joined((other, self))

    def __mul__(self, count: SupportsIndex) -> str:
        return Traced(_raw(self) * count, self.words * count)

    __rmul__ = __mul__

    def __mod__(self, values: Any) -> str:
        return self._changed(self.words % values)

    def __getitem__(self, where: SupportsIndex | slice) -> str:
        return Traced(_raw(self)[where], self.words[where])

    def __iter__(self) -> Iterator[str]:
        return map(Traced, _raw(self), self.words)

    def lstrip(self, characters: str | None = None) -> str:
        left = self.words.lstrip(characters and words_of(characters))
        return self._cut(len(self) - len(left), len(self))

    def rstrip(self, characters: str | None = None) -> str:
        return self._cut(
            0, len(self.words.rstrip(characters and words_of(characters))))

    def strip(self, characters: str | None = None) -> str:
        return self.lstrip(characters).rstrip(characters)

    def removeprefix(self, prefix: str) -> str:
        return self._cut(
            len(self) - len(self.words.removeprefix(words_of(prefix))),
            len(self))

    def removesuffix(self, suffix: str) -> str:
        return self._cut(0, len(self.words.removesuffix(words_of(suffix))))

    def _parts(self, parts: Iterable[str]) -> list[str]:
        """Parts of the words, in their order, as parts of this."""
        cut: list[str] = []
        at = 0
        for part in parts:
            at = self.words.index(part, at)
            cut.append(self._cut(at, at + len(part)))
            at += len(part)
        return cut

    def split(self, sep: str | None = None,
              maxsplit: SupportsIndex = -1) -> list[str]:
        if sep is None:
            return self._parts(self.words.split(None, maxsplit))
        return self._separated(
            self.words.split(words_of(sep), maxsplit), len(sep))

    def rsplit(self, sep: str | None = None,
               maxsplit: SupportsIndex = -1) -> list[str]:
        if sep is None:
            return self._parts(self.words.rsplit(None, maxsplit))
        return self._separated(
            self.words.rsplit(words_of(sep), maxsplit), len(sep))

    def _separated(self, parts: Iterable[str], between: int) -> list[str]:
        cut: list[str] = []
        at = 0
        for part in parts:
            cut.append(self._cut(at, at + len(part)))
            at += len(part) + between
        return cut

    def splitlines(self, keepends: bool = False) -> list[str]:
        whole = self._separated(self.words.splitlines(True), 0)
        if keepends:
            return whole
        return [line[:len(words)]
                for line, words in zip(whole, self.words.splitlines())]

    def partition(self, separator: str) -> tuple[str, str, str]:
        before, middle, after = self._separated(
            self.words.partition(words_of(separator)), 0)
        return before, middle, after

    def rpartition(self, separator: str) -> tuple[str, str, str]:
        before, middle, after = self._separated(
            self.words.rpartition(words_of(separator)), 0)
        return before, middle, after

    def replace(self, old: str, new: str, count: SupportsIndex = -1) -> str:
        old = words_of(old)
        if not old:
            return self._changed(self.words.replace(old, words_of(new), count))
        most = count.__index__()
        return joined_by(new, self.split(old, most)) if most else self

    def join(self, strings: Iterable[str]) -> str:
        return joined_by(self, list(strings))


def _follow(name: str, changes: bool) -> Callable[..., Any]:
    method = getattr(str, name)

    def follow(self: Traced, *arguments: Any, **keywords: Any) -> Any:
        found = method(self.words, *released(arguments), **released(keywords))
        return self._changed(found) if changes else found

    follow.__name__ = name
    return follow


for _name in ("capitalize", "casefold", "center", "expandtabs", "format",
              "format_map", "ljust", "lower", "rjust", "swapcase", "title",
              "translate", "upper", "zfill"):
    setattr(Traced, _name, _follow(_name, changes=True))
for _name in ("count", "endswith", "find", "index", "isalnum", "isalpha",
              "isascii", "isdecimal", "isdigit", "isidentifier", "islower",
              "isnumeric", "isprintable", "isspace", "istitle", "isupper",
              "rfind", "rindex", "startswith"):
    setattr(Traced, _name, _follow(_name, changes=False))


def said(words: str) -> Traced:
    """What somebody says."""
    return Traced(_keep(words), words)


def joined(texts: Iterable[str]) -> str:
    """One behind the other."""
    text: str = traced("".join(map(_raw, texts)))
    return text


def joined_by(between: str, texts: Sequence[str]) -> str:
    text: str = traced(_raw(between).join(map(_raw, texts)))
    return text


def traced(value: Any) -> Any:
    """A string of which somebody says some, as a Traced; all else as it is."""
    if (isinstance(value, str) and not isinstance(value, Traced) and
            _said_somewhere(value)):
        return Traced(_raw(value))
    return value


def _each(value: Any, change: Callable[[str], Any]) -> Any:
    """A value, or what it has, with all strings changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {_each(key, change): _each(field, change)
                for key, field in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_each(field, change) for field in value)
    return value


def released(value: Any) -> Any:
    """The same, and whoever says what is not known any more."""
    return _each(value, words_of)


def has_said(value: Any) -> bool:
    """Whether somebody says some of it."""
    if isinstance(value, str):
        return _said_somewhere(value)
    if isinstance(value, dict):
        return any(map(has_said, value)) or has_said(list(value.values()))
    return isinstance(value, (list, tuple)) and any(map(has_said, value))


def as_said(value: Any) -> Any:
    """A message, or what it has, with all strings as what somebody says; but
    the role where that is a word: templates write marks with it."""
    if isinstance(value, Mapping):
        return {key: field if key == "role" and isinstance(field, str) and
                re.fullmatch(r"\w+", field) else as_said(field)
                for key, field in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(as_said, value))
    return said(clean(value)) if isinstance(value, str) else value


def to_json(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
    """JSON of a value; of a string that somebody says all but the quotes."""
    def escaped(text: str) -> str:
        inner = json.dumps(words_of(text), ensure_ascii=ensure_ascii)[1:-1]
        return _keep(inner) if _said_somewhere(text) else _raw(text)

    written = json.dumps(_each(value, escaped), ensure_ascii=False, **options)
    if ensure_ascii:
        written = re.sub(f"[^\x00-\x7f{_KEPT}]",
                         lambda char: json.dumps(char.group())[1:-1], written)
    return str(traced(written))


def parts_of(text: str) -> list[tuple[str, bool]]:
    """The parts of a text, of which True are what somebody says."""
    raw = _raw(text)
    parts: list[tuple[str, bool]] = []
    at = 0
    for run in _RUN.finditer(raw):
        parts += [(raw[at:run.start()], False), (_release(run), True)]
        at = run.end()
    parts.append((raw[at:], False))
    return [part for part in parts if part[0]]


def pieces(parts: Sequence[tuple[str, bool]],
           start: int) -> Iterator[tuple[str, bool]]:
    """The parts of a text from a character on."""
    for text, words in parts:
        if start < len(text):
            yield text[max(start, 0):], words
        start -= len(text)
