"""Annotated number types of the record (token id, probability, log-probability, seconds).

Validation, JSON and schema derive their rules from these types.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Annotated, Any

Found = Iterator[tuple[str, Any]]


@dataclass(frozen=True)
class Meaning:
    """Annotation that gives the meaning of a number."""

    name: str


TOKEN_ID = Meaning("token id")
PROBABILITY = Meaning("probability")
LOGPROB = Meaning("log-probability")
SECONDS = Meaning("seconds")

TokenId = Annotated[int, TOKEN_ID]
"""A token id with an entry in the trace's ``pieces``."""
Probability = Annotated[float, PROBABILITY]
"""A probability in [0, 1]."""
LogProb = Annotated[float, LOGPROB]
"""A log-probability in nats; -inf for an impossible token, null in JSON."""
Seconds = Annotated[float, SECONDS]
"""A non-negative time in seconds."""


def values_of(record: Any, meaning: Meaning) -> Found:
    """Yield (field name, value) of all values of one meaning in a record and its nested records.

    Args:
        record: a dataclass instance of the trace, or None, which has no values.
        meaning: an annotation such as ``TOKEN_ID``.
    """
    if record is not None:
        for name, read in _readers(type(record), meaning):
            yield from read(name, getattr(record, name))


def same(one: Any, other: Any, apart: Meaning) -> bool:
    """Return True if two records or values are equal, ignoring values of the meaning ``apart``."""
    if type(one) is not type(other):
        return False
    if dataclasses.is_dataclass(one):
        names = _names_without(type(one), apart)
        return all(same(getattr(one, name), getattr(other, name), apart) for name in names)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(
            same(mine, yours, apart) for mine, yours in zip(one, other, strict=True)
        )
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(
            same(value, other[key], apart) for key, value in one.items()
        )
    # NaN counts as equal to NaN.
    return one == other or (one != one and other != other)


def plain(hint: Any) -> tuple[Any, Meaning | None]:
    """Split a type hint into the bare type and its meaning, which may be None."""
    if typing.get_origin(hint) is Annotated:
        kind, meaning = typing.get_args(hint)
        return kind, meaning
    return hint, None


@cache
def hints_of(cls: type) -> dict[str, Any]:
    """Return the annotated type of every field of a dataclass."""
    return typing.get_type_hints(cls, include_extras=True)


@cache
def _names_without(cls: type, apart: Meaning) -> tuple[str, ...]:
    """Return the field names of a dataclass whose values do not have the meaning."""
    return tuple(
        name
        for name, hint in hints_of(cls).items()
        if not any(plain(option)[1] == apart for option in (hint, *typing.get_args(hint)))
    )


@cache
def _readers(cls: type, meaning: Meaning) -> tuple[tuple[str, Callable[[str, Any], Found]], ...]:
    """Return (field name, reader) of every field that can hold values of the meaning."""
    found = ((name, _reader(hint, meaning)) for name, hint in hints_of(cls).items())
    return tuple((name, read) for name, read in found if read is not None)


def _reader(hint: Any, meaning: Meaning) -> Callable[[str, Any], Found] | None:
    """Return a reader of the values in a value of this type; None if it cannot hold any."""
    kind, mark = plain(hint)
    if mark is not None:
        return _itself if mark == meaning else None
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return _items(args, meaning)
    if origin in (typing.Union, types.UnionType):
        options = [_reader(arg, meaning) for arg in args if arg is not type(None)]
        return next((option for option in options if option is not None), None)
    if dataclasses.is_dataclass(kind):
        return lambda _, value: values_of(value, meaning)
    return None


def _items(args: tuple[Any, ...], meaning: Meaning) -> Callable[[str, Any], Found] | None:
    """Return the reader of a tuple with one item type, or with one type per position."""
    if args[-1] is Ellipsis:
        read = _reader(args[0], meaning)
        if read is None:
            return None
        return partial(_each, read)
    places = [(at, read) for at, arg in enumerate(args) if (read := _reader(arg, meaning))]
    if not places:
        return None
    return lambda name, items: (pair for at, read in places for pair in read(name, items[at]))


def _each(read: Callable[[str, Any], Found], name: str, items: tuple[Any, ...]) -> Found:
    for item in items:
        yield from read(name, item)


def _itself(name: str, value: Any) -> Found:
    if value is not None:
        yield name, value
