"""Parameter kinds; a Param defines the widget, the validation, the help and the CLI flag.

A strategy's config is a frozen dataclass with fields made by ``param(...)``. This module does not
import torch.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard

from engine.declare.groups import GROUPS, MAIN_GROUP, require_one_of
from engine.errors import ParameterError, format_value, suggest_name
from engine.messages import Message
from engine.type_guards import is_list, is_mapping


@dataclass(frozen=True, kw_only=True)
class Param:
    """Base of all parameter kinds.

    Attributes:
        label: two or three words for the control.
        plain_label: the label as a strategy's dial, in everyday words; empty if ``label`` is plain.
        help: one sentence on its effect.
        group: a name in declare.groups.GROUPS; main is always visible, the others are collapsed.
        optional: None is valid and means "off".
        papers: arXiv numbers of the papers behind it.

    Raises:
        ValueError: unknown group.
    """

    label: str
    plain_label: str = ""
    help: str
    group: str = MAIN_GROUP
    optional: bool = False
    papers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_one_of(f"The group of {self.label!r}", self.group, GROUPS)

    def describe_range(self) -> str:
        """Return the valid range in words."""
        raise NotImplementedError

    def parse(self, value: object) -> Any:
        """Return the value in its normal form, or raise TypeError / ValueError."""
        raise NotImplementedError

    def check(self, name: str, value: object) -> Any:
        """Return the normal form of a value, or raise a ParameterError that names the range."""
        if value is None and self.optional:
            return None
        try:
            return self.parse(value)
        except (TypeError, ValueError, OverflowError):
            template = (
                "it must be {range}, or null for off" if self.optional else "it must be {range}"
            )
            allowed = Message(template, range=self.describe_range())
            raise ParameterError(name, value, allowed) from None


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@dataclass(frozen=True, kw_only=True)
class Number(Param):
    """A finite float within [minimum, maximum]; bounds may be exclusive."""

    minimum: float
    maximum: float
    step: float = 0.01
    above_minimum: bool = False
    below_maximum: bool = False
    slider_maximum: float | None = None

    def describe_range(self) -> str:
        low, high = f"{self.minimum:g}", f"{self.maximum:g}"
        if self.above_minimum and self.below_maximum:
            return Message("a number above {low} and below {high}", low=low, high=high)
        if self.above_minimum:
            return Message("a number above {low} and at most {high}", low=low, high=high)
        if self.below_maximum:
            return Message("a number at least {low} and below {high}", low=low, high=high)
        return Message("a number at least {low} and at most {high}", low=low, high=high)

    def parse(self, value: object) -> float:
        if not _is_number(value) or not math.isfinite(value):
            raise TypeError
        value = float(value)
        low_ok = value > self.minimum if self.above_minimum else value >= self.minimum
        high_ok = value < self.maximum if self.below_maximum else value <= self.maximum
        if not (low_ok and high_ok):
            raise ValueError
        return value


@dataclass(frozen=True, kw_only=True)
class Integer(Param):
    """A whole number within [minimum, maximum]; bools and floats are refused."""

    minimum: int
    maximum: int
    step: int = 1
    slider_maximum: int | None = None

    def describe_range(self) -> str:
        return Message("a whole number from {low} to {high}", low=self.minimum, high=self.maximum)

    def parse(self, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError
        if not self.minimum <= value <= self.maximum:
            raise ValueError
        return value


@dataclass(frozen=True, kw_only=True)
class Flag(Param):
    """True or False; no other truthy values."""

    def describe_range(self) -> str:
        return "true or false"

    def parse(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise TypeError
        return value


@dataclass(frozen=True, kw_only=True)
class Choice(Param):
    """One of a few values; the type must match, so 1 is not True."""

    choices: tuple[object, ...]

    def describe_range(self) -> str:
        choices = ", ".join(_format_choice(choice) for choice in self.choices)
        return Message("one of {choices}", choices=choices)

    def parse(self, value: object) -> Any:
        for choice in self.choices:
            if type(choice) is type(value) and choice == value:
                return choice
        raise ValueError


def _format_choice(value: object) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


@dataclass(frozen=True, kw_only=True)
class Text(Param):
    """A text of bounded length."""

    maximum_length: int = 8000

    def describe_range(self) -> str:
        return Message("text of 1 to {most} characters", most=self.maximum_length)

    def parse(self, value: object) -> str:
        return parse_text(value, self.maximum_length)


def parse_text(value: object, maximum_length: int) -> str:
    """Return a text of bounded length, or raise TypeError / ValueError."""
    if not isinstance(value, str):
        raise TypeError
    if not 1 <= len(value) <= maximum_length:
        raise ValueError
    value.encode("utf-8")  # a lone surrogate raises UnicodeEncodeError, a ValueError
    return value


@dataclass(frozen=True, kw_only=True)
class Strings(Param):
    """A short list of texts; an empty list means off."""

    maximum_items: int = 8
    maximum_length: int = 64

    def describe_range(self) -> str:
        return Message(
            "a list of up to {n} texts of 1 to {most} characters",
            n=self.maximum_items,
            most=self.maximum_length,
        )

    def parse(self, value: object) -> tuple[str, ...] | None:
        items = [value] if isinstance(value, str) else value
        if not is_list(items):
            raise TypeError
        if len(items) > self.maximum_items:
            raise ValueError
        return tuple(parse_text(item, self.maximum_length) for item in items) or None


@dataclass(frozen=True, kw_only=True)
class TokenIds(Param):
    """A list of token ids."""

    minimum_items: int = 1
    maximum_items: int = 2048

    def describe_range(self) -> str:
        return Message(
            "a list of {low} to {high} token ids of the vocabulary",
            low=self.minimum_items,
            high=self.maximum_items,
        )

    def parse(self, value: object) -> tuple[Any, ...]:
        # transformers accepts a single id, too.
        items = [value] if isinstance(value, int) and not isinstance(value, bool) else value
        if not is_list(items):
            raise TypeError
        if not self.minimum_items <= len(items) <= self.maximum_items:
            raise ValueError
        return tuple(self.parse_item(item) for item in items)

    def parse_item(self, item: object) -> Any:
        """Return one item in its normal form, or raise TypeError / ValueError."""
        return parse_token_id(item)


def parse_token_id(value: object) -> int:
    """Return a token id; refuse bools, floats and negative numbers."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError
    if value < 0:
        raise ValueError
    return value


