"""The page's own scripts and styles: where the browser gets them, and how elements reach them.

The scripts are ES modules, joined into one file when the page is built. Its address holds a digest
of it, so a browser may keep it for ever and still never has an old one. The one global of the page,
``playground``, is the promise of their entry: an element that Gradio makes earlier waits for it.
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

from engine.reading.terms import words
from playground import languages
from playground.listening import LISTENERS
from playground.translated import terms_in
from visualizers import page
from visualizers.join import join, modules_in

CLIENT = Path(__file__).resolve().parent / "client"
_ENTRY = "playground/client/index.mjs"
# A page without its scripts would stay silent whatever is pressed.
_SAY_MISSING = (
    "const said = Object.assign(document.createElement('p'), { role: 'alert', "
    "className: 'dp-status bad', style: 'padding: 12px', "
    "textContent: 'The scripts of this page could not be loaded, so it can draw nothing. Reload it.' "
    "}); (document.body ?? document.documentElement).prepend(said);"
)
_PATH = "scripts"
HERE = "./here"
"""Where the server answers a page that asks whether it is there."""
_FOR_EVER = {"Cache-Control": "public, max-age=31536000, immutable"}


@cache
def scripts() -> bytes:
    """Return the page's scripts, joined."""
    return join(modules_in(page.FOLDER, CLIENT), _ENTRY).encode()


@cache
def packed() -> bytes:
    """Return the same, packed with gzip."""
    return gzip.compress(scripts(), mtime=0)


@cache
def version() -> str:
    """Return a digest of all that is served: another one whenever any of it is."""
    others = json.dumps([_words(language) for language in languages.others()])
    served = page.skeleton([]) + others
    return hashlib.sha256(scripts() + served.encode()).hexdigest()[:16]


def styles() -> str:
    """Return the styles of the whole page in one piece: those of a picture stand with its view."""
    own = sorted(CLIENT.rglob("*.css"))
    return "\n".join([page.styles(), *(path.read_text("utf-8") for path in own)])


def routes() -> list[Route]:
    """Return the routes of the scripts and of a saved page's skeleton; nothing else is served."""
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
    # Not to be shown as it is: a run is missing from it.
    return _kept(request, made.encode(), "text/plain; charset=utf-8")


def _words(language: str) -> dict[str, Any]:
    """Return what gives a saved page the words of a language."""
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
    """Return the address, relative to the page, of the scripts of Plotly."""
    return f"./{_PATH}/{version()}/plotly.js"


def _kept(request: Request, content: bytes, kind: str, **more: str) -> Response:
    if request.path_params["version"] != version():
        return PlainTextResponse("Not found", 404)
    return kept(content, kind, **more)


def kept(content: bytes, kind: str, **more: str) -> Response:
    """Return an answer that a browser may keep for ever: its address changes with it."""
    headers = {**_FOR_EVER, "X-Content-Type-Options": "nosniff", **more}
    return Response(content, media_type=kind, headers=headers)


def head(given: Mapping[str, Any], soon: Iterable[str] = ()) -> str:
    """Return the scripts of the page's head.

    Args:
        given: what the entry's ``open`` is called with, as JSON values.
        soon: addresses, relative to the page, that its scripts will ask for at once.
    """
    # Relative to the page, so that it may be served below any path.
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
