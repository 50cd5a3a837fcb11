"""The map under a dial: every text that the run shown would write along one dial.

It is computed in the background, only while nothing else is in the queue. It is kept for a while in
memory, and in the journal as long as the messages of runs: it is there after a restart.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from typing import Any

from engine.analysis.dial_map.build import map_slider
from engine.errors import BusyError, EngineError, ParameterError, TraceError
from engine.run.request import request_from_trace
from engine.strategies import STRATEGIES
from engine.trace.dial_map import DialMap
from engine.trace.dial_map_json import dial_map_from_dict, dial_map_to_dict, dump_dial_map
from engine.trace.records import Trace
from playground.inspect.question_fields import find_run
from playground.jobs.registry import JOBS, JobKind
from playground.storage.journal import JOURNAL
from visualizers.dial_map.summary import dial_map_view

ACTIONS = ("dial_map",)
# A question holds a thread while it waits, so few are taken at once; the page asks again later.
MAP_JOBS = JobKind("dial_map", slots=2, wait_s=0.2, latest_only=True)
_MAX_MAPS = 64
_MAX_STORED_CHARS = 1_000_000
"""Longest map that the journal stores; it removes the oldest maps and runs beyond its own limit."""
_MAPS: OrderedDict[tuple[str, str], DialMap] = OrderedDict()
_LOCK = Lock()


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
    found = _find_map(key)
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
        _store_map(key, found)
    return {"map": dial_map_to_dict(found), "view": dial_map_view(found)}


def _find_map(key: tuple[str, str]) -> DialMap | None:
    """Return the map of a run's dial from memory or the journal; None if neither has it."""
    with _LOCK:
        found = _MAPS.get(key)
    if found is None:
        found = _read_stored_map(key)
        if found is not None:
            _keep_in_memory(key, found)
    return found


def _read_stored_map(key: tuple[str, str]) -> DialMap | None:
    for message in JOURNAL.stored_messages(_journal_id(key))[-1:]:
        try:
            return dial_map_from_dict(json.loads(message)["map"])
        except (KeyError, TraceError):
            # A map of another version, or one whose process ended while it wrote it.
            return None
    return None


def _store_map(key: tuple[str, str], found: DialMap) -> None:
    """Keep a map in memory and, unless it is too long, in the journal."""
    _keep_in_memory(key, found)
    text = dump_dial_map(found)
    if len(text) <= _MAX_STORED_CHARS:
        # Read back from strict JSON, which has no tuples and only texts as keys.
        JOURNAL.open(_journal_id(key)).add({"kind": "finish", "map": json.loads(text)})


def _journal_id(key: tuple[str, str]) -> str:
    """Return the id of a map in the journal, which nobody can guess who lacks the run's id."""
    return hashlib.sha256(f"dial_map:{key[0]}:{key[1]}".encode()).hexdigest()


def _keep_in_memory(key: tuple[str, str], found: DialMap) -> None:
    with _LOCK:
        _MAPS[key] = found
        while len(_MAPS) > _MAX_MAPS:
            _MAPS.popitem(last=False)
