"""Reads and validates the fields of a part of a lesson's YAML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from engine.errors import format_value
from engine.lessons.lesson import LessonError
from engine.messages import Message


class FieldReader:
    """Reads and checks the fields of one YAML mapping.

    Args:
        given: the mapping from YAML.
        where: position in the file; starts every error message.
        names: the allowed names.

    Raises:
        LessonError: `given` is no mapping, or it has an unknown name.
    """

    def __init__(self, given: object, where: str, names: Iterable[str]) -> None:
        known = sorted(names)
        if not isinstance(given, Mapping):
            raise LessonError(
                "{where} has to be names with values, of {known}.",
                where=where,
                known=", ".join(known),
            )
        self.given, self.where = given, where
        for name in given:
            if name not in known:
                raise LessonError(
                    "{expression}: {refused}.",
                    expression=where,
                    refused=Message(
                        "there is no {name}, but {there}",
                        name=format_value(name),
                        there=", ".join(known),
                    ),
                )

    def field_error(self, name: str, allowed: str) -> LessonError:
        """Return (not raise) the error for an invalid field."""
        return LessonError(
            "{where}: {parameter} = {got} is not allowed: {allowed}.",
            where=self.where,
            parameter=name,
            got=format_value(self.given.get(name)),
            allowed=allowed,
        )

    def value(self, name: str, default: Any = None) -> Any:
        """Return the raw value of a field."""
        return self.given.get(name, default)

    def text(self, name: str, default: str | None = None, most: int = 300) -> str:
        """Return a stripped text of at most `most` characters; without a default it is required."""
        value = self.given.get(name, default)
        if (
            not isinstance(value, str)
            or len(value) > most
            or (default is None and not value.strip())
        ):
            raise self.field_error(
                name,
                Message(
                    "it must be text of {least} to {most} characters",
                    least=1 if default is None else 0,
                    most=most,
                ),
            )
        # A field named "text" may be a token, whose spaces matter.
        return value.strip() if name not in ("text",) else value

    def expression(self, name: str) -> str:
        """Return an expression, empty if missing; a number is converted to text."""
        value = self.given.get(name, "")
        if type(value) in (int, float):
            return repr(value)
        if not isinstance(value, str) or len(value) > 300:
            raise self.field_error(name, "it must be an expression of at most 300 characters")
        return value.strip()

    def integer(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """Return an integer from `low` to `high`."""
        value = self.given.get(name, default)
        # type(), because bool is a subclass of int.
        if type(value) is not int or not low <= value <= high:
            raise self.field_error(
                name,
                Message(
                    "it must be a whole number from {low} to {high}", low=low, high=f"{high:,}"
                ),
            )
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """Return a number below 1e12 in absolute value."""
        value = self.given.get(name, default)
        if type(value) not in (int, float) or not abs(value) < 1e12:
            raise self.field_error(name, "it must be a number")
        return float(value)

    def one_of(self, name: str, choices: tuple[str, ...], default: str | None = None) -> str:
        """Return one of `choices`."""
        value = self.given.get(name, default)
        if value not in choices:
            raise self.field_error(
                name,
                Message("it must be one of {choices}", choices=", ".join(filter(None, choices))),
            )
        return str(value)

    def texts(self, name: str, most: int) -> tuple[str, ...]:
        """Return at most `most` texts; a single text needs no list."""
        value = self.given.get(name, [])
        listed = [value] if isinstance(value, str) else value
        if (
            not isinstance(listed, list)
            or len(listed) > most
            or not all(isinstance(t, str) for t in listed)
        ):
            raise self.field_error(
                name, Message("it must be a list of {most} texts at most", most=most)
            )
        return tuple(listed)
