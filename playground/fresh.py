"""The page's head, in the page itself and true: a model that was brought while the server runs is on offer in the next.

What Gradio is given as a head, it adds when its own scripts have come and run; what stands in the page is fetched
beside them. Only styles are left to Gradio: they have to come after its own.
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

from playground.languages import ENGLISH, chosen
from visualizers.page import as_data

_BASE = re.compile(rb"<base\b[^>]*>")
"""What a head comes after: its addresses are relative to it."""
_CONFIG = re.compile(rb"(?<=<script>window\.gradio_config = )\{.*?\}(?=;</script>)", re.DOTALL)
"""What Gradio draws the page from."""
_SHOWN = ("label", "value")
"""Of a component's properties, those that are read."""
_PIECE = re.compile(r"(?<=>)[^<>]+(?=<)")
"""What is read of a piece of a page."""
_QUICK = 5
"""How hard a page is packed: it is made for everybody anew."""


class FreshHead:
    """ASGI middleware: writes the head into the page, packed where the browser takes that.

    Args:
        app: what comes behind it.
        head: returns the head of now in a language.
        words: returns English -> the same in a language, for what Gradio draws itself.
    """

    def __init__(
        self, app: Any, head: Callable[[str], str], words: Callable[[str], Mapping[str, str]]
    ) -> None:
        self.app, self.head, self.words = app, head, words

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["path"] != "/":
            await self.app(scope, receive, send)
            return
        begun, parts, asked = {}, [], Headers(scope=scope)
        query = scope.get("query_string", b"").decode("latin1")
        language = chosen(query, asked.get("accept-language", ""))

        async def whole(message: Any) -> None:
            if message["type"] == "http.response.start":
                begun.update(message)
                return
            parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                body = b"".join(parts)
                if begun["status"] == 200:
                    body = await asyncio.to_thread(self._written, asked, begun, body, language)
                await send(begun)
                await send({"type": "http.response.body", "body": body})

        await self.app(scope, receive, whole)

    def _written(self, asked: Headers, begun: dict[str, Any], page: bytes, language: str) -> bytes:
        """Return the page with its head; the headers of its answer are changed with it."""
        body = with_head(with_words(page, self.words(language)), self.head(language))
        headers = MutableHeaders(raw=list(begun["headers"]))
        if "gzip" in asked.get("accept-encoding", ""):
            body = gzip.compress(body, _QUICK, mtime=0)
            headers["content-encoding"] = "gzip"
        headers.add_vary_header("Accept-Encoding")
        headers.add_vary_header("Accept-Language")
        headers["content-length"] = str(len(body))
        begun["headers"] = headers.raw
        return body


def with_words(page: bytes, words: Mapping[str, str]) -> bytes:
    """Return a page whose components are named in other words.

    Args:
        page: as Gradio answers.
        words: what stands in a component as a whole -> what is to stand there.
    """
    found = _CONFIG.search(page)
    if not words or found is None:
        return page
    config = json.loads(found[0])
    for component in config["components"]:
        props = component["props"]
        for name in _SHOWN:
            if isinstance(props.get(name), str):
                known = words.get(props[name])
                props[name] = known or _PIECE.sub(
                    lambda piece: escape(words.get(piece[0], piece[0]), quote=False), props[name]
                )
    written = as_data(config).encode()
    return page[: found.start()] + written + page[found.end() :]


def with_head(page: bytes, head: str) -> bytes:
    """Return a page with a head at the beginning of its own."""
    base = _BASE.search(page)
    place = base.end() if base else page.index(b"<head>") + len(b"<head>")
    return page[:place] + head.encode() + page[place:]


class Head:
    """A head that is made anew where what it declares has changed.

    Args:
        make: returns the head in a language.
        declared: returns what it is made from, the same object as long as nothing has changed.
    """

    def __init__(self, make: Callable[[str], str], declared: Callable[[], Any]) -> None:
        self.make, self.declared = make, declared
        self.lock = threading.Lock()
        self.known = declared()
        self.texts = {ENGLISH: make(ENGLISH)}

    def __call__(self, language: str) -> str:
        """Return the head of now."""
        with self.lock:
            now = self.declared()
            if now is not self.known:
                self.known, self.texts = now, {}
            if language not in self.texts:
                self.texts[language] = self.make(language)
            return self.texts[language]
