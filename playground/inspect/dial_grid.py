"""The map of two dials: every text of the run shown over temperature and top-p, when a visitor asks for it.

It is kept as the map of one dial is; see ``MapStore``. Recorded runs of the gallery bring theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.analysis import gallery
from engine.analysis.dial_map.grid import check_dials, map_two_sliders
from engine.errors import BusyError, Cancelled, EngineError, ParameterError
from engine.run.request import request_from_trace
from engine.trace.dial_grid import DialGrid
from engine.trace.dial_grid_json import DIAL_GRID_FORMAT, dial_grid_to_dict
from engine.trace.records import Trace
from playground.inspect.dial_map import MAP_JOBS
from playground.inspect.map_store import MapStore
from playground.inspect.question_fields import find_run
from playground.jobs.registry import JOBS
from visualizers.dial_map.grid_summary import dial_grid_view

ACTIONS = ("dial_grid",)
_GRIDS = MapStore("dial_grid", DIAL_GRID_FORMAT, most=16)


def act(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the map of two dials of a run, over the ranges of their sliders.

    It takes one of the places for maps of one dial, and gives way to runs as these do.

    Args:
        payload: ``run``, the id of a recent run, or ``entry``, the name of a recorded one; ``dial``
            and ``second``, two dials; ``press``, an id by which it can be stopped.

    Returns:
        ``grid`` as JSON values and ``view``, the data of its picture; or ``refused``, one sentence on
        why there is none; ``stopped`` after a stop; ``later`` if other maps are being computed.

    Raises:
        EngineError: a value is not valid.
    """
    dial, second = str(payload.get("dial")), str(payload.get("second"))
    check_dials(dial, second)
    entry = gallery.find_entry(str(payload["entry"])) if payload.get("entry") else None
    key = str(payload.get("run") if entry is None else entry.name), dial, second
    found = _GRIDS.find(*key)
    if found is None and entry is not None:
        found = gallery.find_dial_grid(entry, dial, second)
    if found is None:
        header = _find_header(payload, entry)
        if header is None:
            return {"refused": "The server no longer has this run."}
        if header.strategy != "sampling":
            raise ParameterError("run", header.strategy, "it must be a sampled run")
        made = _compute(header, dial, second, payload.get("press"))
        if isinstance(made, dict):
            return made
        found = made
        # Another version may have another recording of that name.
        _GRIDS.store(found, *key, in_journal=entry is None)
    return {"grid": dial_grid_to_dict(found), "view": dial_grid_view(found)}


def _compute(header: Trace, dial: str, second: str, press: object) -> DialGrid | dict[str, Any]:
    """Return the map, or the answer that says why there is none."""
    try:
        with JOBS.run(MAP_JOBS, press) as job:
            growing = map_two_sliders(
                request_from_trace(header),
                dial,
                second,
                cancelled=job.cancelled,
                background=True,
            )
            found = next((one for one in growing if one.complete), None)
    except BusyError:
        return {"later": True}
    except Cancelled:
        return {"stopped": True}
    except EngineError as error:
        return {"refused": str(error)}
    return {"stopped": True} if found is None else found


def _find_header(payload: Mapping[str, Any], entry: gallery.GalleryEntry | None) -> Trace | None:
    if entry is not None:
        return gallery.open_entry(entry.file)
    run = find_run({"run": payload.get("run")})
    return run if run is None or isinstance(run, Trace) else run.header
