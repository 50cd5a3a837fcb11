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
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

from engine.glossary import glossary_texts
from engine.processors import filter_titles
from playground.i18n import languages
from playground.i18n.translate_spec import translate_spec
from playground.shell.listeners import LISTENERS
from visualizers import page
from visualizers.bundle import bundle_modules, read_modules

CLIENT = Path(__file__).resolve().parents[1] / "client"
_ENTRY = "playground/client/index.mjs"
# Without its scripts the page cannot react to anything, so this notice is inline.
_MISSING_SCRIPTS_NOTICE = (
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
    "tabs/tune.css",
    "inspect/dial_map.css",
    "inspect/what_if.css",
    "inspect/why.css",
)
"""In this order, since of two rules of one weight the later wins."""
_PATH = "scripts"
PING_URL = "./here"
"""URL with which a page checks that the server is reachable."""
_IMMUTABLE_HEADERS = {"Cache-Control": "public, max-age=31536000, immutable"}


@cache
def joined_scripts() -> bytes:
    """Return the page's scripts, joined into one file."""
    return bundle_modules(read_modules(page.VISUALIZERS_FOLDER, CLIENT), _ENTRY).encode()


@cache
def gzipped_scripts() -> bytes:
    """Return the joined scripts, compressed with gzip."""
    return gzip.compress(joined_scripts(), mtime=0)


@cache
def asset_version() -> str:
    """Return a digest of all that is served: it changes whenever any of it changes."""
    others = json.dumps([_language_texts(language) for language in languages.other_languages()])
    served = page.page_skeleton([]) + others
    return hashlib.sha256(joined_scripts() + served.encode()).hexdigest()[:16]


def joined_styles() -> str:
    """Return all styles of the page in one text: those of the views, then the page's own."""
    own = [(CLIENT / name).read_text("utf-8") for name in _STYLES]
    return "\n".join([page.read_styles(), *own])


def routes() -> list[Route]:
    """Return the routes for scripts, a saved page's skeleton, Plotly and reachability checks."""
    place = f"/{_PATH}/{{version}}"
    return [
        Route(f"{place}/index.mjs", _serve_scripts),
        Route(f"{place}/page.html", _serve_skeleton),
        Route(f"{place}/plotly.js", _serve_plotly),
        Route(PING_URL.removeprefix("."), _serve_ping),
    ]


async def _serve_ping(request: Request) -> Response:
    if press := request.query_params.get("press", ""):
        LISTENERS.announce(press[:64])
    return Response(status_code=204, headers={"Cache-Control": "no-store"})


async def _serve_scripts(request: Request) -> Response:
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return _versioned_response(request, joined_scripts(), "text/javascript")
    return _versioned_response(
        request, gzipped_scripts(), "text/javascript", **{"Content-Encoding": "gzip"}
    )


async def _serve_skeleton(request: Request) -> Response:
    pictures = request.query_params.get("pictures", "").split(",")
    language = request.query_params.get(languages.QUERY_PARAMETER, "")
    made = page.page_skeleton(
        pictures, **_language_texts(language) if language in languages.other_languages() else {}
    )
    # As plain text, since a skeleton without a run is not a page to show.
    return _versioned_response(request, made.encode(), "text/plain; charset=utf-8")


def _language_texts(language: str) -> dict[str, Any]:
    """Return the arguments that translate a saved page."""
    return {
        "language": language,
        "texts": languages.catalogue_elements(language),
        **translate_spec({"terms": glossary_texts(), "filters": filter_titles()}, language),
    }


async def _serve_plotly(request: Request) -> Response:
    if request.path_params["version"] != asset_version():
        return PlainTextResponse("Not found", 404)
    return FileResponse(
        page.find_plotly_file(), media_type="text/javascript", headers=_IMMUTABLE_HEADERS
    )


def plotly_url() -> str:
    """Return the URL of Plotly's script, relative to the page."""
    return f"./{_PATH}/{asset_version()}/plotly.js"


def _versioned_response(request: Request, content: bytes, kind: str, **more: str) -> Response:
    if request.path_params["version"] != asset_version():
        return PlainTextResponse("Not found", 404)
    return immutable_response(content, kind, **more)


def immutable_response(content: bytes, kind: str, **more: str) -> Response:
    """Return a response that browsers cache permanently. Its URL must change with its content."""
    headers = {**_IMMUTABLE_HEADERS, "X-Content-Type-Options": "nosniff", **more}
    return Response(content, media_type=kind, headers=headers)


def preload_html(url: str) -> str:
    """Return the HTML that preloads what the scripts request first, by its URL relative to the page."""
    return f'<link rel="preload" as="fetch" crossorigin="anonymous" href="{url}">'


def head_html(given: Mapping[str, Any]) -> str:
    """Return the HTML of the page's head: it loads and starts the scripts.

    Args:
        given: Argument of the entry module's ``open``, as JSON values.
    """
    # Relative, so that the playground may be served below any path.
    address = f"./{_PATH}/{asset_version()}/index.mjs"
    link = f'<link rel="modulepreload" href="{address}">'
    script = (
        f"window.playground = import(new URL({address!r}, document.baseURI))"
        f".then(({{ page }}) => (window.playground.page = page.open({page.to_script_json(given)})));"
        f"window.playground.catch(() => {{ {_MISSING_SCRIPTS_NOTICE} }});"
    )
    return f"{link}<script>{script}</script>"


def on_load(make: str) -> str:
    """Return the script of an element that calls the page once the scripts have loaded.

    Args:
        make: A JavaScript expression of ``p``, the page.
    """
    return f"playground.then((p) => {make});"


def on_message(make: str, at_once: bool = False) -> str:
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
