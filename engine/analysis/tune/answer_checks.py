"""Checks of an answer: a pattern, a JSON schema, and a reference answer.

Patterns and schemas come from anyone. A pattern may take exponential time, so that every search has
a time limit; a schema may refer to itself or to an address, so that references are counted and
nothing is fetched.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
# jsonschema and regex do not say what they return.
from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import regex

from engine.errors import EngineError, ParameterError
from engine.messages import Message

MATCHES = ("exact", "contains", "regex")
_MAX_CHARS = 20_000
_SEARCH_S = 1.0
_MAX_LOOKUPS = 1_000
"""Most references that one check of a schema follows."""


class _LimitError(Exception):
    """A schema refers to itself too often."""


@dataclass(frozen=True)
class AnswerChecks:
    """What every answer of a table is checked for.

    Attributes:
        pattern: regular expression that is searched for; None for none.
        schema: JSON schema (2020-12) that the whole answer must satisfy; None for none.
        match: how an answer equals its reference: ``exact``, ``contains`` or ``regex``. Letter case
            and the white space around do not count.
    """

    pattern: str | None = None
    schema: Mapping[str, object] | bool | None = None
    match: str = "contains"

    def check(self) -> None:
        """Raise ParameterError if the pattern or the schema is not valid."""
        if self.match not in MATCHES:
            allowed = Message("it must be one of {choices}", choices=", ".join(MATCHES))
            raise ParameterError("match", self.match, allowed)
        if self.pattern is not None:
            _compile_pattern("pattern", self.pattern)
        if self.schema is not None:
            _check_schema(self.schema)

    def check_reference(self, reference: str) -> None:
        """Raise ParameterError if a reference is no valid pattern, for the match ``regex``."""
        if self.match == "regex":
            _compile_pattern("reference", reference)

    def has_pattern(self, text: str) -> float | None:
        """Return 1 or 0, None without a pattern or if the search took too long."""
        pattern = self.pattern
        if pattern is None:
            return None
        return _to_share(lambda: _search("pattern", pattern, text))

    def fits_schema(self, text: str) -> float | None:
        """Return 1 or 0, None without a schema or if the check took too long."""
        schema = self.schema
        if schema is None:
            return None
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return 0.0
        return _to_share(lambda: _is_valid(schema, value))

    def equals_reference(self, text: str, reference: str | None) -> float | None:
        """Return 1 or 0, None without a reference or if the search took too long."""
        if reference is None:
            return None
        if self.match == "regex":
            return _to_share(lambda: _search("reference", reference, text))
        own, wanted = text.strip().casefold(), reference.strip().casefold()
        return float(own == wanted if self.match == "exact" else wanted in own)


def _to_share(check: Callable[[], bool]) -> float | None:
    try:
        return float(check())
    except (_LimitError, TimeoutError, RecursionError):
        return None


def _compile_pattern(name: str, pattern: object) -> Any:
    if not isinstance(pattern, str) or len(pattern) > _MAX_CHARS:
        raise ParameterError(name, pattern, "it must be a regular expression")
    try:
        return _compile(pattern)
    except (regex.error, RecursionError, OverflowError):
        raise ParameterError(name, pattern, "it is no valid regular expression") from None


@lru_cache(maxsize=64)
def _compile(pattern: str) -> Any:
    return regex.compile(pattern)


def _search(name: str, pattern: str, text: str) -> bool:
    compiled = _compile_pattern(name, pattern)
    # The standard library's re has no time limit, so the package regex is used.
    return compiled.search(text, timeout=_SEARCH_S) is not None


def _check_schema(schema: Mapping[str, object] | bool) -> None:
    import jsonschema

    try:
        if len(json.dumps(schema)) > _MAX_CHARS:
            raise EngineError("The schema is too long: at most {n} characters.", n=_MAX_CHARS)
        jsonschema.Draft202012Validator.check_schema(schema)
        # A reference that cannot be resolved raises only when a value is checked.
        _is_valid(schema, {})
        _is_valid(schema, [])
    except EngineError:
        raise
    except jsonschema.SchemaError as error:
        raise EngineError("The schema is not valid: {why}.", why=error.message[:200]) from None
    except Exception as error:
        raise EngineError(
            "The schema cannot be used: {why}.", why=str(error)[:200] or type(error).__name__
        ) from None


def _is_valid(schema: Mapping[str, object] | bool, value: object) -> bool:
    """Return whether a value satisfies a schema.

    Raises:
        _LimitError: the limits were reached.
    """
    from referencing import Registry

    # An empty registry: jsonschema's default one fetches the addresses of references.
    registry: Any = Registry()  # pyright: ignore[reportUnknownArgumentType]
    return _validator_class()(schema, registry=registry).is_valid(value)


def _validator_class() -> Any:
    """Return the validator of one check: it counts references, and its patterns have a limit."""
    from jsonschema import Draft202012Validator, ValidationError, validators

    followed = 0
    follow = Draft202012Validator.VALIDATORS

    def count(name: str) -> Callable[..., Iterator[Any]]:
        def lookup(validator: Any, ref: Any, instance: Any, schema: Any) -> Iterator[Any]:
            nonlocal followed
            followed += 1
            if followed > _MAX_LOOKUPS:
                raise _LimitError
            yield from follow[name](validator, ref, instance, schema) or ()

        return lookup

    def search(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
        del schema
        if validator.is_type(instance, "string") and not _search("pattern", pattern, instance):
            yield ValidationError(f"{instance!r} does not match {pattern!r}")

    def search_names(
        validator: Any, patterns: Mapping[str, Any], instance: Any, schema: Any
    ) -> Iterator[Any]:
        del schema
        for pattern, subschema in patterns.items() if validator.is_type(instance, "object") else ():
            for name, value in instance.items():
                if _search("pattern", pattern, name):
                    yield from validator.descend(value, subschema, path=name, schema_path=pattern)

    return validators.extend(
        Draft202012Validator,
        {
            "$ref": count("$ref"),
            "$dynamicRef": count("$dynamicRef"),
            "pattern": search,
            "patternProperties": search_names,
        },
    )
