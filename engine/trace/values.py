"""What a number of a record means, said in its type: checks, JSON, schema and runs read it there."""

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
    """Marks the type of a field."""

    name: str


TOKEN_ID = Meaning("token id")
PROBABILITY = Meaning("probability")
LOGPROB = Meaning("log-probability")
SECONDS = Meaning("seconds")

TokenId = Annotated[int, TOKEN_ID]
"""Has an entry in the trace's ``pieces``."""
Probability = Annotated[float, PROBABILITY]
"""In [0, 1]."""
LogProb = Annotated[float, LOGPROB]
"""Nats; of an impossible token -inf, which JSON writes as null."""
Seconds = Annotated[float, SECONDS]
"""Not negative."""


def values_of(record: Any, meaning: Meaning) -> Found:
    """Yield (field name, value) of all values of one meaning in a record and in those within it.

    Args:
        record: one of the trace's dataclasses, or None, which has no values.
        meaning: one of the marks above.
    """
    if record is not None:
        for name, read in _readers(type(record), meaning):
            yield from read(name, getattr(record, name))


def same(one: Any, other: Any, apart: Meaning) -> bool:
    """Return whether two records, or values of them, say the same but for values of one meaning."""
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
    # What is not a number equals itself here.
    return one == other or (one != one and other != other)


def plain(hint: Any) -> tuple[Any, Meaning | None]:
    """Return a type without its mark, and the mark."""
    if typing.get_origin(hint) is Annotated:
        kind, meaning = typing.get_args(hint)
        return kind, meaning
    return hint, None


@cache
def hints_of(cls: type) -> dict[str, Any]:
    """Return the marked type of every field of a dataclass."""
    return typing.get_type_hints(cls, include_extras=True)


@cache
def _names_without(cls: type, apart: Meaning) -> tuple[str, ...]:
    """Return the fields of a dataclass that are no values of a meaning."""
    return tuple(
        name
        for name, hint in hints_of(cls).items()
        if not any(plain(option)[1] == apart for option in (hint, *typing.get_args(hint)))
    )


@cache
def _readers(cls: type, meaning: Meaning) -> tuple[tuple[str, Callable[[str, Any], Found]], ...]:
    """Return how to read every field of a dataclass that can hold such values."""
    found = ((name, _reader(hint, meaning)) for name, hint in hints_of(cls).items())
    return tuple((name, read) for name, read in found if read is not None)


def _reader(hint: Any, meaning: Meaning) -> Callable[[str, Any], Found] | None:
    """Return what yields the values in a value of this type, None when it can have none."""
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
    """Return the reader of a tuple: of one type throughout, or of one type for each place."""
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
