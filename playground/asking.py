"""What the questions about a step of a run have in common: which run, and numbers that the page sends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from engine.asking.kept import KEPT_RUNS, KeptRun
from engine.errors import EngineError, ParameterError
from engine.trace.json_io import trace_from_dict
from engine.trace.records import Trace

_LARGEST = 2**31


def whole(asked: Mapping[str, Any], name: str) -> int | None:
    """Return a whole number of a question, None where it has none.

    Raises:
        ParameterError: it is something else.
    """
    value = asked.get(name)
    if value is not None and (type(value) is not int or not 0 <= value < _LARGEST):
        raise ParameterError(name, value, "it must be a whole number from 0")
    return value


def run_sent(asked: Mapping[str, Any]) -> KeptRun | Trace | None:
    """Return the run that is asked about, None where it is not remembered.

    Args:
        asked: ``run``, the id of a run that was made here, or ``trace``, a run as JSON values.

    Raises:
        EngineError: the trace is none.
    """
    data = asked.get("trace")
    if data is None:
        run_id = asked.get("run")
        return KEPT_RUNS.get(run_id) if isinstance(run_id, str) else None
    try:
        json.dumps(data, allow_nan=False)
        return trace_from_dict(data)
    except (ValueError, TypeError, RecursionError):
        raise EngineError("The run is not valid JSON.") from None
