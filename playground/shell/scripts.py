"""The page's scripts and styles: their routes, and the code with which elements call them.

The scripts are ES modules, joined into one file when the page is built. Its URL contains a digest,
so browsers cache it permanently and still never use an old version. The page's only global,
``playground``, is the promise of the entry module; elements that Gradio creates earlier wait for
it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

from engine.statistics.glossary import words
from playground.i18n import languages
from playground.i18n.translate_spec import terms_in
from playground.shell.listeners import LISTENERS
from visualizers import page
from visualizers.bundle import join, modules_in

CLIENT = Path(__file__).resolve().parents[1] / "client"
_ENTRY = "playground/client/index.mjs"
# Without its scripts the page cannot react to anything, so this notice is inline.
_SAY_MISSING = (
    "const said = Object.assign(document.createElement('p'), { role: 'alert', "
    "className: 'dp-status bad', style: 'padding: 12px', "
    "textContent: 'The scripts of this page could not be loaded, so it can draw nothing. Reload it.' "
    "}); (document.body ?? document.documentElement).prepend(said);"
)
_STYLES = (
    "tabs/compare.css",
    "inspect/export.css",
    "forms/generation_config.css",
    "runs/fork.css",
    "forms/form.css",
    "shell/layout.css",
    "lessons/lessons.css",
    "rooms/rooms.css",
    "inspect/influence.css",
    "forms/media.css",
    "forms/methods.css",
    "runs/player.css",
    "forms/presets.css",
    "forms/prompt_field.css",
    "tabs/taste.css",
    "inspect/what_if.css",
    "inspect/why.css",
)
"""In this order, since of two rules of one weight the later wins."""
_PATH = "scripts"
HERE = "./here"
"""URL with which a page checks that the server is reachable."""
_FOR_EVER = {"Cache-Control": "public, max-age=31536000, immutable"}


@cache
def scripts() -> bytes:
    """Return the page's scripts, joined into one file."""
    return join(modules_in(page.FOLDER, CLIENT), _ENTRY).encode()


@cache
def packed() -> bytes:
    """Return the joined scripts, compressed with gzip."""
    return gzip.compress(scripts(), mtime=0)


@cache
def version() -> str:
    """Return a digest of all that is served: it changes whenever any of it changes."""
    others = json.dumps([_words(language) for language in languages.others()])
    served = page.skeleton([]) + others
    return hashlib.sha256(scripts() + served.encode()).hexdigest()[:16]


def styles() -> str:
    """Return all styles of the page in one text: those of the views, then the page's own."""
    own = [(CLIENT / name).read_text("utf-8") for name in _STYLES]
    return "\n".join([page.styles(), *own])


def routes() -> list[Route]:
    """Return the routes for scripts, a saved page's skeleton, Plotly and reachability checks."""
    place = f"/{_PATH}/{{version}}"
    return [
        Route(f"{place}/index.mjs", _scripts),
        Route(f"{place}/page.html", _skeleton),
        Route(f"{place}/plotly.js", _plotly),
        Route(HERE.removeprefix("."), _here),
    ]


async def _here(request: Request) -> Response:
    if press := request.query_params.get("press", ""):
        LISTENERS.announce(press[:64])
    return Response(status_code=204, headers={"Cache-Control": "no-store"})


async def _scripts(request: Request) -> Response:
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return _kept(request, scripts(), "text/javascript")
    return _kept(request, packed(), "text/javascript", **{"Content-Encoding": "gzip"})


async def _skeleton(request: Request) -> Response:
    pictures = request.query_params.get("pictures", "").split(",")
    language = request.query_params.get(languages.PARAMETER, "")
    made = page.skeleton(pictures, **_words(language) if language in languages.others() else {})
    # As plain text, since a skeleton without a run is not a page to show.
    return _kept(request, made.encode(), "text/plain; charset=utf-8")


def _words(language: str) -> dict[str, Any]:
    """Return the arguments that translate a saved page."""
    return {
        "language": language,
        "texts": languages.data(language),
        "terms": terms_in(language, words()),
    }


async def _plotly(request: Request) -> Response:
    if request.path_params["version"] != version():
        return PlainTextResponse("Not found", 404)
    return FileResponse(page.plotly_file(), media_type="text/javascript", headers=_FOR_EVER)


def plotly() -> str:
    """Return the URL of Plotly's script, relative to the page."""
    return f"./{_PATH}/{version()}/plotly.js"


def _kept(request: Request, content: bytes, kind: str, **more: str) -> Response:
    if request.path_params["version"] != version():
        return PlainTextResponse("Not found", 404)
    return kept(content, kind, **more)


def kept(content: bytes, kind: str, **more: str) -> Response:
    """Return a response that browsers cache permanently. Its URL must change with its content."""
    headers = {**_FOR_EVER, "X-Content-Type-Options": "nosniff", **more}
    return Response(content, media_type=kind, headers=headers)


def head(given: Mapping[str, Any], soon: Iterable[str] = ()) -> str:
    """Return the HTML of the page's head: it loads and starts the scripts.

    Args:
        given: Argument of the entry module's ``open``, as JSON values.
        soon: URLs, relative to the page, to preload because the scripts request them first.
    """
    # Relative, so that the playground may be served below any path.
    address = f"./{_PATH}/{version()}/index.mjs"
    link = f'<link rel="modulepreload" href="{address}">'
    script = (
        f"window.playground = import(new URL({address!r}, document.baseURI))"
        f".then(({{ page }}) => (window.playground.page = page.open({page.as_data(given)})));"
        f"window.playground.catch(() => {{ {_SAY_MISSING} }});"
    )
    early = "".join(
        f'<link rel="preload" as="fetch" crossorigin="anonymous" href="{path}">' for path in soon
    )
    return f"{link}{early}<script>{script}</script>"


def on_load(make: str) -> str:
    """Return the script of an element that calls the page once the scripts have loaded.

    Args:
        make: A JavaScript expression of ``p``, the page.
    """
    return f"playground.then((p) => {make});"


def receiving(make: str, at_once: bool = False) -> str:
    """Return the script of an element whose values are messages to a part of the page.

    Each value is read at once and delivered, in order, when the part exists. Reading it later could
    lose it, since the next value replaces it.

    Args:
        make: A JavaScript expression of ``p``, the page, that returns an object with ``receive``.
        at_once: Whether the element's first value is also a message.
    """
    return (
        f"const part = playground.then((p) => {make});"
        "const take = () => { const text = props.value; part.then((one) => one.receive(text)); };"
        f"{'take();' if at_once else ''} watch('value', take);"
    )
