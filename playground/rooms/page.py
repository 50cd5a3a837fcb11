"""The participant's page: a few kilobytes, the same for every room, without Gradio and Plotly."""

from __future__ import annotations

import gzip
import hashlib
import json
from base64 import b64encode
from functools import cache
from html import escape

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from playground.i18n.languages import data
from playground.i18n.translate import sayer
from playground.shell.scripts import CLIENT, kept
from visualizers import page
from visualizers.bundle import join, modules_in

_ENTRY = "playground/client/rooms/participant.mjs"
_STYLES = ("stage/view.css", "media/view.css")
"""Styles of views that define the colours and buttons."""
_OWN_STYLES = ("lessons/lessons.css", "rooms/rooms.css")
_PLACE = "room-files"
_TITLE = "A lesson together"
_CODE = "Code of the room"
_ENTER = "Enter"
_NO_SCRIPT = "This page needs JavaScript."
_SAYS = (
    "The answer has been shown",
    "The class is at",
    "There is no such room",
    "This card asks",
    "This room",
    "Too many",
    "You have not entered",
    "Something went wrong",
    "answer ",
)
"""Beginnings of the server's sentences that a participant may see, for the translations to send."""
_DARK = "document.documentElement.classList.toggle('dark', matchMedia('(prefers-color-scheme: dark)').matches);"
"""Runs before the first paint, so that a dark page does not flash white."""


@cache
def script() -> bytes:
    """Return the scripts of the page, joined into one file."""
    return join(modules_in(page.FOLDER, CLIENT), _ENTRY).encode()


@cache
def styles() -> bytes:
    """Return the styles of the page in one file."""
    files = [*(page.FOLDER / name for name in _STYLES), *(CLIENT / name for name in _OWN_STYLES)]
    return "\n".join(file.read_text("utf-8") for file in files).encode()


@cache
def version() -> str:
    """Return a digest of the scripts and styles, part of their URLs."""
    return hashlib.sha256(script() + b"\0" + styles()).hexdigest()[:16]


def routes() -> list[Route]:
    """Return the routes of the scripts and styles."""
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


@cache
def _words(language: str) -> str:
    """Return the translations that this page needs, a small part of all."""
    asked = script().decode()
    return data(
        language,
        lambda text: text.startswith(_SAYS) or json.dumps(text, ensure_ascii=False) in asked,
    )


def entered(language: str) -> HTMLResponse:
    """Return the page of a participant. Its script reads the room's code from the URL.

    Args:
        language: Language of the room's lesson. Texts without a translation are English.
    """
    return _answer(
        '<div id="room"><p role="status">…</p></div>'
        f"<noscript><p>{_in(language, _NO_SCRIPT)}</p></noscript>"
        f"{_words(language)}"
        f'<script type="module" src="./{_PLACE}/{version()}/participant.mjs"></script>',
        language=language,
    )


def refused(sentence: str, status: int, language: str) -> HTMLResponse:
    """Return the page of a refused visitor, with the reason and a field for another code."""
    reason = f'<p class="rm-say" role="alert">{_in(language, sentence)}</p>'
    return _answer(f"{_heading(language)}{reason}{_form(language)}", status, language=language)


def door(language: str) -> HTMLResponse:
    """Return the page with the form for a code."""
    return _answer(_heading(language) + _form(language), base="./", language=language)


def _in(language: str, text: str) -> str:
    return escape(sayer(language).said(text))


def _heading(language: str) -> str:
    return f"<h1>{_in(language, _TITLE)}</h1>"


def _form(language: str) -> str:
    return (
        '<form class="rm-door" action="./room" method="get">'
        f'<label for="code">{_in(language, _CODE)}</label>'
        '<input id="code" name="code" required maxlength="12" autocomplete="off" autocapitalize="characters"'
        f' spellcheck="false"><button type="submit" class="dp-btn rm-go">{_in(language, _ENTER)}</button></form>'
    )


def _answer(body: str, status: int = 200, base: str = "../", *, language: str) -> HTMLResponse:
    # The base is relative, so that the playground may be served below any path.
    content = (
        f'<!doctype html><html lang="{escape(language)}"><head><meta charset="utf-8"><base href="{base}">'
        '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
        f'<title>{_in(language, _TITLE)}</title><link rel="icon" href="data:,">'
        f'<link rel="stylesheet" href="./{_PLACE}/{version()}/room.css"><script>{_DARK}</script></head>'
        f'<body class="rm-page"><main class="dp-stage">{body}</main></body></html>'
    )
    headers = {
        "Cache-Control": "no-store",
        "Content-Security-Policy": _policy(),
        "Vary": "Accept-Language",
    }
    return HTMLResponse(content, status, headers)


@cache
def _policy() -> str:
    """Return the page's content security policy, stricter than the playground's."""
    dark = b64encode(hashlib.sha256(_DARK.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'self' 'sha256-{dark}'; style-src 'self'; connect-src 'self';"
        " img-src data:; media-src 'self'; base-uri 'self'; form-action 'self'"
    )
