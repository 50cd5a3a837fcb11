"""A page without a browser: asks, listens, loses its line and comes back as ``job.mjs`` and ``store.mjs`` do.

What it hears is numbered: what comes twice is left alone, and after a gap the whole run is asked for.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

_SILENT_S = 5.0
"""A page that hears nothing for so long asks again."""
_ANSWER_S = 60.0
_AGAIN_S = 0.1
LOST = (httpx.TransportError, httpx.HTTPStatusError)
"""What a line that was cut looks like; a proxy or a server that is going away answers with a status."""


@dataclass
class Heard:
    """What a page knows of one run.

    Attributes:
        run: what the server calls it, empty until it has said so.
        next: the number of the message that comes next.
        indices: of the steps that were drawn, in their order.
        earlier: names of the page's runs before it; what is still told of them is left alone.
        foreign: messages that were another visitor's.
        repeated: messages that came although the page had said that it has them.
        runs: all the names under which the run was told.
        status: how it ended, empty before that.
    """

    run: str = ""
    earlier: frozenset[str] = frozenset()
    next: int = 0
    indices: list[int] = field(default_factory=list)
    header: dict[str, Any] = field(default_factory=dict)
    outputs: list[Any] = field(default_factory=list)
    foreign: int = 0
    repeated: int = 0
    runs: set[str] = field(default_factory=set)
    status: str = ""

    def take(self, message: dict[str, Any], *, last: bool) -> bool:
        """Take a message; return whether the whole run has to be asked for.

        Args:
            message: as the server sent it.
            last: whether it came as the end of an answer, which repeats the message before it.
        """
        if message["run"] in self.earlier:
            return False
        self.runs.add(message["run"])
        self.run = self.run or message["run"]
        if message["run"] != self.run:
            self.foreign += 1
            if message["kind"] in ("finish", "fail"):
                self.status = "another run's end"
            return False
        if message["kind"] == "progress":
            return False
        if message["kind"] == "state":
            return self._whole(message["messages"])
        if message["seq"] > self.next:
            return True
        if message["seq"] < self.next:
            self.repeated += not last
            return False
        self._numbered(message)
        return False

    def _whole(self, messages: list[dict[str, Any]]) -> bool:
        if not messages:
            self.status = "gone"
            return False
        self.indices.clear()
        for message in messages:
            self._numbered(message)
        return False

    def _numbered(self, message: dict[str, Any]) -> None:
        self.next = message["seq"] + 1
        if message["kind"] == "start":
            self.header = message["header"]
        elif message["kind"] == "delta":
            self.indices += [step["index"] for step in message["steps"]]
        elif message["kind"] == "finish":
            self.outputs, self.status = message["rest"]["outputs"], "finished"
        elif message["kind"] == "fail":
            self.status = f"failed: {message['error']}"


class PageVisitor:
    """One page of one visitor.

    Args:
        url: where it reaches the server.
        events: what ``events_of`` says of the server's config.
    """

    def __init__(self, url: str, events: dict[str, int]) -> None:
        self.events, self.session = events, uuid.uuid4().hex
        timeout = httpx.Timeout(_ANSWER_S, read=_ANSWER_S)
        self.http = httpx.Client(base_url=url, timeout=timeout, verify=False, trust_env=False)

    def reload(self) -> None:
        """Be a page that was loaded anew: Gradio gives it another session."""
        self.session = uuid.uuid4().hex

    def announce(self, press: str) -> None:
        """Look whether the server is there, and tell it what comes next."""
        self.http.get("/here", params={"press": press}).raise_for_status()

    def ask(self, element: str, asked: dict[str, Any]) -> None:
        """Send an event of the page."""
        sent = {"fn_index": self.events[element], "data": [], "event_data": asked}
        sent |= {"session_hash": self.session}
        self.http.post("/gradio_api/queue/join", json=sent).raise_for_status()

    def messages(
        self, silent_s: float = _SILENT_S, opened: Callable[[], None] = lambda: None
    ) -> Iterator[tuple[dict[str, Any], bool]]:
        """Listen; yield every message and whether it is the last of its answer.

        Args:
            silent_s: how long nothing may come.
            opened: called as soon as the server has begun to answer.

        Raises:
            httpx.TransportError: the line was cut, or nothing has come for so long.
        """
        told: dict[str, str] = {}
        url, timeout = "/gradio_api/queue/data", httpx.Timeout(_ANSWER_S, read=silent_s)
        with self.http.stream(
            "GET", url, params={"session_hash": self.session}, timeout=timeout
        ) as answer:
            opened()
            for line in answer.iter_lines():
                if not line.startswith("data: "):
                    continue
                sent = json.loads(line.removeprefix("data: "))
                if sent["msg"] in ("process_generating", "process_completed"):
                    last = sent["msg"] == "process_completed"
                    text = _text_of(sent, told)
                    if text:
                        yield json.loads(text), last
                elif sent["msg"] in ("close_stream", "unexpected_error"):
                    return


def _text_of(sent: dict[str, Any], told: dict[str, str]) -> str:
    """Return the message within one of Gradio's, which sends later ones as changes of those before."""
    data = (sent.get("output") or {}).get("data") or [""]
    value, event = data[0], sent["event_id"]
    if isinstance(value, list):
        if event not in told:
            # What these changes are of went down with an earlier line; the gap will be seen.
            return ""
        for action, _, changed in value:
            told[event] = told[event] * (action == "append") + changed
        return told[event]
    told[event] = value if isinstance(value, str) else ""
    return told[event]


def wait_between() -> None:
    """Rest before the server is asked again."""
    time.sleep(_AGAIN_S)
