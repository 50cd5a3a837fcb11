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
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeGuard

from engine.type_guards import is_list, is_mapping

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

NamedValues = Iterator[tuple[str, Any]]

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
"""A parsed JSON document, or a part of one."""
JsonObject: TypeAlias = "dict[str, JsonValue]"


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


def iter_values(record: object, meaning: Meaning) -> NamedValues:
    """Yield (field name, value) of all values of one meaning in a record and its nested records.

    Args:
        record: a dataclass instance of the trace, or None, which has no values.
        meaning: an annotation such as ``TOKEN_ID``.
    """
    if record is not None:
        for name, read in _field_readers(type(record), meaning):
            yield from read(name, getattr(record, name))


def is_equal_except(one: object, other: object, apart: Meaning) -> bool:
    """Return True if two records or values are equal, ignoring values of the meaning ``apart``."""
    if type(one) is not type(other):
        return False
    if dataclasses.is_dataclass(one):
        names = _field_names_except(type(one), apart)
        return all(
            is_equal_except(getattr(one, name), getattr(other, name), apart) for name in names
        )
    if is_list(one) and is_list(other):
        return len(one) == len(other) and all(
            is_equal_except(mine, yours, apart) for mine, yours in zip(one, other, strict=True)
        )
    if is_mapping(one) and is_mapping(other):
        return one.keys() == other.keys() and all(
            is_equal_except(value, other[key], apart) for key, value in one.items()
        )
    # NaN counts as equal to NaN.
    return one == other or (one != one and other != other)


def iter_leaves(value: object) -> Iterator[object]:
    """Yield the values of nested lists and mappings that are neither, and the mappings' keys."""
    if is_mapping(value):
        yield from value
        value = list(value.values())
    if is_list(value):
        for item in value:
            yield from iter_leaves(item)
    else:
        yield value


def is_unicode(text: str) -> bool:
    """Return True if the text has no lone surrogate, which UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def split_annotation(hint: object) -> tuple[Any, Meaning | None]:
    """Split a type hint into the bare type and its meaning, which may be None."""
    if typing.get_origin(hint) is Annotated:
        kind, meaning = typing.get_args(hint)
        return kind, meaning
    return hint, None


def is_record_type(kind: object) -> TypeGuard[type[DataclassInstance]]:
    """Return True if a type is a dataclass."""
    return isinstance(kind, type) and dataclasses.is_dataclass(kind)


@cache
def field_types(cls: type) -> dict[str, Any]:
    """Return the annotated type of every field of a dataclass."""
    # Without include_extras the Annotated meanings are lost. It evaluates all annotations, hence the cache.
    return typing.get_type_hints(cls, include_extras=True)


@cache
def _field_names_except(cls: type, apart: Meaning) -> tuple[str, ...]:
    """Return the field names of a dataclass whose values do not have the meaning."""
    return tuple(
        name
        for name, hint in field_types(cls).items()
        if not any(
            split_annotation(option)[1] == apart for option in (hint, *typing.get_args(hint))
        )
    )


@cache
def _field_readers(
    cls: type, meaning: Meaning
) -> tuple[tuple[str, Callable[[str, Any], NamedValues]], ...]:
    """Return (field name, reader) of every field that can hold values of the meaning."""
    found = ((name, _make_reader(hint, meaning)) for name, hint in field_types(cls).items())
    return tuple((name, read) for name, read in found if read is not None)


def _make_reader(hint: object, meaning: Meaning) -> Callable[[str, Any], NamedValues] | None:
    """Return a reader of the values in a value of this type; None if it cannot hold any."""
    kind, mark = split_annotation(hint)
    if mark is not None:
        return _read_single if mark == meaning else None
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return _make_tuple_reader(args, meaning)
    if origin in (typing.Union, types.UnionType):
        options = [_make_reader(arg, meaning) for arg in args if arg is not type(None)]
        return next((option for option in options if option is not None), None)
    if dataclasses.is_dataclass(kind):
        return lambda _, value: iter_values(value, meaning)
    return None


def _make_tuple_reader(
    args: tuple[object, ...], meaning: Meaning
) -> Callable[[str, Any], NamedValues] | None:
    """Return the reader of a tuple with one item type, or with one type per position."""
    if args[-1] is Ellipsis:
        read = _make_reader(args[0], meaning)
        if read is None:
            return None
        return partial(_read_each, read)
    places = [(at, read) for at, arg in enumerate(args) if (read := _make_reader(arg, meaning))]
    if not places:
        return None
    return lambda name, items: (pair for at, read in places for pair in read(name, items[at]))


def _read_each(
    read: Callable[[str, Any], NamedValues], name: str, items: tuple[Any, ...]
) -> NamedValues:
    for item in items:
        yield from read(name, item)


def _read_single(name: str, value: float | None) -> NamedValues:
    if value is not None:
        yield name, value
