"""Formats Waiting, Paused, Loading and Checking events as sentences, the same for page and command line."""

from __future__ import annotations

from engine.messages import Message, join_messages, join_words
from engine.run.rate import format_time_left
from engine.sources.catalogue import CATALOGUE
from engine.trace.events import Checking, Loading, Paused, Progress, Waiting


def format_progress(event: Progress) -> str:
    """Return the sentence of an event; ongoing work ends with an ellipsis."""
    match event:
        case Paused(_, expected):
            return _format_pause(round(expected or 0))
        case Waiting(position, expected):
            return _format_waiting(position, round(expected or 0))
        case Loading(model, got, total, per_s) if total:
            values = {
                "model": _model_title(model),
                "got": f"{got / 1e6:.0f}",
                "total": f"{total / 1e6:.0f}",
                "left": format_time_left(got, total, per_s),
                "evicted": _format_eviction_suffix(event),
            }
            return Message("Fetching {model}: {got} of {total} MB{left}{evicted}…", **values)
        case Loading(model, converting=backend) if backend:
            return Message(
                "Converting {model} for {backend}, once{evicted}…",
                model=_model_title(model),
                backend=backend,
                evicted=_format_eviction_suffix(event),
            )
        case Loading(model):
            return Message(
                "Loading {model}{evicted}…",
                model=_model_title(model),
                evicted=_format_eviction_suffix(event),
            )
        case Checking(done, total, what):
            return Message("Checking {done} of {total}: {what}", done=done, total=total, what=what)


def _format_waiting(position: int, seconds: int) -> Message:
    # An estimate that has reached 0 is left out.
    if not seconds:
        if position == 1:
            return Message("Waiting: 1 run before yours")
        return Message("Waiting: {n} runs before yours", n=position)
    if position == 1:
        return Message("Waiting: 1 run before yours, about {s} s", s=seconds)
    return Message("Waiting: {n} runs before yours, about {s} s", n=position, s=seconds)


def _format_pause(seconds: int) -> Message:
    if not seconds:
        return Message("Paused while another visitor has a turn. Yours goes on soon…")
    return Message(
        "Paused while another visitor has a turn. Yours goes on in about {s} s…", s=seconds
    )


def format_evictions(event: Loading) -> tuple[str, ...]:
    """Return a phrase per place (memory, disk) that names the models evicted from it."""
    return tuple(
        Message(template, models=join_words(list(map(_model_title, models))))
        for template, models in (
            ("{models} left memory to make room", event.left_memory),
            ("{models} left the disk to make room", event.left_disk),
        )
        if models
    )


def _format_eviction_suffix(event: Loading) -> str:
    evictions = join_messages(format_evictions(event), "; ")
    return Message("; {evictions}", evictions=evictions) if evictions else ""


def _model_title(model: str) -> str:
    return CATALOGUE[model].title.removesuffix(" (embedded)") if model in CATALOGUE else model


def format_restart(step: int) -> str:
    """Return the sentence for a restart after a run differed on another replica."""
    if step == 1:
        return Message(
            "The replica of this run was lost. Repeated on another one, the run differed after "
            "1 step, so it was started again."
        )
    return Message(
        "The replica of this run was lost. Repeated on another one, the run differed after "
        "{steps} steps, so it was started again.",
        steps=step,
    )
