"""The record of masked diffusion: a text whose hidden places are filled in any order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import TraceError
from engine.settings import SETTINGS
from engine.trace import checks
from engine.trace.json_io import read_trace_file, read_value, to_dict
from engine.trace.records import ModelInfo
from engine.trace.value_types import Probability, Seconds, TokenId

DIFFUSION_SCHEMA = "decoding-diffusion/1"


@dataclass(frozen=True, slots=True)
class Guess:
    """What the model would write at one hidden place."""

    position: int
    """Place in the whole text, from 0."""
    token_id: TokenId
    probability: Probability
    """The model's own probability of the token, before the temperature."""
    entropy: float
    """Of the model's distribution at this place, in nats."""
    committed: bool
    """Whether the token was written; otherwise the place stays hidden, and is guessed again."""


@dataclass(frozen=True, slots=True)
class DiffusionStep:
    """One forward pass: a guess for every hidden place of the block, some of which are written."""

    block: int
    """Number of the block, from 0."""
    guesses: tuple[Guess, ...]
    """By position."""
    elapsed_s: Seconds
    """Seconds from the start of the run to the end of the step."""

    @property
    def committed(self) -> tuple[Guess, ...]:
        """The guesses that were written."""
        return tuple(guess for guess in self.guesses if guess.committed)


@dataclass(frozen=True)
class DiffusionTrace:
    """A whole run: enough to draw and replay it without a model."""

    model: ModelInfo
    seed: int
    config: dict[str, Any]
    given_ids: tuple[TokenId | None, ...]
    """The text before the first step; None at a hidden place."""
    pieces: dict[int, str]
    """Token id -> its piece of text."""
    steps: tuple[DiffusionStep, ...]
    text: str
    """The text after the last step."""

    def ids_after(self, steps: int) -> list[int | None]:
        """Return the ids after so many steps, None at a place that is still hidden."""
        ids = list(self.given_ids)
        for step in self.steps[:steps]:
            for guess in step.committed:
                ids[guess.position] = guess.token_id
        return ids

    def revisions(self) -> dict[int, int]:
        """Return position -> how often its guess changed before it was written."""
        last: dict[int, int] = {}
        changes: dict[int, int] = {}
        for step in self.steps:
            for guess in step.guesses:
                before = last.get(guess.position, guess.token_id)
                known = changes.get(guess.position, 0)
                changes[guess.position] = known + (before != guess.token_id)
                last[guess.position] = guess.token_id
        return changes


def dumps(trace: DiffusionTrace) -> str:
    """Return the trace as one line of strict JSON."""
    whole = {"schema": DIFFUSION_SCHEMA, **to_dict(trace)}
    return json.dumps(whole, allow_nan=False, separators=(",", ":"))


def save(trace: DiffusionTrace, path: str | Path) -> None:
    """Write a record as JSON.

    Raises:
        TraceError: the file cannot be written.
    """
    try:
        Path(path).write_text(dumps(trace), "utf-8")
    except OSError as error:
        raise TraceError("The trace could not be written: {why}.", why=error.strerror) from None


def load(path: str | Path) -> DiffusionTrace:
    """Read and validate a file.

    Raises:
        TraceError: it cannot be read, or is no valid record.
    """
    return loads(read_trace_file(path))


def loads(data: bytes | str) -> DiffusionTrace:
    """Read and validate a record from JSON, optionally gzipped.

    Raises:
        TraceError: it is no valid record; the message names the place.
    """
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    found = checks.read_json_strict(raw, SETTINGS.max_trace_bytes)
    if not isinstance(found, dict) or found.get("schema") != DIFFUSION_SCHEMA:
        raise TraceError(
            "A record of masked diffusion is a JSON object with the schema {schema}.",
            schema=repr(DIFFUSION_SCHEMA),
        )
    fields = {name: value for name, value in found.items() if name != "schema"}
    trace: DiffusionTrace = read_value(fields, DiffusionTrace, "trace")
    for where, problem in _find_problems(trace):
        raise TraceError("{where} is not valid: {why}.", where=where, why=problem)
    return trace


def _find_problems(trace: DiffusionTrace) -> Iterator[tuple[str, str]]:
    """Yield (place, what is wrong) of a record whose types are right."""
    hidden = {place for place, one in enumerate(trace.given_ids) if one is None}
    unknown = {one for one in trace.given_ids if one is not None} - set(trace.pieces)
    if unknown:
        yield "trace.given_ids", "a token has no piece of text"
    for number, step in enumerate(trace.steps):
        where = f"trace.steps[{number}]"
        places = [guess.position for guess in step.guesses]
        if places != sorted(set(places)) or not set(places) <= hidden:
            yield where, "it guesses a place that is not hidden, or one place twice"
        if not all(0 <= guess.probability <= 1 and guess.entropy >= 0 for guess in step.guesses):
            yield where, "a probability or an entropy is out of range"
        if not {guess.token_id for guess in step.guesses} <= set(trace.pieces):
            yield where, "a token has no piece of text"
        # What is written stays, so no later step may guess there.
        hidden -= {guess.position for guess in step.committed}
