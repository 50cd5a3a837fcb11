"""The page's own scripts and styles: where the browser gets them, and how elements reach them.

The scripts are ES modules, joined into one file when the page is built. Its address holds a digest
of it, so a browser may keep it for ever and still never has an old one. The one global of the page,
``playground``, is the promise of their entry: an element that Gradio makes earlier waits for it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from playground.join import join

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("visualizers", "playground/client")
# What is served, and the module that it is made of: the page's own scripts, those of a saved page.
ENTRIES = {
    "index.mjs": "playground/client/index.mjs",
    "saved.mjs": "playground/client/saved.mjs",
}
# A page without its scripts would stay silent whatever is pressed.
_SAY_MISSING = (
    "const said = Object.assign(document.createElement('p'), { role: 'alert', "
    "className: 'dp-status bad', style: 'padding: 12px', "
    "textContent: 'The scripts of this page could not be loaded, so it can draw nothing. Reload it.' "
    "}); (document.body ?? document.documentElement).prepend(said);"
)
TAB = '<div class="dp-tab"><p class="dp-note">Loading…</p></div>'
"""What stands where a tab's script draws it."""
_PATH = "scripts"
_KEEP = "public, max-age=31536000, immutable"


@cache
def served() -> dict[str, bytes]:
    """Return the joined scripts by name; nothing else is ever served."""
    found = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.mjs"))
    modules = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in found}
    return {name: join(modules, entry).encode() for name, entry in ENTRIES.items()}


@cache
def version() -> str:
    """Return a digest of all that is served: another one whenever any of it is."""
    return hashlib.sha256(b"\0".join(served().values())).hexdigest()[:16]


def styles() -> str:
    """Return the styles of the whole page in one piece: those of a picture stand with its view."""
    sheets = {path.stem: path for path in (ROOT / "playground" / "client").glob("*.css")}
    sheets |= {path.parent.name: path for path in (ROOT / "visualizers").glob("*/view.css")}
    return "\n".join(sheets[name].read_text() for name in sorted(sheets))


def routes() -> list[Route]:
    """Return the route of the scripts."""
    return [Route(f"/{_PATH}/{{version}}/{{name}}", _answer)]


async def _answer(request: Request) -> Response:
    content = served().get(request.path_params["name"])
    if content is None or request.path_params["version"] != version():
        return PlainTextResponse("Not found", 404)
    headers = {"Cache-Control": _KEEP, "X-Content-Type-Options": "nosniff"}
    return Response(content, media_type="text/javascript", headers=headers)


def head(given: Mapping[str, Any]) -> str:
    """Return what the page's head holds.

    Args:
        given: what the entry's ``open`` is called with, as JSON values.
    """
    # Relative to the page, so that it may be served below any path.
    address = f"./{_PATH}/{version()}/index.mjs"
    link = f'<link rel="modulepreload" href="{address}">'
    # "<" is escaped: no text of a recorded run or a declaration can end the script.
    data = json.dumps(given, separators=(",", ":")).replace("<", "\\u003c")
    script = (
        f"window.playground = import(new URL({address!r}, document.baseURI))"
        f".then(({{ page }}) => (window.playground.page = page.open({data})));"
        f"window.playground.catch(() => {{ {_SAY_MISSING} }});"
    )
    return f"<style>{styles()}</style>{link}<script>{script}</script>"


def on_load(make: str) -> str:
    """Return the script of an element that asks something of the page when it is there.

    Args:
        make: a JavaScript expression of ``p``, the page.
    """
    return f"playground.then((p) => {make});"


def receiving(make: str, at_once: bool = False) -> str:
    """Return the script of an element whose values are messages to a part of the page.

    A value is read when it comes and handed on when the part is there, in the same order: the next
    one may have taken its place by then.

    Args:
        make: a JavaScript expression of ``p``, the page; it returns what has a ``receive``.
        at_once: whether the first value is a message, too.
    """
    return (
        f"const part = playground.then((p) => {make});"
        "const take = () => { const text = props.value; part.then((one) => one.receive(text)); };"
        f"{'take();' if at_once else ''} watch('value', take);"
    )
