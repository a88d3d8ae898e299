"""Fields of requests, set from what callers give: errors say which one is
wrong, what it is, and what it may be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from google.protobuf.descriptor import FieldDescriptor

from . import _wire

# What a field takes, by its type.
_NEEDED = {FieldDescriptor.TYPE_UINT32: f"a whole number of 0 to {2**32 - 1}",
           FieldDescriptor.TYPE_UINT64: f"a whole number of 0 to {2**64 - 1}",
           FieldDescriptor.TYPE_INT32:
               f"a whole number of {-2**31} to {2**31 - 1}",
           FieldDescriptor.TYPE_DOUBLE: "a number",
           FieldDescriptor.TYPE_BOOL: "True or False"}


def refuse(name: str, value: object, needed: str,
           error: Exception | None = None) -> NoReturn:
    """Raises TypeError, or the ValueError that protobuf's error is."""
    kind = (ValueError if isinstance(error, ValueError) and
            not isinstance(error, UnicodeError) else TypeError)
    raise kind(f"{name} is {value!r}, {needed} is needed") from None


def write_field(message: _wire.Message, name: str, value: object) -> None:
    """Sets one field; None leaves it out."""
    if value is None:
        return
    try:
        setattr(message, name, value)
    except (TypeError, ValueError) as error:
        field = message.DESCRIPTOR.fields_by_name[name]
        refuse(name, value, _NEEDED[field.type], error)


def write_tokens(ids: Any, name: str, tokens: object) -> None:
    """Adds to a repeated field of token ids."""
    try:
        ids.extend(tokens)
    except (TypeError, ValueError) as error:
        refuse(name, tokens, "a sequence of token ids, such as [3]", error)


def write_labels(to: Any, labels: Mapping[str, str] | None) -> None:
    """Adds to a map of labels."""
    if labels is None:
        return
    try:
        to.update(labels)
    except (AttributeError, TypeError, ValueError):
        refuse("labels", labels, "a mapping of str to str")


def texts_of(name: str, texts: str | Sequence[str]) -> list[str]:
    """Several texts, or a single one."""
    if isinstance(texts, str):
        return [texts]
    if (not isinstance(texts, Iterable) or isinstance(texts, bytes) or
            not all(isinstance(text, str) for text in texts)):
        refuse(name, texts, "a str, or a sequence of them")
    return list(texts)


def value_of(name: str, value: object, enum: str) -> int:
    """The number of an enum's value, whose name may be in lower case."""
    known = _wire.enum_values(enum)
    upper = value.upper() if isinstance(value, str) else None
    if upper not in known:
        raise ValueError(f"{name} is {value!r}, one of "
                         f"{', '.join(list(known)[1:])} is needed")
    return known[upper]
