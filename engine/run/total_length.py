"""``max_length`` and ``min_length``: transformers' limits of prompt and text together.

generate() turns them into limits of new tokens as soon as it knows the prompt. So does a run: its record
has max_new_tokens and min_new_tokens.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.declare.params import Integer, Param
from engine.errors import ParameterError
from engine.messages import Message
from engine.settings import SETTINGS

MAX_LENGTH, MIN_LENGTH = "max_length", "min_length"
_LONGEST = SETTINGS.max_prompt_tokens + SETTINGS.max_new_tokens
TOTAL_LENGTHS: dict[str, Param] = {
    MAX_LENGTH: Integer(
        label="Total tokens",
        help="The longest prompt and text together. max_new_tokens comes first, if both are set.",
        minimum=1,
        maximum=_LONGEST,
        optional=True,
    ),
    MIN_LENGTH: Integer(
        label="Least total tokens",
        help="The shortest prompt and text together. min_new_tokens comes first, if both are set.",
        minimum=0,
        maximum=_LONGEST,
        optional=True,
    ),
}
_NEW_TOKENS = {MAX_LENGTH: "max_new_tokens", MIN_LENGTH: "min_new_tokens"}


def take_total_lengths(values: dict[str, object]) -> tuple[dict[str, int], list[str]]:
    """Take the total lengths out of a request's values; return them, and a note for each that does not count.

    Raises:
        ParameterError: one is out of range.
    """
    found: dict[str, int] = {}
    notes: list[str] = []
    for name, kind in TOTAL_LENGTHS.items():
        value = kind.check(name, values.pop(name, None))
        other = _NEW_TOKENS[name]
        if value is not None and values.get(other) is not None:
            template = "{name} = {value} is not used, as {other} is set; so it is in generate()."
            notes.append(Message(template, name=name, value=value, other=other))
        elif value is not None:
            found[name] = value
    return found, notes


def count_new_tokens(lengths: Mapping[str, int], prompt_length: int) -> dict[str, int]:
    """Return max_new_tokens and min_new_tokens for total lengths.

    Args:
        lengths: from ``take_total_lengths``.
        prompt_length: tokens of the prompt; 1, the start token, for an encoder-decoder model.

    Raises:
        ParameterError: the prompt fills the length, or leaves more new tokens than a run may have.
    """
    found = {}
    most = SETTINGS.max_new_tokens
    if MAX_LENGTH in lengths:
        found["max_new_tokens"] = left = lengths[MAX_LENGTH] - prompt_length
        if not 1 <= left <= most:
            low, high = prompt_length + 1, prompt_length + most
            allowed = Message(
                "with this prompt it must be from {low} to {high}, as it counts the prompt",
                low=low,
                high=high,
            )
            raise ParameterError(MAX_LENGTH, lengths[MAX_LENGTH], allowed)
    if MIN_LENGTH in lengths:
        # The prompt alone may be long enough.
        found["min_new_tokens"] = max(0, lengths[MIN_LENGTH] - prompt_length)
    return found


def describe_lengths(lengths: Mapping[str, int], found: Mapping[str, int]) -> list[str]:
    """Return a note for each total length that says what it became."""
    return [
        Message(
            "{name} = {value} counts the prompt, too, so {other} = {new}.",
            name=name,
            value=value,
            other=_NEW_TOKENS[name],
            new=found[_NEW_TOKENS[name]],
        )
        for name, value in lengths.items()
    ]
