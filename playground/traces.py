"""The trace that a page sends, held to the rules of a file."""

from __future__ import annotations

import json
from typing import Any

from engine.errors import EngineError, ExportError
from engine.trace.json_io import trace_from_dict
from engine.trace.records import Trace


def trace_of(data: Any) -> Trace:
    """Return the checked trace of what a page sent.

    Raises:
        EngineError: one sentence naming the place.
    """
    try:
        # What a page sends is held to the rules of a file: no odd numbers, no odd keys.
        json.dumps(data, allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        raise ExportError("The run is not valid JSON.") from None
    try:
        return trace_from_dict(data)
    except RecursionError:
        raise EngineError("The run nests too deep.") from None
