"""Recorded runs and examples that every tab shows before the first run, fetched by name.

They are files of the repository. Each response is built and compressed once, and browsers cache it
permanently because the URL contains a digest.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable
from functools import cache
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from engine.analysis import examples, gallery
from engine.analysis.comparisons import LABELS
from engine.errors import TraceError
from engine.strategies import STRATEGIES
from engine.strategies.watermark import STRATEGY as WATERMARK
from engine.trace.records import ModelInfo, Trace
from playground.forms.links import preset_form, trace_form
from playground.forms.spec import visuals_of
from playground.shell import scripts
from playground.tabs.compare import figures_of, scored
from playground.tabs.replay import recorded
from playground.tabs.watermark_view import pair_html
from visualizers.compare.summary import Texts
from visualizers.page import recorded as drawn
from visualizers.prefix_tree.summary import view as tree_view

_COLUMN = ("candidates",)
"""Views of a comparison column, in addition to its text."""


@cache
def place() -> str:
    """Return the URL of recorded files, relative to the page.

    Its digest changes whenever a file changes.
    """
    found = hashlib.sha256(scripts.version().encode())
    for path in sorted(gallery.FOLDER.rglob("*")):
        if path.is_file():
            found.update(path.name.encode() + b"\0" + path.read_bytes())
    return f"recorded/{found.hexdigest()[:16]}"


def routes() -> list[Route]:
    """Return the route for recorded files."""
    return [Route("/recorded/{version}/{name}.json", _answer)]


def _answer(request: Request) -> Response:
    name = request.path_params["name"]
    try:
        if place() != f"recorded/{request.path_params['version']}":
            raise TraceError("Another version is recorded here.")
        content = packed(name)
    except TraceError:
        return PlainTextResponse("Not found", 404)
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return scripts.kept(gzip.decompress(content), "application/json")
    return scripts.kept(content, "application/json", **{"Content-Encoding": "gzip"})


@cache
def packed(name: str) -> bytes:
    """Return a recorded run or example as gzip-compressed JSON.

    Args:
        name: A run of the gallery, ``compare``, ``draws``, ``watermark_bench`` or ``taste``.

    Raises:
        TraceError: Nothing of this name is recorded.
    """
    if name in _EXAMPLES:
        data = _EXAMPLES[name]()
    elif gallery.entry_named(name):
        data = run(name)
    else:
        raise TraceError(f"Nothing recorded is named {name[:60]!r}.")
    # mtime=0: equal content gives equal bytes.
    return gzip.compress(json.dumps(data, allow_nan=False, separators=(",", ":")).encode(), mtime=0)


def run(name: str) -> dict[str, Any]:
    """Return a run of the gallery as JSON values, with view data, form and what to look at."""
    entry = gallery.entry_named(name)
    assert entry is not None
    trace, strategy = gallery.open_entry(entry.file), STRATEGIES[entry.strategy]
    preset = next((p for p in strategy.presets if p.name == entry.preset), None)
    return {
        "name": name,
        "title": entry.title,
        "shows": entry.shows,
        "look_at": entry.look_at,
        "visuals": visuals_of(strategy.visuals),
        "form": preset_form(entry.strategy, preset) if preset else trace_form(trace),
        **recorded(trace),
    }


def _compared() -> dict[str, Any]:
    found = examples.comparison()
    judged = [
        scored(label, column.trace, column.scores, column.pieces)
        for label, column in zip(LABELS, found.columns, strict=False)
    ]
    traces = [column.trace for column in found.columns]
    return {
        "preset": found.preset,
        "columns": [drawn(trace, _COLUMN) for trace in traces],
        "parting": _parting(traces),
        "figures": figures_of(_judge(found), judged, []),
    }


def _judge(found: examples.RecordedComparison) -> ModelInfo:
    """Return the base model as it was loaded for the first column; it scored all columns."""
    return next(c.trace.model for c in found.columns if c.trace.model.id == found.base)


def _parting(traces: list[Trace]) -> Any:
    texts = Texts()
    for trace in traces:
        texts.begin(trace)
        for step in trace.steps:
            texts.add(step, trace.pieces)
        texts.end()
    return texts.parting()


def _drawn() -> dict[str, Any]:
    found = examples.draws()
    about = {"kind": "recorded", "id": "", "wanted": len(found.draws), "seconds": found.seconds}
    return {**about, **tree_view(found.draws, dict(found.pieces))}


def _benched() -> dict[str, Any]:
    first = next(e for e in gallery.entries() if e.strategy == WATERMARK.name)
    marked = gallery.open_entry(first.file)
    params = dict(WATERMARK.presets[0].params)
    return {
        "pair": pair_html(marked, examples.unmarked(), params),
        "text": marked.outputs[0].text,
    }


_EXAMPLES: dict[str, Callable[[], dict[str, Any]]] = {
    "compare": _compared,
    "draws": _drawn,
    "watermark_bench": _benched,
    "taste": examples.tasted,
}
