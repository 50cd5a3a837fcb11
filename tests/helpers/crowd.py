"""A class without browsers: everybody enters a room, listens, and keeps what was sent."""

from __future__ import annotations

import json
import threading
from typing import Any

import httpx

from tests.helpers.patience import PATIENCE_S


class Person:
    """Somebody in a room.

    Attributes:
        heard: names and values of the events that came.
    """

    def __init__(self, url: str, code: str) -> None:
        self.http = httpx.Client(base_url=url, timeout=PATIENCE_S)
        self.place, self.heard = f"/room/{code}", list[tuple[str, Any]]()
        assert self.http.get(self.place).status_code == 200
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        name = ""
        with self.http.stream("GET", f"{self.place}/events") as answer:
            for line in answer.iter_lines():
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    self.heard.append((name, json.loads(line.removeprefix("data: "))))

    def vote(self, card: int, answer: Any) -> httpx.Response:
        """Bet on a card."""
        return self.http.post(f"{self.place}/vote", json={"card": card, "answer": answer})

    def gone(self) -> None:
        """Wait until the room has ended."""
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        self.http.close()
