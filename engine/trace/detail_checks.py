"""What the detail of a step must satisfy before anything draws it: ids, probabilities, indices."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from engine.errors import TraceError
from engine.trace.details import (
    BeamDetail,
    ContrastiveDetail,
    DraftDetail,
    LayerDetail,
    WatermarkDetail,
)
from engine.trace.records import Step, Trace

_SLACK = 1e-3
_PROBABILITIES = ("probability", "p", "q", "u", "green_fraction")
_IDS = ("token_id", "final_token_id")
_PAIRS = ("top", "normed_top", "final_top", "contrast_top", "residual")
_WORDS = {
    "fate": ("kept", "pruned", "finished", "finished_worse", "blocked"),
    "status": ("accepted", "rejected", "unverified"),
}


def check_detail(where: str, detail: Any, pieces: Mapping[int, str]) -> None:
    """Check one step's detail, None included.

    Args:
        where: names the step in a message.
        detail: one of the detail classes.
        pieces: the trace's token ids.

    Raises:
        TraceError: naming the step and the field.
    """
    for name, value in _fields(detail):
        if name in _PROBABILITIES and value is not None and not 0 <= value <= 1 + _SLACK:
            raise TraceError(f"{where} has a {name} of {value:g}, which is no probability.")
        if name in _IDS and value not in pieces:
            raise TraceError(f"{where} detail: token id {value} has no entry in pieces.")
        if name in _WORDS and value not in _WORDS[name]:
            raise TraceError(f"{where} has a {name} {str(value)[:40]!r} that means nothing here.")
        if name in _PAIRS and value[0] not in pieces:
            raise TraceError(f"{where} detail: token id {value[0]} has no entry in pieces.")
        if name.endswith("_s") and value < 0:
            raise TraceError(f"{where} has a negative time.")
    if isinstance(detail, ContrastiveDetail) and not 0 <= detail.chosen < len(detail.options):
        raise TraceError(f"{where} chose candidate {detail.chosen} of {len(detail.options)}.")
    if isinstance(detail, BeamDetail):
        _check_pool(where, detail)


def _check_pool(where: str, detail: BeamDetail) -> None:
    seen: set[int] = set()
    for node in detail.pool:
        if node.node_id in seen:
            raise TraceError(f"{where} has the node {node.node_id} twice.")
        if not -1 <= node.parent_id < node.node_id:
            raise TraceError(f"{where} has the node {node.node_id} before its parent.")
        seen.add(node.node_id)


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield (name, value) of every plain field, nested records included."""
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            inner = getattr(value, field.name)
            if field.name in _PAIRS:
                yield from ((field.name, pair) for pair in inner)
            elif dataclasses.is_dataclass(inner) or isinstance(inner, tuple):
                yield from _fields(inner)
            else:
                yield field.name, inner
    elif isinstance(value, tuple):
        for item in value:
            yield from _fields(item)


def check_details(trace: Trace) -> None:
    """Check what the details of a run must satisfy together: sizes, positions, statistics.

    Raises:
        TraceError: naming the step.
    """
    lengths: dict[int, int] = {}
    prompt = 0 if trace.model.is_encoder_decoder else len(trace.prompt_ids)
    depths = {len(s.detail.layers) for s in trace.steps if isinstance(s.detail, LayerDetail)}
    for step in trace.steps:
        where, detail = f"Step {step.index}", step.detail
        written = lengths.get(step.sequence, 0)
        lengths[step.sequence] = step.keep + len(step.emit)
        if isinstance(detail, ContrastiveDetail):
            first = -1 if trace.model.is_encoder_decoder else 0
            _check_positions(where, detail, first, prompt + written)
        elif isinstance(detail, LayerDetail):
            _check_layers(where, detail, depths)
        elif isinstance(detail, DraftDetail):
            _check_report(where, detail)
        elif isinstance(detail, WatermarkDetail):
            _check_mark(where, step, detail)


def _check_positions(where: str, detail: ContrastiveDetail, first: int, end: int) -> None:
    for option in detail.options:
        if not first <= option.position < end:
            raise TraceError(f"{where} compares with position {option.position} of {end}.")


def _check_layers(where: str, detail: LayerDetail, depths: set[int]) -> None:
    count = len(detail.layers)
    if count < 2 or len(depths) != 1:
        raise TraceError(f"{where} has {count} layers; every step must have the same two or more.")
    if [reading.layer for reading in detail.layers] != list(range(count)):
        raise TraceError(f"{where} has layers that do not count 0, 1, 2, ….")
    for layer in (detail.premature_layer, *detail.candidate_layers):
        if not 0 <= layer < count:
            raise TraceError(f"{where} contrasts layer {layer} of {count}.")


def _check_report(where: str, detail: DraftDetail) -> None:
    report = detail.report
    if report is None:
        return
    if report.plain_tokens < 0 or (report.plain_tokens and report.plain_s <= 0):
        raise TraceError(f"{where} has a plain run of {report.plain_tokens} tokens in no time.")


def _check_mark(where: str, step: Step, detail: WatermarkDetail) -> None:
    if len(step.emit) != 1:
        raise TraceError(f"{where} marks {len(step.emit)} tokens; it must be one.")
    if not (0 < detail.expected < 1 and 0 < detail.chance < 1):
        raise TraceError(f"{where} counts against an expected share that is no share.")
    if any(value not in (0, 1) for value in detail.g_values):
        raise TraceError(f"{where} has a g-value that is neither 0 nor 1.")
