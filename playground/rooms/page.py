"""The page of a participant: a few kilobytes of its own, the same for every room, without Gradio and Plotly."""

from __future__ import annotations

import gzip
import hashlib
from base64 import b64encode
from functools import cache
from html import escape

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from playground.languages import ENGLISH, data
from playground.scripts import CLIENT, kept
from visualizers import page
from visualizers.join import join, modules_in

_ENTRY = "playground/client/lessons/participant.mjs"
_STYLES = ("stage/view.css",)
"""Of the pictures, those with the colours and the buttons."""
_OWN_STYLES = ("lessons/lessons.css", "lessons/room.css")
_PLACE = "room-files"
_TITLE = "A lesson together"
_FORM = (
    '<form class="rm-door" action="./room" method="get"><label for="code">Code of the room</label>'
    '<input id="code" name="code" required maxlength="12" autocomplete="off" autocapitalize="characters"'
    ' spellcheck="false"><button type="submit" class="dp-btn rm-go">Enter</button></form>'
)
_DARK = "document.documentElement.classList.toggle('dark', matchMedia('(prefers-color-scheme: dark)').matches);"
"""Runs before anything is painted."""


@cache
def script() -> bytes:
    """Return the scripts of the page, joined."""
    return join(modules_in(page.FOLDER, CLIENT), _ENTRY).encode()


@cache
def styles() -> bytes:
    """Return the styles of the page."""
    files = [*(page.FOLDER / name for name in _STYLES), *(CLIENT / name for name in _OWN_STYLES)]
    return "\n".join(file.read_text("utf-8") for file in files).encode()


@cache
def version() -> str:
    """Return a digest of what the page fetches."""
    return hashlib.sha256(script() + b"\0" + styles()).hexdigest()[:16]


def routes() -> list[Route]:
    """Return the routes of what the page fetches."""
    return [Route(f"/{_PLACE}/{{version}}/{{name}}", _file)]


def _file(request: Request) -> Response:
    found = {
        "participant.mjs": (script, "text/javascript"),
        "room.css": (styles, "text/css"),
    }.get(request.path_params["name"])
    if found is None or request.path_params["version"] != version():
        return PlainTextResponse("Not found", 404)
    make, kind = found
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return kept(make(), kind)
    return kept(_packed(request.path_params["name"], make()), kind, **{"Content-Encoding": "gzip"})


@cache
def _packed(name: str, content: bytes) -> bytes:
    del name
    return gzip.compress(content, mtime=0)


def entered(language: str) -> HTMLResponse:
    """Return the page of somebody who is in a room; which one, its script reads from the address.

    Args:
        language: of the room's lesson, which the page speaks as far as it can.
    """
    return _answer(
        '<div id="room"><p role="status">…</p></div>'
        "<noscript><p>This page needs JavaScript.</p></noscript>"
        f"{data(language)}"
        f'<script type="module" src="./{_PLACE}/{version()}/participant.mjs"></script>',
        language=language,
    )


def refused(sentence: str, status: int) -> HTMLResponse:
    """Return the page of somebody who is not let in, with the reason and a field for another code."""
    said = f'<p class="rm-say" role="alert">{escape(sentence)}</p>'
    return _answer(f"<h1>{_TITLE}</h1>{said}{_FORM}", status)


def door() -> HTMLResponse:
    """Return the page that asks for a code."""
    return _answer(f"<h1>{_TITLE}</h1>{_FORM}", base="./")


def _answer(
    body: str, status: int = 200, base: str = "../", language: str = ENGLISH
) -> HTMLResponse:
    # Relative to the playground's page, so that it may be served below any path.
    content = (
        f'<!doctype html><html lang="{escape(language)}"><head><meta charset="utf-8"><base href="{base}">'
        '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
        f'<title>{_TITLE}</title><link rel="icon" href="data:,">'
        f'<link rel="stylesheet" href="./{_PLACE}/{version()}/room.css"><script>{_DARK}</script></head>'
        f'<body class="rm-page"><main class="dp-stage">{body}</main></body></html>'
    )
    headers = {"Cache-Control": "no-store", "Content-Security-Policy": _policy()}
    return HTMLResponse(content, status, headers)


@cache
def _policy() -> str:
    """Return what the page may load; the playground's own policy has to allow more."""
    dark = b64encode(hashlib.sha256(_DARK.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'self' 'sha256-{dark}'; style-src 'self'; connect-src 'self';"
        " img-src data:; base-uri 'self'; form-action 'self'"
    )
