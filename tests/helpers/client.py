"""A client that speaks to the playground's server as any program would."""

from __future__ import annotations

import itertools
import json
from typing import Any

import httpx

from tests.helpers.patience import PATIENCE_S
from tests.helpers.sentences import clean

_JSON = {"content-type": "application/json"}


class Client:
    """One connection pool for all calls: making one costs more than most refusals."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.http = httpx.Client(base_url=url, timeout=PATIENCE_S)
        self.sessions = itertools.count()

    def close(self) -> None:
        """Close the connections."""
        self.http.close()

    def post(self, path: str, **kwargs: Any) -> httpx.Response:
        return self.http.post(path, **kwargs)

    def get(self, path: str, **kwargs: Any) -> httpx.Response:
        return self.http.get(path, **kwargs)

    def call(self, strategy: str, *values: Any) -> tuple[str, Any]:
        """Return (event, data) of a queued call; NaN passes, as a careless client would send it."""
        path = f"/gradio_api/call/{strategy}"
        asked = self.post(path, content=json.dumps({"data": values}), headers=_JSON)
        if asked.status_code != 200:
            return "refused", asked.text
        event, answer = "", self.get(f"{path}/{asked.json()['event_id']}")
        for line in answer.text.splitlines():
            if line.startswith("event: "):
                event = line.removeprefix("event: ")
            elif line.startswith("data: ") and event in ("complete", "error"):
                return event, json.loads(line.removeprefix("data: "))
        return "none", answer.text

    def refusal(self, strategy: str, *values: Any) -> str:
        """Return the one sentence a call is refused with."""
        event, data = self.call(strategy, *values)
        assert event == "error", data
        return clean(data["error"])

    def works(self) -> dict[str, Any]:
        """Run something small; what went before must not have broken it."""
        event, data = self.call("greedy", "Once upon", None, {"max_new_tokens": 3}, 0)
        assert event == "complete", data
        return data[0]["outputs"][0]

    def refused(self, event_id: int, asked: Any, data: Any = ()) -> tuple[int, str]:
        """Send an event of the page that never begins; return the status and the sentence."""
        sent = {"fn_index": event_id, "data": list(data), "event_data": asked}
        body = json.dumps({**sent, "session_hash": "refused"})
        answer = self.post("/gradio_api/queue/join", content=body, headers=_JSON)
        return answer.status_code, answer.text

    def join(self, event_id: int, asked: Any, data: Any = ()) -> str:
        """Send an event of the page itself and return all that it is answered with.

        Args:
            event_id: Gradio's number of it.
            asked: what the page's script sends along.
            data: the values of the components it reads; the page's forms have none.
        """
        session = f"s{next(self.sessions)}"
        sent = {"fn_index": event_id, "data": list(data), "event_data": asked}
        body = json.dumps({**sent, "session_hash": session})
        joined = self.post("/gradio_api/queue/join", content=body, headers=_JSON)
        assert joined.status_code == 200, joined.text
        url = f"/gradio_api/queue/data?session_hash={session}"
        said = []
        with self.http.stream("GET", url) as stream:
            for line in stream.iter_lines():
                sent = json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else {}
                if sent.get("msg") in ("process_generating", "process_completed"):
                    said.append(json.dumps(sent["output"]))
                if sent.get("msg") == "process_completed":
                    break
        return "\n".join(said)
