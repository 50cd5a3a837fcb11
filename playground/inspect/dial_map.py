"""The map under a dial: every text that the run shown would write along one dial.

It is computed in the background, only while nothing else is in the queue, and kept; see ``MapStore``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.analysis.dial_map.build import map_slider
from engine.errors import BusyError, EngineError, ParameterError
from engine.run.request import request_from_trace
from engine.strategies import STRATEGIES
from engine.trace.dial_map_json import DIAL_MAP_FORMAT, dial_map_to_dict
from engine.trace.records import Trace
from playground.inspect.map_store import MapStore
from playground.inspect.question_fields import find_run
from playground.jobs.registry import JOBS, JobKind
from visualizers.dial_map.summary import dial_map_view

ACTIONS = ("dial_map",)
# A question holds a thread while it waits, so few are taken at once; the page asks again later.
MAP_JOBS = JobKind("dial_map", slots=2, wait_s=0.2, latest_only=True)
_MAPS = MapStore("dial_map", DIAL_MAP_FORMAT, most=64)


def act(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the map of a dial for a run, over the range of its slider.

    Args:
        payload: ``run``, the id of a recent run; ``dial``, a dial of its strategy; ``press``, an id;
            an earlier question with it is cancelled.

    Returns:
        ``map`` as JSON values and ``view``, the data of its picture; or ``refused``, one sentence on
        why there is none. Only ``later`` if other maps are being computed and the page must ask again.

    Raises:
        Cancelled: a newer question has the same ``press``.
        EngineError: a value is not valid.
    """
    dial, run_id = payload.get("dial"), payload.get("run")
    if dial not in STRATEGIES["sampling"].dials:
        raise ParameterError("dial", dial, "it must be a dial of a sampled run")
    key = str(run_id), str(dial)
    found = _MAPS.find(*key)
    if found is None:
        run = find_run({"run": run_id})
        if run is None:
            return {"refused": "The server no longer has this run."}
        header = run if isinstance(run, Trace) else run.header
        if header.strategy != "sampling":
            raise ParameterError("dial", dial, "it must be a dial of a sampled run")
        try:
            with JOBS.run(MAP_JOBS, payload.get("press")) as job:
                request = request_from_trace(header)
                maps = map_slider(request, str(dial), cancelled=job.cancelled, background=True)
                found = next((one for one in maps if one.complete), None)
        except BusyError:
            return {"later": True}
        except EngineError as error:
            return {"refused": str(error)}
        if found is None:
            return {"later": True}
        _MAPS.store(found, *key)
    return {"map": dial_map_to_dict(found), "view": dial_map_view(found)}
