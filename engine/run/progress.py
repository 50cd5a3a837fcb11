"""What Waiting, Loading and Checking say to a reader: one sentence each, the same everywhere."""

from __future__ import annotations

from engine.models.catalogue import CATALOGUE
from engine.run.rate import rest
from engine.trace.events import Checking, Loading, Progress, Waiting


def says(event: Progress) -> str:
    """Return the sentence of an event; what is still going on ends with an ellipsis."""
    match event:
        case Waiting(position, expected):
            runs = "1 run" if position == 1 else f"{position} runs"
            # An estimate that has run out says nothing any more.
            about = f", about {round(expected)} s" if expected and round(expected) else ""
            return f"Waiting: {runs} before yours{about}"
        case Loading(model, got, total, per_s) if total:
            left = rest(got, total, per_s)
            return f"Fetching {_title(model)}: {got / 1e6:.0f} of {total / 1e6:.0f} MB{left}…"
        case Loading(model):
            return f"Loading {_title(model)}…"
        case Checking(done, total, what):
            return f"Checking {done} of {total}: {what}"


def _title(model: str) -> str:
    return CATALOGUE[model].title.removesuffix(" (embedded)") if model in CATALOGUE else model
