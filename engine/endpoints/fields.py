"""Fields of an answer's JSON: each is read with its type, and an error names it."""

from __future__ import annotations

import math
from collections.abc import Iterator

from engine.errors import TraceError
from engine.trace.value_types import JsonObject, JsonValue, is_unicode

_MAX_INT = 2**31
_IMPOSSIBLE = -9999.0
"""What OpenAI and vLLM write for a log-probability of minus infinity."""
_ROUNDED_UP = 1e-3


def read_object(value: JsonValue, name: str) -> JsonObject:
    """Return a JSON object; an absent one is empty.

    Raises:
        TraceError: the value is something else.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise wrong_shape(name)
    return value


def iter_objects(value: JsonValue, name: str) -> Iterator[JsonObject]:
    """Yield the objects of a JSON list; an absent list has none.

    Raises:
        TraceError: the value is no list of objects.
    """
    for item in read_list(value, name):
        if not isinstance(item, dict):
            raise wrong_shape(name)
        yield item


def read_list(value: JsonValue, name: str) -> list[JsonValue]:
    """Return a JSON list; an absent one is empty.

    Raises:
        TraceError: the value is something else.
    """
    if value is None:
        return []
    if not isinstance(value, list):
        raise wrong_shape(name)
    return value


def read_text(value: JsonValue, name: str) -> str:
    """Return a text; an absent one is empty, and half of a character becomes U+FFFD.

    Raises:
        TraceError: the value is something else.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        raise wrong_shape(name)
    return value if is_unicode(value) else value.encode("utf-8", "replace").decode()


def read_count(value: JsonValue, name: str) -> int | None:
    """Return a whole number from 0, None if it is absent.

    Raises:
        TraceError: the value is something else.
    """
    if value is None:
        return None
    if type(value) is not int or not 0 <= value < _MAX_INT:
        raise wrong_shape(name)
    return value


def read_ids(value: JsonValue, name: str) -> list[int]:
    """Return a list of token ids; an absent one is empty.

    Raises:
        TraceError: the value is something else.
    """
    ids = [read_count(item, name) for item in read_list(value, name)]
    if None in ids:
        raise wrong_shape(name)
    return [found for found in ids if found is not None]


def read_seconds(value: JsonValue, units_per_second: float) -> float:
    """Return a duration in seconds, 0 for anything that is not one."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0.0
    return value / units_per_second if 0 <= value < 1e15 else 0.0


def read_logprob(value: JsonValue, name: str) -> float:
    """Return a log-probability in nats; an absent one is that of an impossible token.

    Raises:
        TraceError: the value is no number, or above 0 by more than rounding.
    """
    if value is None:
        return -math.inf
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise wrong_shape(name)
    if value > _ROUNDED_UP:
        raise TraceError(
            "The answer has a log-probability of {value}, above 0.", value=f"{value:g}"
        )
    # Rounded numbers may lie just above 0.
    return -math.inf if value <= _IMPOSSIBLE else float(min(value, 0))


def read_probability(value: JsonValue, name: str) -> float:
    """Return the logarithm of a probability in [0, 1].

    Raises:
        TraceError: the value is no probability.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise wrong_shape(name)
    if not 0 <= value <= 1 + _ROUNDED_UP:
        raise TraceError("The answer has a probability of {value}.", value=f"{value:g}")
    return math.log(min(value, 1)) if value > 0 else -math.inf


def wrong_shape(name: str) -> TraceError:
    """Return the error about a field of another type than any known server writes."""
    return TraceError("The answer has a field {name} of another shape than expected.", name=name)