TokenSequence: TypeAlias = "str | tuple[int | TokenSequence, ...]"
"""A text, a sequence of token ids, or a list of alternative ones."""


@dataclass(frozen=True, kw_only=True)
class TokenLists(Param):
    """A list of sequences; each is a list of token ids or a text."""

    maximum_items: int = 64
    maximum_length: int = 64
    nested: bool = False
    """Whether an entry may be a list of alternatives (constrained beam search)."""

    def describe_range(self) -> str:
        return Message(
            "a list of 1 to {n} entries, each a text or a list of 1 to {most} token ids "
            "of the vocabulary",
            n=self.maximum_items,
            most=self.maximum_length,
        )

    def parse(self, value: object) -> tuple[TokenSequence, ...]:
        if not is_list(value):
            raise TypeError
        if not 1 <= len(value) <= self.maximum_items:
            raise ValueError
        return tuple(self._parse_entry(entry, self.nested) for entry in value)

    def _parse_entry(self, entry: object, nested: bool) -> TokenSequence:
        if isinstance(entry, str):
            return parse_text(entry, self.maximum_length)
        if not is_list(entry):
            raise TypeError
        if not 1 <= len(entry) <= self.maximum_length:
            raise ValueError
        if nested and isinstance(entry[0], (list, tuple, str)):
            return tuple(self._parse_entry(item, False) for item in entry)
        return tuple(parse_token_id(item) for item in entry)


