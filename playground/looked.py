"""What a step looked at: the page asks about a step, and the engine answers with numbers for every position."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from engine.asking.attention import Attention, Heads
from engine.asking.attribution import Attribution
from engine.asking.looked import ATTENTION, Look, looked
from engine.asking.positions import Positions
from engine.errors import Cancelled, ParameterError
from engine.loops.recorder import significant
from playground.askers import Turns
from playground.asking import run_sent, whole

_STOP = "looked_stop"
ACTIONS = ("looked", _STOP)
_TURNS = Turns(2)
"""Questions computed at a time: runs come first."""
_TOP = 10


def act(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a step looked at, or what its token hung on.

    Args:
        asked: ``action``, looked, or looked_stop, which gives up what ``asker`` asks; ``run``, the id of a run that was
            made here, or ``trace``, a run as JSON values up to the step; ``step`` from 0; ``method``, one of
            ``engine.asking.looked.METHODS``; ``node_id``, a node of a search; ``at``, a place in a round of drafting;
            ``layer`` and ``head`` from 0, None for the mean over all; ``asker``, whose earlier question is given up.

    Returns:
        The answer as JSON values; ``forgotten`` alone where the run is not remembered, so that its trace is to be
        sent; ``superseded`` alone where the asker has asked again meanwhile, or has given up.

    Raises:
        EngineError: one sentence naming what is wrong.
    """
    if asked.get("action") == _STOP:
        _TURNS.give_up(asked.get("asker"))
        return {}
    method = asked.get("method", ATTENTION)
    if not isinstance(method, str):
        raise ParameterError("method", method, "it must be text")
    look = Look(whole(asked, "step") or 0, method, whole(asked, "node_id"), whole(asked, "at"))
    layer, head = whole(asked, "layer"), whole(asked, "head")
    run = run_sent(asked)
    if run is None:
        return {"forgotten": True}
    try:
        with _TURNS.of(asked.get("asker")) as cancelled:
            return _told(looked(run, look, cancelled), layer, head)
    except Cancelled:
        return {"superseded": True}


def _told(found: Attention | Attribution, layer: int | None, head: int | None) -> dict[str, Any]:
    common = {
        "token": found.token_id,
        "word": found.piece,
        "logprob": significant(found.logprob),
        "probability": significant(math.exp(found.logprob)),
        "caveat": found.caveat,
    }
    if isinstance(found, Attention):
        parts = [_attention(part, layer, head) for part in found.parts]
        return {**common, "method": ATTENTION, "note": "", "parts": parts}
    parts = [_part(part.kind, part.positions, part.values) for part in found.parts]
    return {**common, "method": found.method, "note": found.note, "parts": parts}


def _attention(part: Heads, layer: int | None, head: int | None) -> dict[str, Any]:
    """Return a row of one kind of attention."""
    told = _part(part.kind, part.positions, part.row(layer, head))
    return {**told, "layers": part.layers, "heads": part.heads}


def _part(kind: str, positions: Positions, values: Sequence[float | None]) -> dict[str, Any]:
    """Return the numbers of an input, how strong each looks, and the places and lengths of the largest."""
    sizes = [0.0 if value is None else abs(value) for value in values]
    order = sorted(range(len(sizes)), key=lambda place: -sizes[place])
    # Heads that need nothing rest on the first position: measured by it, all else would be pale.
    most = max(sizes[1:] or sizes, default=0.0) if kind == "self" else max(sizes, default=0.0)
    top = [place for place in order[:_TOP] if sizes[place]]
    return {
        "kind": kind,
        "source": positions.source,
        "pieces": list(positions.pieces),
        "ids": list(positions.ids),
        "grid": positions.grid,
        "leading": positions.leading,
        "starts": positions.starts,
        "picture": positions.picture,
        "values": [None if value is None else significant(value) for value in values],
        "strengths": [min(1.0, round(size / most, 3)) if most else 0.0 for size in sizes],
        "top": top,
        "lengths": [round(sizes[place] / sizes[top[0]], 3) for place in top],
    }
