"""Endpoints for programs besides those of the strategies: detect a watermark, compare strategies, map dials."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from engine import DecodeRequest
from engine.analysis.dial_map.build import map_dial
from engine.analysis.dial_map.grid import MAX_ROWS, map_two_dials
from engine.analysis.watermark_detection import build_watermark_config, detect_text
from engine.errors import Cancelled, ParameterError
from engine.messages import Message
from engine.models.loading import load
from engine.strategies import STRATEGIES
from engine.trace.dial_grid_json import dial_grid_to_dict
from engine.trace.dial_map_json import dial_map_to_dict
from playground.jobs.page_events import RUN_QUEUE_ID
from playground.jobs.registry import JOBS, JobKind
from playground.jobs.zerogpu import on_gpu, queue_options
from playground.server.api import decode_to_end, split_params
from playground.server.api_schema import OBJECT, TEXT, TOOL_FIELDS
from playground.shell.endpoints import EndpointInput, add_typed_endpoint
from playground.shell.guard import guard_handler
from playground.shell.visitors import set_current_visitor

_MAX_COLUMNS, _MAX_SEEDS = 4, 5
_MAP = JobKind("api_dial_map", reconnects=False, stopped="Stopped: nobody waits for it any more.")
_Map = TypeVar("_Map")
_EXAMPLE_TEXT = "Once upon a time, there was a little girl named Lily. She loved to play outside."


def detect(
    text: str,
    model: str = "storyteller",
    params: dict[str, Any] | None = None,
    prompt: str | None = None,
) -> dict[str, Any]:
    """Judge whether a text has a watermark.

    Args:
        text: the text; its tokens are counted
        model: the model that may have written it; its tokenizer reads the text
        params: watermark settings such as scheme, hashing_key and z_threshold, or special_tokens
        prompt: a prompt at the start of the text, which is not counted

    Returns:
        the z-score, the p-value, the verdict, and the mark of every token
    """
    set_current_visitor()
    config = build_watermark_config(params if params is not None else {})
    loaded = load(model or "storyteller")
    found = detect_text(text, loaded, config, prompt=prompt)
    return found.to_dict(loaded.pieces.of(found.ids))


def compare(
    prompt: str,
    columns: list[dict[str, Any]],
    seeds: list[int] | None = None,
    model: str | None = None,
) -> dict[str, Any]:
    """Decode one prompt with several strategies and seeds.

    Args:
        prompt: the text to continue
        columns: 1 to 4 objects of a strategy's name and its params
        seeds: 1 to 5 seeds; [0] if none is given
        model: the model of all columns; each strategy's own if none is given

    Returns:
        runs, one for each column and seed: strategy, seed, outputs, metrics and notes
    """
    runs = []
    for column in _check_list("columns", columns, _MAX_COLUMNS):
        name = column.get("strategy") if isinstance(column, Mapping) else None
        if not isinstance(name, str) or not set(column) <= {"strategy", "params"}:
            raise ParameterError("columns", column, "each must be an object of strategy and params")
        for seed in _check_list("seeds", [0] if seeds is None else seeds, _MAX_SEEDS):
            found = decode_to_end(name, prompt, model, column.get("params"), seed)
            runs.append({"strategy": name, "seed": seed, **found})
    return {"runs": runs}


def dial_map(
    prompt: str,
    dial: str = "temperature",
    low: float = 0.1,
    high: float = 2.0,
    model: str | None = None,
    params: dict[str, Any] | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Map every text that a sampled run writes as one setting moves.

    Args:
        prompt: the text to continue
        dial: the setting that moves, such as temperature, top_p or min_p
        low: its lowest value
        high: its highest value
        model: a name of the catalogue or of the hub
        params: the other settings of sampling by name
        seed: same seed, same texts; 0 or more

    Returns:
        the map as docs/dial_map.schema.json describes it
    """
    request = _map_request(prompt, model, params, seed)
    given = _read_range(dial, low, high)
    return dial_map_to_dict(_finish_map(lambda stop: map_dial(request, *given, cancelled=stop)))


