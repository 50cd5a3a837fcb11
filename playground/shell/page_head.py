"""Middleware that writes the current head and the reader's language into Gradio's page.

Gradio adds its own ``head`` only after its scripts have run. In the HTML, the page's scripts load
in parallel with them. Styles stay with Gradio, because they must come after its own.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import threading
from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from starlette.datastructures import Headers, MutableHeaders

from playground.i18n.languages import ENGLISH, choose_language
from visualizers.page import to_script_json

_BASE_TAG = re.compile(rb"<base\b[^>]*>")
"""The head goes after this tag, because its URLs are relative to it."""
_GRADIO_CONFIG = re.compile(
    rb"(?<=<script>window\.gradio_config = )\{.*?\}(?=;</script>)", re.DOTALL
)
"""The JSON configuration that Gradio draws the page from."""
_SHOWN_PROPS = ("label", "value")
"""Component properties with text that a reader sees."""
_TEXT_NODE = re.compile(r"(?<=>)[^<>]+(?=<)")
"""Text between two HTML tags."""
_GZIP_LEVEL = 5
"""gzip level: low, because the page is compressed for every request."""


class HeadMiddleware:
    """ASGI middleware: writes the head into the page, and sends it as gzip where accepted.

    Args:
        app: the next ASGI app.
        head: returns the current head in a language.
        preload: returns what else belongs into the head of an address, from its query string.
        words: returns the catalogue of a language (English -> translation), for text that Gradio
            draws.
    """

    def __init__(
        self,
        app: Any,
        head: Callable[[str], str],
        preload: Callable[[str], str],
        words: Callable[[str], Mapping[str, str]],
    ) -> None:
        self.app, self.head, self.preload, self.words = app, head, preload, words

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["path"] != "/":
            await self.app(scope, receive, send)
            return
        begun, parts, headers = {}, [], Headers(scope=scope)
        query = scope.get("query_string", b"").decode("latin1")

        async def whole(message: Any) -> None:
            if message["type"] == "http.response.start":
                begun.update(message)
                return
            parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                body = b"".join(parts)
                if begun["status"] == 200:
                    # Building and compressing the page would block the event loop.
                    body = await asyncio.to_thread(self._rewrite_page, headers, begun, body, query)
                await send(begun)
                await send({"type": "http.response.body", "body": body})

        await self.app(scope, receive, whole)

    def _rewrite_page(
        self, request_headers: Headers, begun: dict[str, Any], page: bytes, query: str
    ) -> bytes:
        """Return the rewritten page; updates the response headers in ``begun``."""
        language = choose_language(query, request_headers.get("accept-language", ""))
        head = self.preload(query) + self.head(language)
        body = insert_head(translate_components(page, self.words(language)), head)
        headers = MutableHeaders(raw=list(begun["headers"]))
        if "gzip" in request_headers.get("accept-encoding", ""):
            # No timestamp, so equal pages compress to equal bytes.
            body = gzip.compress(body, _GZIP_LEVEL, mtime=0)
            headers["content-encoding"] = "gzip"
        # A cache must not answer with another encoding or language.
        headers.add_vary_header("Accept-Encoding")
        headers.add_vary_header("Accept-Language")
        headers["content-length"] = str(len(body))
        begun["headers"] = headers.raw
        return body


def translate_components(page: bytes, words: Mapping[str, str]) -> bytes:
    """Return the page with translated component labels and texts.

    Args:
        page: the HTML that Gradio answers.
        words: English -> translation, by the whole text of a property or of one HTML text node.
    """
    found = _GRADIO_CONFIG.search(page)
    if not words or found is None:
        return page
    config = json.loads(found[0])
    for component in config["components"]:
        props = component["props"]
        for name in _SHOWN_PROPS:
            if isinstance(props.get(name), str):
                known = words.get(props[name])
                props[name] = known or _TEXT_NODE.sub(
                    lambda piece: escape(words.get(piece[0], piece[0]), quote=False), props[name]
                )
    written = to_script_json(config).encode()
    return page[: found.start()] + written + page[found.end() :]


def insert_head(page: bytes, head: str) -> bytes:
    """Return the page with ``head`` inserted after its base tag, or else after ``<head>``."""
    base = _BASE_TAG.search(page)
    place = base.end() if base else page.index(b"<head>") + len(b"<head>")
    return page[:place] + head.encode() + page[place:]


class CachedHead:
    """A head cached per language until its source changes, as when a model is installed at runtime.

    Args:
        make: returns the head in a language.
        declared: returns the source of the head; the same object means unchanged.
    """

    def __init__(self, make: Callable[[str], str], declared: Callable[[], Any]) -> None:
        self.make, self.declared = make, declared
        self.lock = threading.Lock()
        self.known = declared()
        self.texts = {ENGLISH: make(ENGLISH)}

    def __call__(self, language: str) -> str:
        """Return the current head in a language."""
        with self.lock:
            now = self.declared()
            if now is not self.known:
                self.known, self.texts = now, {}
            if language not in self.texts:
                self.texts[language] = self.make(language)
            return self.texts[language]
