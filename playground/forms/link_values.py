"""Reading the single values of a link."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from engine.analysis import gallery
from engine.declare.params import params_of
from engine.declare.weights import weights_params
from engine.errors import ParameterError
from engine.lessons import library
from engine.live.plan import SAMPLER, STRATEGIES_OF_SERVERS, check_sampler
from engine.messages import Message
from engine.run.request import MAX_SEED
from engine.sources.endpoint_address import PREFIX
from engine.strategies.base import Strategy
from playground.forms import controls
from playground.forms.form import form_weights

_MAX_PARAMS_CHARS = 8000
_MAX_IDS_CHARS = 40_000
_MAX_STEP = 1_000_000


def read_seed(text: str) -> int:
    """Return the seed that a link names."""
    if not (text.isascii() and text.isdigit()) or int(text[:20]) > MAX_SEED:
        raise ParameterError(
            "seed",
            text[:40],
            Message("it must be a whole number from 0 to {most}", most=MAX_SEED),
        )
    return int(text)


def read_step(text: str | None, name: str = "step") -> int | None:
    """Return a step, counted from 1, or None if the link names none."""
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:9]) <= _MAX_STEP:
        raise ParameterError(name, text[:40], "steps are whole numbers from 1")
    return int(text[:9])


def join_ids(ids: Sequence[int]) -> str:
    """Return token ids separated by dots; the inverse of ``read_ids``."""
    return ".".join(map(str, ids))


def read_ids(name: str, text: str) -> list[int]:
    """Return token ids that are separated by dots."""
    parts = text[:_MAX_IDS_CHARS].split(".") if text else []
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise ParameterError(name, text[:40], "it must be token ids with dots between them")
    return [int(part) for part in parts]


def unknown_recording(name: str) -> ParameterError:
    """Return the error of a link to a recording that does not exist; it names the most similar one."""
    known = [entry.name for entry in gallery.list_entries()]
    similar = (difflib.get_close_matches(name[:40], known, n=1, cutoff=0.0) or ["greedy-1"])[0]
    allowed = Message("it must be the name of a recording, such as {example}", example=similar)
    return ParameterError("trace", name[:40], allowed)


def unknown_lesson(name: str) -> ParameterError:
    """Return the error of a link to a lesson that does not exist; it names those that do."""
    known = ", ".join(sorted(library.list_lesson_files()))
    allowed = Message("it must be one of {choices}", choices=known)
    return ParameterError("lesson", name[:40], allowed)


def read_params(
    text: str, strategy: Strategy, model: object
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the strategy parameters and the weight parameters of a link to a run of a model."""
    try:
        params = json.loads(text[:_MAX_PARAMS_CHARS])
    except (ValueError, RecursionError):
        params = None
    if not isinstance(params, dict):
        raise ParameterError("params", text[:40], "the link's params must be a JSON object")
    known = params_of(strategy.config)
    read = {
        name: controls.from_control(name, known[name], params[name])
        for name in params
        if name in known
    }
    drafted = strategy.assistant != "none"
    weights = form_weights(strategy, {n: params[n] for n in params if n in weights_params(drafted)})
    checked = {name: known[name].check(name, value) for name, value in read.items()}
    return {**checked, **read_sampler(params, strategy, model)}, weights


def read_sampler(params: Mapping[str, Any], strategy: Strategy, model: object) -> dict[str, Any]:
    """Return who draws the tokens of a model behind an address; empty for any other model."""
    addressed = isinstance(model, str) and model.startswith(PREFIX)
    chosen = addressed and strategy.name in STRATEGIES_OF_SERVERS
    if SAMPLER not in params or not chosen:
        return {}
    return {SAMPLER: check_sampler(params[SAMPLER])}
