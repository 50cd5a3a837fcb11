"""What the detail of a step must satisfy before anything draws it: ids, probabilities, indices."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from engine.details import BeamDetail, ContrastiveDetail
from engine.errors import TraceError

_SLACK = 1e-3
_PROBABILITIES = ("probability", "p", "q", "u", "green_fraction")
_IDS = ("token_id", "final_token_id")
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
            if dataclasses.is_dataclass(inner) or isinstance(inner, tuple):
                yield from _fields(inner)
            else:
                yield field.name, inner
    elif isinstance(value, tuple):
        for item in value:
            yield from _fields(item)
