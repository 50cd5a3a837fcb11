"""The map of two dials: every text of the run shown over temperature and top-p, when a visitor asks for it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from typing import Any

from engine.analysis import gallery
from engine.analysis.dial_map.grid import check_dials, map_two_sliders
from engine.errors import BusyError, Cancelled, EngineError, ParameterError
from engine.run.request import request_from_trace
from engine.trace.dial_grid import DialGrid
from engine.trace.dial_grid_json import dial_grid_to_dict
from engine.trace.records import Trace
from playground.inspect.dial_map import MAP_JOBS
from playground.inspect.question_fields import find_run
from playground.jobs.registry import JOBS
from visualizers.dial_map.grid_summary import dial_grid_view

ACTIONS = ("dial_grid",)
_MAX_GRIDS = 16
_GRIDS: OrderedDict[tuple[str, str, str], DialGrid] = OrderedDict()
_LOCK = Lock()


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
    header = _find_header(payload)
    if header is None:
        return {"refused": "The server no longer has this run."}
    if header.strategy != "sampling":
        raise ParameterError("run", header.strategy, "it must be a sampled run")
    key = str(payload.get("entry") or payload.get("run")), dial, second
    with _LOCK:
        found = _GRIDS.get(key)
    if found is None:
        try:
            with JOBS.run(MAP_JOBS, payload.get("press")) as job:
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
        if found is None:
            return {"stopped": True}
        with _LOCK:
            _GRIDS[key] = found
            while len(_GRIDS) > _MAX_GRIDS:
                _GRIDS.popitem(last=False)
    return {"grid": dial_grid_to_dict(found), "view": dial_grid_view(found)}


def _find_header(payload: Mapping[str, Any]) -> Trace | None:
    entry = gallery.find_entry(str(payload["entry"])) if payload.get("entry") else None
    if entry is not None:
        return gallery.open_entry(entry.file)
    run = find_run({"run": payload.get("run")})
    return run if run is None or isinstance(run, Trace) else run.header
