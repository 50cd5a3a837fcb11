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

from playground.i18n.languages import catalogue_elements
from playground.i18n.translate import translator_for
from playground.shell.scripts import CLIENT, immutable_response
from visualizers import page
from visualizers.bundle import bundle_modules, read_modules

_ENTRY = "playground/client/rooms/participant.mjs"
_STYLES = ("stage/view.css", "media/view.css")
"""Styles of views that define the colours and buttons."""
_OWN_STYLES = ("lessons/lessons.css", "rooms/rooms.css")
_FILES_PATH = "room-files"
_TITLE = "A lesson together"
_CODE = "Code of the room"
_ENTER = "Enter"
_NO_SCRIPT = "This page needs JavaScript."
_SENTENCE_STARTS = (
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
_DARK_MODE_SCRIPT = (
    "document.documentElement.classList.toggle('dark', "
    "matchMedia('(prefers-color-scheme: dark)').matches);"
)
"""Runs before the first paint, so that a dark page does not flash white."""


@cache
def joined_scripts() -> bytes:
    """Return the scripts of the page, joined into one file."""
    return bundle_modules(read_modules(page.VISUALIZERS_FOLDER, CLIENT), _ENTRY).encode()


@cache
def joined_styles() -> bytes:
    """Return the styles of the page in one file."""
    files = [
        *(page.VISUALIZERS_FOLDER / name for name in _STYLES),
        *(CLIENT / name for name in _OWN_STYLES),
    ]
    return "\n".join(file.read_text("utf-8") for file in files).encode()


@cache
def asset_version() -> str:
    """Return a digest of the scripts and styles, part of their URLs."""
    return hashlib.sha256(joined_scripts() + b"\0" + joined_styles()).hexdigest()[:16]


def routes() -> list[Route]:
    """Return the routes of the scripts and styles."""
    return [Route(f"/{_FILES_PATH}/{{version}}/{{name}}", _serve_file)]


def _serve_file(request: Request) -> Response:
    found = {
        "participant.mjs": (joined_scripts, "text/javascript"),
        "room.css": (joined_styles, "text/css"),
    }.get(request.path_params["name"])
    if found is None or request.path_params["version"] != asset_version():
        return PlainTextResponse("Not found", 404)
    make, kind = found
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return immutable_response(make(), kind)
    return immutable_response(
        _gzip_file(request.path_params["name"], make()), kind, **{"Content-Encoding": "gzip"}
    )


@cache
def _gzip_file(name: str, content: bytes) -> bytes:
    del name
    return gzip.compress(content, mtime=0)


@cache
def _language_texts(language: str) -> str:
    """Return the translations that this page needs, a small part of all."""
    asked = joined_scripts().decode()
    return catalogue_elements(
        language,
        lambda text: (
            text.startswith(_SENTENCE_STARTS) or json.dumps(text, ensure_ascii=False) in asked
        ),
    )


def participant_page(language: str) -> HTMLResponse:
    """Return the page of a participant. Its script reads the room's code from the URL.

    Args:
        language: Language of the room's lesson. Texts without a translation are English.
    """
    return _page_response(
        '<div id="room"><p role="status">…</p></div>'
        f"<noscript><p>{_translate(language, _NO_SCRIPT)}</p></noscript>"
        f"{_language_texts(language)}"
        f'<script type="module" src="./{_FILES_PATH}/{asset_version()}/participant.mjs"></script>',
        language=language,
    )


def refusal_page(sentence: str, status: int, language: str) -> HTMLResponse:
    """Return the page of a refused visitor, with the reason and a field for another code."""
    reason = f'<p class="rm-say" role="alert">{_translate(language, sentence)}</p>'
    return _page_response(
        f"{_heading_html(language)}{reason}{_code_form_html(language)}", status, language=language
    )


def code_page(language: str) -> HTMLResponse:
    """Return the page with the form for a code."""
    return _page_response(
        _heading_html(language) + _code_form_html(language), base="./", language=language
    )


def _translate(language: str, text: str) -> str:
    return escape(translator_for(language).translate(text))


def _heading_html(language: str) -> str:
    return f"<h1>{_translate(language, _TITLE)}</h1>"


def _code_form_html(language: str) -> str:
    return (
        '<form class="rm-door" action="./room" method="get">'
        f'<label for="code">{_translate(language, _CODE)}</label>'
        '<input id="code" name="code" required maxlength="12" autocomplete="off" autocapitalize="characters"'
        f' spellcheck="false"><button type="submit" class="dp-btn rm-go">{_translate(language, _ENTER)}</button></form>'
    )


def _page_response(
    body: str, status: int = 200, base: str = "../", *, language: str
) -> HTMLResponse:
    # The base is relative, so that the playground may be served below any path.
    content = (
        f'<!doctype html><html lang="{escape(language)}"><head><meta charset="utf-8"><base href="{base}">'
        '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
        f'<title>{_translate(language, _TITLE)}</title><link rel="icon" href="data:,">'
        f'<link rel="stylesheet" href="./{_FILES_PATH}/{asset_version()}/room.css">'
        f"<script>{_DARK_MODE_SCRIPT}</script></head>"
        f'<body class="rm-page"><main class="dp-stage">{body}</main></body></html>'
    )
    headers = {
        "Cache-Control": "no-store",
        "Content-Security-Policy": _content_security_policy(),
        "Vary": "Accept-Language",
    }
    return HTMLResponse(content, status, headers)


@cache
def _content_security_policy() -> str:
    """Return the page's content security policy, stricter than the playground's."""
    dark = b64encode(hashlib.sha256(_DARK_MODE_SCRIPT.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'self' 'sha256-{dark}'; style-src 'self'; connect-src 'self';"
        " img-src data:; media-src 'self'; base-uri 'self'; form-action 'self'"
    )
