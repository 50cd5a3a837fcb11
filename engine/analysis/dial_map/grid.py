"""A map of two dials: for each of some values of the second dial, the exact map along the first.

Rows share forward passes wherever their texts have begun alike. With the second dial fixed, the theorem
of ``dials.py`` holds for the first one as for any other fixed filter, so each row is as exact as a map
of one dial.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from engine.analysis.dial_map.build import (
    DialPlan,
    advance_mapper,
    create_mapper,
    format_notes,
    map_facts,
    plan_map,
)
from engine.analysis.dial_map.dials import SECOND_DIALS, check_dial_value
from engine.analysis.dial_map.mapper import Leaf, Mapper
from engine.declare.params import Integer, params_of
from engine.declare.slider import slider_bounds
from engine.errors import Cancelled, DecodeError, ParameterError
from engine.messages import Message
from engine.models.text import decode_ids
from engine.run.preparation import ModelLoader
from engine.run.request import DecodeRequest
from engine.run.scheduler import EventCallback, ignore_event
from engine.strategies.sampling import SamplingConfig
from engine.trace.dial_grid import DialGrid, GridCell, GridText

GRID_TOKENS = 24
"""Most tokens of a text of a map of two dials; longer texts are mapped up to there."""
MAX_ROWS = 41
_ROWS = 20
_TEMPERATURES = (0.1, 2.0)
_MAX_CELLS = 640
"""Cells that are followed, the widest first; the rest is said to be not followed."""


def map_two_dials(
    request: DecodeRequest,
    dial: str,
    low: float,
    high: float,
    second: str = "top_p",
    values: Sequence[float] | None = None,
    *,
    max_cells: int = _MAX_CELLS,
    cancelled: threading.Event | None = None,
    tell: EventCallback = ignore_event,
    background: bool = False,
) -> Iterator[DialGrid]:
    """Yield the map of two dials after each step: every text of the run from low to high, row by row.

    Args:
        request: a request of the strategy ``sampling`` for one text.
        dial: one of ``SECOND_DIALS``; exact along it, see ``map_dial``.
        low: its lowest value.
        high: its highest value.
        second: another one of them.
        values: its values, 2 to MAX_ROWS, ascending; None for 20 of its slider, and the run's own.
        max_cells: cells that are followed, the widest first; 2 to 640.
        cancelled: stops within one step when set; the last map is then incomplete.
        tell: receives Waiting and Loading events.
        background: as in ``map_dial``.

    Raises:
        EngineError: the request has no such map, in one sentence.
    """
    cancelled = cancelled or threading.Event()
    try:
        check_dials(dial, second)
        if isinstance(max_cells, bool) or not 2 <= max_cells <= _MAX_CELLS:
            allowed = Message("it must be a whole number from 2 to {most}", most=_MAX_CELLS)
            raise ParameterError("max_cells", max_cells, allowed)
        plan = plan_map(request, dial, low, high, None, ModelLoader(cancelled, tell))
        if plan.reason:
            raise DecodeError(
                "A map of two dials needs filters with which {dial} alone has a proven map.",
                dial=dial,
            )
        own = getattr(plan.run.config, second)
        plan = dataclasses.replace(plan, second=second, values=_read_values(second, own, values))
        mapper = create_mapper(plan, max_cells, cancelled, GRID_TOKENS)
        for seconds in advance_mapper(plan, mapper, tell, background=background):
            yield _to_grid(plan, mapper, seconds)
    except Cancelled:
        return


def map_two_sliders(
    request: DecodeRequest,
    dial: str,
    second: str,
    *,
    cancelled: threading.Event | None = None,
    background: bool = False,
) -> Iterator[DialGrid]:
    """Yield the map of two dials over the ranges of their sliders; see ``map_two_dials``.

    A temperature goes from 0.1 to 2, or as far as that of the run.
    """
    check_dials(dial, second)
    low, high = _slider_range(dial)
    if dial == "temperature":
        # Above, almost every value has its own text, which takes long and shows little.
        own = float(str(request.params.get(dial, 1.0)))
        low, high = max(low, min(_TEMPERATURES[0], own)), min(high, max(_TEMPERATURES[1], own))
    return map_two_dials(
        request, dial, low, high, second, cancelled=cancelled, background=background
    )


def check_dials(dial: object, second: object) -> None:
    """Refuse what are not two different ones of SECOND_DIALS.

    Raises:
        ParameterError: names the parameter.
    """
    choices = Message("it must be one of {choices}", choices=", ".join(SECOND_DIALS))
    for name, value in (("dial", dial), ("second", second)):
        if value not in SECOND_DIALS:
            raise ParameterError(name, value, choices)
    if dial == second:
        raise ParameterError("second", second, "it must be another dial than the first")


def _slider_range(dial: str) -> tuple[float, float]:
    kind: Any = params_of(SamplingConfig)[dial]
    return slider_bounds(kind) or (kind.minimum, kind.maximum)


def _read_values(second: str, own: object, values: Sequence[float] | None) -> tuple[float, ...]:
    """Return the checked values of the second dial.

    Raises:
        ParameterError: a value is out of range, or there are too few or too many.
    """
    if values is None:
        return _default_values(second, own)
    checked = tuple(check_dial_value(second, value) for value in values)
    if not 2 <= len(checked) <= MAX_ROWS or list(checked) != sorted(set(checked)):
        allowed = Message("it must be 2 to {most} ascending values", most=MAX_ROWS)
        raise ParameterError("values", len(checked), allowed)
    return checked


def _default_values(second: str, own: object) -> tuple[float, ...]:
    """Return values of a slider at equal distances, and the run's own if its filter is on."""
    kind: Any = params_of(SamplingConfig)[second]
    # Round numbers: every slider begins close to 0, whose value may be no allowed one.
    high = _slider_range(second)[1]
    spread = [high * (i + 1) / _ROWS for i in range(_ROWS)]
    rounded = {round(x) if isinstance(kind, Integer) else round(x, 2) for x in spread}
    try:
        rounded.add(check_dial_value(second, own))
    except ParameterError:
        # The run has this filter off, so no row is its own.
        pass
    return tuple(sorted(rounded))


def _to_grid(plan: DialPlan, mapper: Mapper, seconds: float) -> DialGrid:
    run, loaded = plan.run, plan.run.target
    texts: dict[tuple[tuple[int, ...], str], Leaf] = {}
    for leaf in mapper.leaves:
        texts.setdefault((leaf.ids, leaf.end), leaf)
    places = {key: place for place, key in enumerate(texts)}
    ids = {i for leaf in texts.values() for i in leaf.ids} | set(run.prompt_ids)
    own = getattr(run.config, plan.second)
    return DialGrid(
        second=plan.second,
        second_value=own if own in plan.values else None,
        values=plan.values,
        cells=tuple(
            GridCell(
                leaf.row,
                plan.ticks.value(leaf.first),
                plan.ticks.value(leaf.last),
                places[leaf.ids, leaf.end],
                plan.ticks.is_wide(leaf.first, leaf.last),
            )
            for leaf in mapper.leaves
        ),
        texts=tuple(
            GridText(
                leaf.ids,
                leaf.logprobs,
                "" if loaded.tokenizer is None else decode_ids(loaded.tokenizer, leaf.ids),
                leaf.end,
            )
            for leaf in texts.values()
        ),
        pieces=loaded.pieces.of(ids),
        notes=format_notes(run, mapper.leaves, GRID_TOKENS),
        **map_facts(plan, mapper, seconds),
    )