@dataclass(frozen=True, kw_only=True)
class Biases(Param):
    """Sequence biases: [[[3, 4], 1.0], …], or a mapping of id tuples to numbers."""

    maximum_items: int = 64

    def describe_range(self) -> str:
        return Message(
            "a list of 1 to {n} pairs [token ids or text, finite bias from -1000 to 1000]",
            n=self.maximum_items,
        )

    def parse(self, value: object) -> tuple[tuple[TokenSequence, float], ...]:
        items = list(value.items()) if is_mapping(value) else value
        if not is_list(items):
            raise TypeError
        if not 1 <= len(items) <= self.maximum_items:
            raise ValueError
        return tuple(self._parse_pair(item) for item in items)

    def _parse_pair(self, item: object) -> tuple[TokenSequence, float]:
        if not is_list(item) or len(item) != 2:
            raise TypeError
        ids, bias = item
        if not _is_number(bias) or not math.isfinite(bias) or abs(bias) > 1000:
            raise ValueError
        if isinstance(ids, str):
            return parse_text(ids, 64), float(bias)
        if not is_list(ids):
            raise TypeError
        if not 1 <= len(ids) <= 64:
            raise ValueError
        return tuple(parse_token_id(item) for item in ids), float(bias)


@dataclass(frozen=True, kw_only=True)
class Decay(Param):
    """(start, factor) of exponential_decay_length_penalty."""

    def describe_range(self) -> str:
        return "a pair [start from 0 to 100000, factor from 0.5 to 10]"

    def parse(self, value: object) -> tuple[int, float]:
        if not is_list(value):
            raise TypeError
        start, factor = value
        if not isinstance(start, int) or isinstance(start, bool) or not _is_number(factor):
            raise TypeError
        if not (0 <= start <= 100_000 and 0.5 <= factor <= 10):
            raise ValueError
        return start, float(factor)


@dataclass(frozen=True, kw_only=True)
class AllowedTokens(Param):
    """Allowed outputs: a callable (Python only) or a list of continuations."""

    def describe_range(self) -> str:
        return "a list of 1 to 64 allowed continuations, each a text or a list of 1 to 64 token ids"

    def parse(self, value: object) -> Callable[..., object] | tuple[TokenSequence, ...]:
        if callable(value):
            return value
        return TokenLists(label=self.label, help=self.help).parse(value)


def param(kind: Param, default: object) -> Any:
    """Declare a config field as a parameter."""
    return dataclasses.field(default=default, metadata={"param": kind})


def params_of(config_class: type) -> dict[str, Param]:
    """Return the parameters of a config class by name, in declaration order."""
    fields = dataclasses.fields(config_class)
    return {f.name: f.metadata["param"] for f in fields if "param" in f.metadata}


def defaults_of(config_class: type) -> dict[str, Any]:
    """Return the default of every parameter."""
    return {f.name: f.default for f in dataclasses.fields(config_class) if "param" in f.metadata}


def build_config(config_class: type, values: Mapping[str, object], owner: str) -> Any:
    """Return a config made from a user's values.

    Args:
        config_class: a frozen dataclass made with ``param``.
        values: names and raw values.
        owner: the strategy's name, for messages.

    Raises:
        ParameterError: unknown name, value outside its range, or a failed ``config.check()``.
    """
    known = params_of(config_class)
    checked: dict[str, object] = {}
    for name, value in values.items():
        if name not in known:
            raise _unknown_parameter(name, value, known, owner)
        checked[name] = known[name].check(name, value)
    config = config_class(**checked)
    config.check()
    return config


def _unknown_parameter(
    name: object, value: object, known: Mapping[str, Param], owner: str
) -> ParameterError:
    main = [n for n, kind in known.items() if kind.group == MAIN_GROUP]
    hint = suggest_name(name, known) or Message(
        "{owner} knows {names} and {n} more",
        owner=owner,
        names=", ".join(main),
        n=len(known) - len(main),
    )
    if not (isinstance(name, str) and name.isascii() and name.isidentifier() and len(name) <= 64):
        name = format_value(name)
    return ParameterError(name, value, Message("{owner} has no such parameter", owner=owner), hint)