def dial_grid(
    prompt: str,
    dial: str = "temperature",
    low: float = 0.1,
    high: float = 2.0,
    second: str = "top_p",
    values: list[float] | None = None,
    model: str | None = None,
    params: dict[str, Any] | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Map every text that a sampled run writes as two settings move.

    Args:
        prompt: the text to continue
        dial: the setting that moves along a row: temperature, top_p, top_k or min_p
        low: its lowest value
        high: its highest value
        second: another of these; each of its values has a row
        values: its values, 2 to 41, ascending; 20 of its slider if none is given
        model: a name of the catalogue or of the hub
        params: the other settings of sampling by name
        seed: same seed, same texts; 0 or more

    Returns:
        the map as docs/dial_grid.schema.json describes it
    """
    request = _map_request(prompt, model, params, seed)
    given = (
        *_read_range(dial, low, high),
        "top_p" if second is None else second,
        None if values is None else _check_list("values", values, MAX_ROWS),
    )
    return dial_grid_to_dict(
        _finish_map(lambda stop: map_two_dials(request, *given, cancelled=stop))
    )


def _map_request(prompt: str, model: str | None, params: Any, seed: int | None) -> DecodeRequest:
    set_current_visitor()
    settings, weights = split_params(params if params is not None else {})
    return DecodeRequest(
        "sampling",
        model,
        prompt,
        params=settings,
        weights=weights,
        seed=0 if seed is None else seed,
    )


def _read_range(
    dial: str | None, low: float | None, high: float | None
) -> tuple[str, float, float]:
    """Return a dial and its ends; a call by position may end early."""
    return (
        "temperature" if dial is None else dial,
        0.1 if low is None else low,
        2.0 if high is None else high,
    )


def _finish_map(create: Callable[[threading.Event], Iterator[_Map]]) -> _Map:
    """Return the last of the growing maps.

    Raises:
        Cancelled: the job was stopped.
    """
    found = None
    with JOBS.run(_MAP) as job:
        for growing in create(job.cancelled):
            found = growing
        if found is None or job.cancelled.is_set():
            raise Cancelled
    return found


def _check_list(name: str, values: Any, most: int) -> list[Any]:
    if not isinstance(values, list) or not 1 <= len(values) <= most:
        allowed = Message("it must be a list of 1 to {most}", most=most)
        raise ParameterError(name, values, allowed)
    return values


_NUMBER, _INTEGER = {"type": "number"}, {"type": "integer"}
_COLUMN = {
    "type": "object",
    "properties": {
        "strategy": {"type": "string", "enum": list(STRATEGIES)},
        "params": OBJECT,
    },
}
_DIAL = {
    "prompt": EndpointInput(TEXT, "Once upon a time"),
    "dial": EndpointInput(TEXT, "temperature", "temperature"),
    "low": EndpointInput(_NUMBER, 0.1, 0.1),
    "high": EndpointInput(_NUMBER, 2.0, 2.0),
}
_MAP_RUN = {
    "model": EndpointInput(TEXT, "storyteller", "storyteller"),
    "params": EndpointInput(OBJECT, {"max_new_tokens": 8}, {"max_new_tokens": 8}),
    "seed": EndpointInput({"type": "integer", "minimum": 0}, 0, 0),
}
_TOOLS: Mapping[str, tuple[Callable[..., dict[str, Any]], Mapping[str, EndpointInput]]] = {
    "detect": (
        detect,
        {
            "text": EndpointInput(TEXT, _EXAMPLE_TEXT),
            "model": EndpointInput(TEXT, "storyteller", "storyteller"),
            "params": EndpointInput(OBJECT, {"z_threshold": 4.0}, {"z_threshold": 4.0}),
            "prompt": EndpointInput(TEXT),
        },
    ),
    "compare": (
        compare,
        {
            "prompt": EndpointInput(TEXT, "Once upon a time"),
            "columns": EndpointInput(
                {"type": "array", "items": _COLUMN},
                [{"strategy": "greedy"}, {"strategy": "sampling", "params": {"top_p": 0.9}}],
            ),
            "seeds": EndpointInput({"type": "array", "items": _INTEGER}, [0], [0]),
            "model": EndpointInput(TEXT, "storyteller", "storyteller"),
        },
    ),
    "dial_map": (dial_map, {**_DIAL, **_MAP_RUN}),
    "dial_grid": (
        dial_grid,
        {
            **_DIAL,
            "second": EndpointInput(TEXT, "top_p", "top_p"),
            "values": EndpointInput({"type": "array", "items": _NUMBER}, [0.5, 1.0]),
            **_MAP_RUN,
        },
    ),
}
assert {name: tuple(inputs) for name, (_, inputs) in _TOOLS.items()} == TOOL_FIELDS


def add_tools() -> None:
    """Register ``/detect``, ``/compare``, ``/dial_map`` and ``/dial_grid``."""
    for name, (handler, inputs) in _TOOLS.items():
        described = {
            field: EndpointInput(
                {**one.schema, "description": text, "additional_description": text},
                one.example,
                one.default,
            )
            for (field, one), text in zip(inputs.items(), _input_texts(handler), strict=True)
        }
        add_typed_endpoint(
            guard_handler(on_gpu(handler)), name, described, OBJECT, **queue_options(RUN_QUEUE_ID)
        )


def _input_texts(handler: Callable[..., Any]) -> list[str]:
    """Return what a handler's docstring says of each input."""
    _, _, after = (handler.__doc__ or "").partition("Args:\n")
    lines = after.partition("\n\n")[0].splitlines()
    return [line.partition(": ")[2] for line in lines]
