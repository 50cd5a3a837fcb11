"""A self-contained HTML page of a run with all its views.

The playground, notebooks and ``python -m visualizers`` use one skeleton, which holds the styles and
scripts of the views and one placeholder for the run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from engine.glossary import glossary_texts
from engine.messages import add_templates
from engine.processors import filter_titles
from engine.trace import json_io
from engine.trace.dial_grid import DialGrid
from engine.trace.dial_map import DialMap
from engine.trace.records import Trace
from visualizers import VISUALS, list_visuals, summarize_trace
from visualizers.bundle import bundle_modules, read_modules
from visualizers.dial_map.grid_summary import dial_grid_with_view
from visualizers.dial_map.summary import dial_map_with_view

VISUALIZERS_FOLDER = Path(__file__).resolve().parent
RUN_PLACEHOLDER = "<!--run-->"
CORE_VIEWS = (
    "about",
    "look",
    "status",
    "media",
    "strip",
    "scrub",
    "predict",
    "sentence",
    "grammar",
    "figures",
)
"""Views above the strategy's views, on the page of every run."""
_ENTRY_MODULE = "visualizers/stage/page.mjs"
_PLACEHOLDER = re.compile(r"<!--(styles|plotly|scripts|terms|filters|texts|language)-->")
FRAME_HEIGHT = "max(80vh, 640px)"
"""CSS height of a page in a notebook; a notebook may show outputs in a window as high as they are."""


@dataclass(frozen=True)
class Scripts:
    """The modules of a page."""

    entry: str
    """Path of the module whose ``open`` takes the page's data."""
    folders: tuple[Path, ...]
    """Folders of the modules that it imports, directly or indirectly."""


@dataclass(frozen=True)
class Page:
    """An HTML page, which a notebook displays."""

    html: str

    def save(self, path: str | Path) -> Path:
        """Write the page to a file and return its path."""
        target = Path(path)
        target.write_text(self.html, "utf-8")
        return target

    def _repr_html_(self) -> str:
        """Return an iframe with the page."""
        # Without a frame the styles of the page and of the notebook would affect each other.
        inside = escape(self.html, quote=True)
        style = f"width: 100%; height: {FRAME_HEIGHT}; border: 0"
        return f'<iframe srcdoc="{inside}" style="{style}" title="A recorded run"></iframe>'


def page(
    trace: Trace,
    *,
    dark: bool | None = False,
    dial_maps: Iterable[DialMap] = (),
    dial_grid: DialGrid | None = None,
    selected: int | None = None,
) -> Page:
    """Return the page of a run.

    Args:
        trace: a trace from ``decode`` or ``engine.trace.json_io.load``.
        dark: True for a dark theme, None for that of the notebook around the page.
        dial_maps: maps of the run's dials, from ``map_dial``, to show as well.
        dial_grid: with them, a map of two of its dials, from ``map_two_dials``.
        selected: index of the step to show first; None for the last one.
    """
    maps = {one.dial: dial_map_with_view(one) for one in dial_maps}
    grid = {} if dial_grid is None else {"grid": dial_grid_with_view(dial_grid)}
    pictures = (*list_visuals(trace), *(("dial_map",) if maps else ()))
    about = {"maps": maps, **grid} if maps else {}
    if selected is not None:
        about |= {"selected": selected}
    data = {
        "recorded": add_templates(to_recording(trace, pictures)),
        "visuals": order_views(pictures),
        "dark": dark,
        "about": about,
    }
    return Page(fill_page(page_skeleton(pictures), data))


def fill_page(skeleton: str, data: Mapping[str, Any]) -> str:
    """Return a skeleton with the data for its scripts, JSON values with finite numbers."""
    before, _, after = skeleton.rpartition(RUN_PLACEHOLDER)
    return before + to_script_json(data) + after


def to_recording(trace: Trace, pictures: Iterable[str]) -> dict[str, Any]:
    """Return a recorded run as JSON values: its trace, and the summaries of its views by step.

    Whoever sends it adds the templates of the sentences in both.
    """
    return {"trace": json_io.trace_fields(trace), "shown": summarize_trace(trace, pictures)}


def order_views(pictures: Iterable[str]) -> list[str]:
    """Return the views in page order: core views, the given views, the chart last."""
    return [*CORE_VIEWS, *sorted(pictures, key=lambda name: name == "chart")]


def page_skeleton(
    pictures: Iterable[str],
    language: str = "en",
    texts: str = "",
    terms: Mapping[str, list[str]] | None = None,
    filters: Mapping[str, str] | None = None,
    scripts: Scripts | None = None,
) -> str:
    """Return the page without a run, with ``RUN_PLACEHOLDER`` as the placeholder for the run's JSON.

    Args:
        pictures: names of the views; unknown names are ignored.
        language: language code of the page.
        texts: HTML element with the translated texts; empty for English.
        terms: glossary terms of the page; None for the English ones.
        filters: titles of the filters; None for the English ones.
        scripts: what opens the page; None for that of a recorded run.
    """
    plotly = any(name in VISUALS and VISUALS[name].plotly for name in pictures)
    return _fill_skeleton(
        plotly,
        language,
        texts,
        to_script_json(glossary_texts() if terms is None else terms),
        to_script_json(filter_titles() if filters is None else filters),
        scripts or Scripts(_ENTRY_MODULE, (VISUALIZERS_FOLDER,)),
    )


@lru_cache(maxsize=8)
def _fill_skeleton(
    plotly: bool, language: str, texts: str, terms: str, filters: str, scripts: Scripts
) -> str:
    parts = {
        "styles": read_styles(),
        "plotly": _escape_script(find_plotly_file().read_text("utf-8")) if plotly else "",
        "scripts": _escape_script(bundle_modules(read_modules(*scripts.folders), scripts.entry)),
        "terms": terms,
        "filters": filters,
        "texts": texts,
        "language": language,
    }
    frame = (VISUALIZERS_FOLDER / "stage" / "page.html").read_text("utf-8")
    return _PLACEHOLDER.sub(lambda match: parts[match[1]], frame)


def read_styles() -> str:
    """Return the CSS of all views: the shared styles, then those of each view."""
    own = sorted(
        VISUALIZERS_FOLDER.glob("*/*.css"), key=lambda path: (path.parent.name != "stage", path)
    )
    return "\n".join(path.read_text("utf-8") for path in own)


def find_plotly_file() -> Path:
    """Return the path of plotly.min.js; plotly is not imported.

    Raises:
        ModuleNotFoundError: plotly is not installed.
    """
    found = find_spec("plotly")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("No module named 'plotly'", name="plotly")
    return Path(found.origin).parent / "package_data" / "plotly.min.js"


def _escape_script(script: str) -> str:
    """Escape a script for a script element, so that nothing in it ends the element."""
    # "<!--" in a script element starts a state in which "</script>" may not end it.
    return re.sub(r"</(script)", r"<\\/\1", script, flags=re.IGNORECASE).replace("<!--", "<\\!--")


def to_script_json(value: Any, *, ensure_ascii: bool = True) -> str:
    """Return a value as JSON for a script element, with ``<`` escaped so that no text can end it.

    Args:
        value: a JSON value with finite numbers.
        ensure_ascii: as in ``json.dumps``; typed text may have lone surrogates, which need True.
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=ensure_ascii)
    return text.replace("<", "\\u003c")
