"""Keeps the page's head true: a model that was brought while the server runs is on offer with the next page."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any


class FreshHead:
    """ASGI middleware: before the page itself is sent, its head is renewed where the declaration is another."""

    def __init__(self, app: Any, renew: Callable[[], None]) -> None:
        self.app, self.renew = app, renew

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] == "http" and scope["path"] == "/":
            await asyncio.to_thread(self.renew)
        await self.app(scope, receive, send)


class Head:
    """The head that Gradio sends with the page, made anew where what it declares has changed.

    Args:
        make: returns the head.
        declared: returns what it is made from, the same object as long as nothing has changed.
    """

    def __init__(self, make: Callable[[], str], declared: Callable[[], Any]) -> None:
        self.make, self.declared = make, declared
        self.lock = threading.Lock()
        self.known = declared()
        self.text = make()

    def renew(self, config: Any) -> None:
        """Put the head into Gradio's configuration if it is not the one that stands there.

        Args:
            config: a mapping, from which Gradio makes every page.
        """
        with self.lock:
            now = self.declared()
            if now is not self.known:
                self.known, self.text = now, self.make()
                config["head"] = self.text
