"""Formats Waiting, Loading and Checking events as sentences, the same for page and command line."""

from __future__ import annotations

from engine.run.rate import format_time_left
from engine.sources.catalogue import CATALOGUE
from engine.trace.events import Checking, Loading, Progress, Waiting


def format_progress(event: Progress) -> str:
    """Return the sentence of an event; ongoing work ends with an ellipsis."""
    match event:
        case Waiting(position, expected):
            runs = "1 run" if position == 1 else f"{position} runs"
            # An estimate that has reached 0 is left out.
            about = f", about {round(expected)} s" if expected and round(expected) else ""
            return f"Waiting: {runs} before yours{about}"
        case Loading(model, got, total, per_s) if total:
            left = format_time_left(got, total, per_s)
            come = f"{got / 1e6:.0f} of {total / 1e6:.0f} MB{left}"
            return f"Fetching {_model_title(model)}: {come}{_format_eviction_suffix(event)}…"
        case Loading(model, converting=backend) if backend:
            return f"Converting {_model_title(model)} for {backend}, once{_format_eviction_suffix(event)}…"
        case Loading(model):
            return f"Loading {_model_title(model)}{_format_eviction_suffix(event)}…"
        case Checking(done, total, what):
            return f"Checking {done} of {total}: {what}"


def format_evictions(event: Loading) -> tuple[str, ...]:
    """Return a phrase per place (memory, disk) that names the models evicted from it."""
    places = (("memory", event.left_memory), ("the disk", event.left_disk))
    return tuple(
        f"{' and '.join(map(_model_title, models))} left {place} to make room"
        for place, models in places
        if models
    )


def _format_eviction_suffix(event: Loading) -> str:
    return "".join(f"; {said}" for said in format_evictions(event))


def _model_title(model: str) -> str:
    return CATALOGUE[model].title.removesuffix(" (embedded)") if model in CATALOGUE else model


def format_restart(step: int) -> str:
    """Return the sentence for a restart after a run differed on another replica."""
    same = "1 step" if step == 1 else f"{step} steps"
    return (
        "The replica of this run was lost, and on another one it came out differently"
        f" after {same}; it was started anew."
    )
