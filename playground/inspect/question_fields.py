"""Input of questions about a step: the run they name and their integer fields."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from engine.errors import EngineError, ParameterError
from engine.inspection.logits_cache import LOGITS_CACHE, CachedRun
from engine.trace.json_io import trace_from_dict
from engine.trace.records import Trace

_MAX_INT = 2**31


def read_int_field(payload: Mapping[str, Any], name: str) -> int | None:
    """Return an integer field from 0 to 2^31 - 1, or None if it is absent.

    Raises:
        ParameterError: the value is not such an integer.
    """
    value = payload.get(name)
    if value is not None and (type(value) is not int or not 0 <= value < _MAX_INT):
        raise ParameterError(name, value, "it must be a whole number from 0")
    return value


def find_run(payload: Mapping[str, Any]) -> CachedRun | Trace | None:
    """Return the run that a question names, or None if its logits are no longer cached.

    Args:
        payload: ``run``, the id of a run decoded here, or ``trace``, a trace as JSON values.

    Raises:
        EngineError: ``trace`` is not a valid trace.
    """
    data = payload.get("trace")
    if data is None:
        run_id = payload.get("run")
        return LOGITS_CACHE.get(run_id) if isinstance(run_id, str) else None
    try:
        # A trace from a page must obey the rules of a trace file: no NaN.
        json.dumps(data, allow_nan=False)
        return trace_from_dict(data)
    except (ValueError, TypeError, RecursionError):
        raise EngineError("The run is not valid JSON.") from None
