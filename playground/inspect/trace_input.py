"""Parsing of traces that a page sends, with the same checks as for a trace file."""

from __future__ import annotations

import json
from typing import Any

from engine.errors import EngineError, ExportError
from engine.trace.json_io import trace_from_dict
from engine.trace.records import Trace


def parse_trace(data: Any) -> Trace:
    """Return the validated trace of the JSON values that a page sent.

    Raises:
        EngineError: One sentence naming the invalid place.
    """
    try:
        # As in a trace file: no NaN, no infinity, and text keys only.
        json.dumps(data, allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        raise ExportError("The run is not valid JSON.") from None
    try:
        return trace_from_dict(data)
    except RecursionError:
        raise EngineError("The run nests too deep.") from None
