"""A page of its own for a run: one HTML file with all its pictures, for which nothing else is needed.

The page of the playground, a notebook and ``python -m visualizers`` make it from one skeleton: the
styles and scripts of the pictures stand in it already, and one hole is left for the run.
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

from engine.reading.terms import words
from engine.trace import json_io
from engine.trace.records import Trace
from visualizers import VISUALS, pictures_of, shown_of
from visualizers.join import join, modules_in

FOLDER = Path(__file__).resolve().parent
HOLE = "<!--run-->"
CORE_VIEWS = ("about", "look", "status", "media", "strip", "predict", "scrub")
"""What stands above the pictures of every run."""
_ENTRY = "visualizers/stage/page.mjs"
_PART = re.compile(r"<!--(styles|plotly|scripts|terms|texts|language)-->")
_HIGH = "80vh"


@dataclass(frozen=True)
class Page:
    """A whole page as HTML; a notebook shows it by itself."""

    html: str

    def save(self, path: str | Path) -> Path:
        """Write the page to a file and return its path."""
        target = Path(path)
        target.write_text(self.html, "utf-8")
        return target

    def _repr_html_(self) -> str:
        """Return a frame that holds the page: its styles and scripts stay within it."""
        inside = escape(self.html, quote=True)
        style = f"width: 100%; height: {_HIGH}; border: 0"
        return f'<iframe srcdoc="{inside}" style="{style}" title="A recorded run"></iframe>'


def page(trace: Trace, *, dark: bool = False) -> Page:
    """Return a page with the pictures of a run.

    Args:
        trace: what ``decode`` made, or ``engine.trace.json_io.load`` read.
        dark: light letters on a dark ground.
    """
    pictures = pictures_of(trace)
    data = {
        "recorded": recorded(trace, pictures),
        "visuals": arranged(pictures),
        "dark": dark,
    }
    before, _, after = skeleton(pictures).rpartition(HOLE)
    return Page(before + as_data(data) + after)


def recorded(trace: Trace, pictures: Iterable[str]) -> dict[str, Any]:
    """Return a recorded run as JSON values: its trace, and what its pictures show of every step."""
    return {"trace": json_io.trace_to_dict(trace), "shown": shown_of(trace, pictures)}


def arranged(pictures: Iterable[str]) -> list[str]:
    """Return the views of a stage in their order: the common ones, the pictures, the chart."""
    return [*CORE_VIEWS, *sorted(pictures, key=lambda name: name == "chart")]


def skeleton(
    pictures: Iterable[str],
    language: str = "en",
    texts: str = "",
    terms: Mapping[str, list[str]] | None = None,
) -> str:
    """Return the page without a run: what stands in place of HOLE is one as JSON.

    Args:
        pictures: names; those that nobody knows are left alone.
        language: of its words.
        texts: the element in which its scripts find them; without one they are English.
        terms: what its terms mean, English where nothing is said.
    """
    plotly = any(name in VISUALS and VISUALS[name].plotly for name in pictures)
    return _skeleton(plotly, language, texts, as_data(words() if terms is None else terms))


@lru_cache(maxsize=8)
def _skeleton(plotly: bool, language: str, texts: str, terms: str) -> str:
    parts = {
        "styles": styles(),
        "plotly": _inline(plotly_file().read_text("utf-8")) if plotly else "",
        "scripts": _inline(join(modules_in(FOLDER), _ENTRY)),
        "terms": terms,
        "texts": texts,
        "language": language,
    }
    frame = (FOLDER / "stage" / "page.html").read_text("utf-8")
    return _PART.sub(lambda match: parts[match[1]], frame)


def styles() -> str:
    """Return the styles of all pictures: those they share, then each one's own."""
    own = sorted(FOLDER.glob("*/*.css"), key=lambda path: (path.parent.name != "stage", path))
    return "\n".join(path.read_text("utf-8") for path in own)


def plotly_file() -> Path:
    """Return where the scripts of Plotly stand; nothing of it is imported."""
    found = find_spec("plotly")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("No module named 'plotly'", name="plotly")
    return Path(found.origin).parent / "package_data" / "plotly.min.js"


def _inline(script: str) -> str:
    """Return a script that can stand in a page: nothing in it looks like its end."""
    return re.sub(r"</(script)", r"<\\/\1", script, flags=re.IGNORECASE).replace("<!--", "<\\!--")


def as_data(value: Any, *, ensure_ascii: bool = True) -> str:
    """Return a value as JSON that can stand in a script element: no text in it can end that.

    Args:
        value: of JSON's kinds, its numbers finite.
        ensure_ascii: as ``json.dumps``; a text that somebody typed may hold what no file can otherwise.
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=ensure_ascii)
    return text.replace("<", "\\u003c")
