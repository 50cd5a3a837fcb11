"""Recorded runs and examples that every tab shows before the first run, fetched by name.

They are files of the repository. Each response is built and compressed once, and browsers cache it
permanently because the URL contains a digest.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable
from functools import cache
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from engine.analysis import examples, gallery
from engine.analysis.comparisons import LABELS
from engine.errors import TraceError
from engine.messages import to_json
from engine.strategies import STRATEGIES
from engine.strategies.watermark import STRATEGY as WATERMARK
from engine.trace.dial_map_json import dial_map_to_dict, load_dial_map
from engine.trace.records import ModelInfo, Trace
from playground.forms.links import preset_form, trace_form
from playground.forms.run_views import stage_views
from playground.forms.spec import page_spec
from playground.shell import scripts
from playground.tabs.compare import add_scores, comparison_figures
from playground.tabs.replay import trace_with_visuals
from playground.tabs.watermark_view import pair_html
from visualizers import strategy_visuals
from visualizers.compare.summary import ComparedRun, TextComparison
from visualizers.dial_map.summary import dial_map_view
from visualizers.page import to_recording as drawn
from visualizers.prefix_tree.summary import prefix_tree_view as tree_view

_COLUMN_VISUALS = ("candidates",)
"""Views of a comparison column, in addition to its text."""


@cache
def recorded_path() -> str:
    """Return the URL of recorded files, relative to the page.

    Its digest changes whenever a file changes.
    """
    found = hashlib.sha256(scripts.asset_version().encode())
    for path in sorted(gallery.FOLDER.rglob("*")):
        if path.is_file():
            found.update(path.name.encode() + b"\0" + path.read_bytes())
    return f"recorded/{found.hexdigest()[:16]}"


def routes() -> list[Route]:
    """Return the route for recorded files."""
    return [Route("/recorded/{version}/{name}.json", _serve_recorded)]


def _serve_recorded(request: Request) -> Response:
    name = request.path_params["name"]
    try:
        if recorded_path() != f"recorded/{request.path_params['version']}":
            raise TraceError("Another version is recorded here.")
        content = gzipped_json(name)
    except TraceError:
        return PlainTextResponse("Not found", 404)
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return scripts.immutable_response(gzip.decompress(content), "application/json")
    return scripts.immutable_response(content, "application/json", **{"Content-Encoding": "gzip"})


@cache
def gzipped_json(name: str) -> bytes:
    """Return a recorded run or example as gzip-compressed JSON.

    Args:
        name: A run of the gallery, one with a dial such as ``sampling-1.temperature``, a recorded
            comparison, ``draws``, ``watermark_bench`` or ``taste``.

    Raises:
        TraceError: Nothing of this name is recorded.
    """
    if name in _EXAMPLES:
        data = _EXAMPLES[name]()
    elif name in examples.recorded_comparisons().values():
        data = _compare_example(name)
    elif gallery.find_entry(name):
        data = recorded_run(name)
    elif name in (maps := {f"{e.name}.{dial}": (e, dial) for e, dial in gallery.list_dial_maps()}):
        data = _recorded_dial_map(*maps[name])
    else:
        raise TraceError("Nothing recorded is named {name}.", name=repr(name[:60]))
    # mtime=0: equal content gives equal bytes.
    return gzip.compress(to_json(data).encode(), mtime=0)


def find_recording(query: str, first_tab: str) -> str | None:
    """Return the name of the recording that an address shows first; None for one that shows none.

    Args:
        query: the address's query string.
        first_tab: the strategy of an address that names none.
    """
    payload = {name: values[0] for name, values in parse_qs(query).items()}
    if "strategy" in payload:
        return None
    trace = payload.get("trace")
    if trace is not None:
        return trace if gallery.find_entry(trace) else None
    tab = payload.get("tab", first_tab)
    shown = next((s for s in page_spec()["strategies"] if s["name"] == tab), None)
    return shown and next((p["recorded"] for p in shown["presets"][:1]), None)


def recorded_run(name: str) -> dict[str, Any]:
    """Return a run of the gallery as JSON values, with view data, form and what to look at."""
    entry = gallery.find_entry(name)
    assert entry is not None
    trace, strategy = gallery.open_entry(entry.file), STRATEGIES[entry.strategy]
    preset = next((p for p in strategy.presets if p.name == entry.preset), None)
    return {
        "name": name,
        "title": entry.title,
        "shows": entry.shows,
        "look_at": entry.look_at,
        "dial_maps": [dial for one, dial in gallery.list_dial_maps() if one == entry],
        "visuals": stage_views(strategy.name, strategy_visuals(strategy.name, strategy.visuals)),
        "form": preset_form(entry.strategy, preset) if preset else trace_form(trace),
        **trace_with_visuals(trace),
    }


def _recorded_dial_map(entry: gallery.GalleryEntry, dial: str) -> dict[str, Any]:
    """Return the map of a recorded run's dial, in the form of the question ``dial_map``."""
    found = load_dial_map(gallery.dial_map_path(entry.name, dial).read_bytes())
    view = dial_map_view(found)
    if gallery.dial_map_path(entry.name, ".".join(gallery.GRID_DIALS)).is_file():
        # That map is there, so it takes no time.
        view["two_dials_s"] = None
    return {"map": dial_map_to_dict(found), "view": view}


def _compare_example(name: str) -> dict[str, Any]:
    found = examples.load_comparison(name)
    judged = [
        add_scores(
            ComparedRun(label, STRATEGIES[column.trace.strategy].title, column.trace),
            column.scores,
            column.pieces,
        )
        for label, column in zip(LABELS, found.columns, strict=False)
    ]
    traces = [column.trace for column in found.columns]
    return {
        "preset": found.preset,
        "columns": [drawn(trace, _COLUMN_VISUALS) for trace in traces],
        "parting": _find_divergence(traces),
        "figures": comparison_figures(_base_model(found), [(traces[0].seed, judged)], []),
    }


def _base_model(found: examples.RecordedComparison) -> ModelInfo:
    """Return the base model as it was loaded for the first column; it scored all columns."""
    return next(c.trace.model for c in found.columns if c.trace.model.id == found.base)


def _find_divergence(traces: list[Trace]) -> Any:
    texts = TextComparison()
    for trace in traces:
        texts.begin(trace)
        for step in trace.steps:
            texts.add(step, trace.pieces)
        texts.end()
    return texts.find_divergence()


def _draws_example() -> dict[str, Any]:
    found = examples.load_draws()
    about = {"kind": "recorded", "id": "", "wanted": len(found.draws), "seconds": found.seconds}
    return {**about, **tree_view(found.draws, dict(found.pieces))}


def _bench_example() -> dict[str, Any]:
    first = next(e for e in gallery.list_entries() if e.strategy == WATERMARK.name)
    marked = gallery.open_entry(first.file)
    params = dict(WATERMARK.presets[0].params)
    return {
        "pair": pair_html(marked, examples.load_unmarked_twin(), params),
        "text": marked.outputs[0].text,
    }


_EXAMPLES: dict[str, Callable[[], dict[str, Any]]] = {
    "draws": _draws_example,
    "watermark_bench": _bench_example,
    "taste": examples.load_continuations,
}
