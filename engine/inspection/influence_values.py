"""Influence answers as plain values, for the page and for lessons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from engine.inspection.attention import Attention, AttentionWeights
from engine.inspection.attribution import Attribution
from engine.inspection.influence_methods import ATTENTION
from engine.inspection.positions import Positions
from engine.loops.recorder import round_significant

_TOP_COUNT = 10


def influence_to_dict(
    found: Attention | Attribution, layer: int | None = None, head: int | None = None
) -> dict[str, Any]:
    """Return an answer as JSON values.

    Entries: ``token``, ``word``, its ``logprob`` (nats) and ``probability``; ``method``; ``parts``;
    ``note`` and ``caveat``. Each part has its ``kind``; ``source``, ``pieces``, ``ids``, ``grid``,
    ``leading``, ``starts`` and ``picture`` of its ``Positions``; their ``values`` and ``strengths``
    in [0, 1]; the positions of the largest in ``top`` with ``lengths`` in [0, 1]; and for attention
    the number of ``layers`` and ``heads``.

    Args:
        found: the answer.
        layer: for attention, from 0; None is the mean over all layers.
        head: for attention, from 0; None is the mean over all heads.

    Raises:
        ParameterError: the layer or head does not exist.
    """
    common = {
        "token": found.token_id,
        "word": found.piece,
        "logprob": round_significant(found.logprob),
        "probability": round_significant(math.exp(found.logprob)),
        "caveat": found.caveat,
    }
    if isinstance(found, Attention):
        parts = [_attention_row_to_dict(part, layer, head) for part in found.parts]
        return {**common, "method": ATTENTION, "note": "", "parts": parts}
    parts = [_part_to_dict(part.kind, part.positions, part.values) for part in found.parts]
    return {**common, "method": found.method, "note": found.note, "parts": parts}


def _attention_row_to_dict(
    part: AttentionWeights, layer: int | None, head: int | None
) -> dict[str, Any]:
    """Return one row of one kind of attention."""
    part_dict = _part_to_dict(part.kind, part.positions, part.row(layer, head))
    return {**part_dict, "layers": part.layers, "heads": part.heads}


def _part_to_dict(
    kind: str, positions: Positions, values: Sequence[float | None]
) -> dict[str, Any]:
    """Return an input's numbers, their strengths, and the largest positions with bar lengths."""
    sizes = [0.0 if value is None else abs(value) for value in values]
    order = sorted(range(len(sizes)), key=lambda place: -sizes[place])
    # The first position collects the attention that no head needs; scaled by it, all else is pale.
    most = max(sizes[1:] or sizes, default=0.0) if kind == "self" else max(sizes, default=0.0)
    top = [place for place in order[:_TOP_COUNT] if sizes[place]]
    return {
        "kind": kind,
        "source": positions.source,
        "pieces": list(positions.pieces),
        "ids": list(positions.ids),
        "grid": positions.grid,
        "leading": positions.leading,
        "starts": positions.starts,
        "picture": positions.picture,
        "values": [None if value is None else round_significant(value) for value in values],
        "strengths": [min(1.0, round(size / most, 3)) if most else 0.0 for size in sizes],
        "top": top,
        "lengths": [round(sizes[place] / sizes[top[0]], 3) for place in top],
    }
