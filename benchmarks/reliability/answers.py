"""What a server may answer to whatever it is asked: a result, or one sentence; everything else is counted."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from typing import Any

import httpx

from tests.helpers.client import Client
from tests.helpers.sentences import clean

RESULT, SENTENCE, NO_SENTENCE, STATUS_5XX, UNANSWERED = (
    "result",
    "sentence",
    "no_sentence",
    "status_5xx",
    "unanswered",
)
BAD = (NO_SENTENCE, STATUS_5XX, UNANSWERED)
_JSON = {"content-type": "application/json"}
_NOTE = re.compile(
    r"^<p class='dp-(status bad|note)' role='(alert|status)'[^>]*>(.*)</p>$", re.DOTALL
)
_MOST_CHARS = 800


def judged(text: Any) -> tuple[str, str]:
    """Return whether something is one sentence that may be shown, and the thing as text."""
    try:
        return SENTENCE, clean(text)
    except AssertionError:
        return NO_SENTENCE, repr(text)[:_MOST_CHARS]


def called(client: Client, strategy: str, values: Any) -> tuple[str, str]:
    """Call an endpoint as a program does; return what kind of answer it is, and what it says."""
    path, content = f"/gradio_api/call/{strategy}", json.dumps({"data": values})
    try:
        asked = client.post(path, content=content, headers=_JSON)
        if asked.status_code != httpx.codes.OK:
            return _refused(asked)
        told = client.get(f"{path}/{asked.json()['event_id']}")
    except httpx.HTTPError as error:
        return UNANSWERED, type(error).__name__
    event = ""
    for line in told.text.splitlines():
        if line.startswith("event: "):
            event = line.removeprefix("event: ")
        elif line.startswith("data: ") and event == "complete":
            return RESULT, ""
        elif line.startswith("data: ") and event == "error":
            said = json.loads(line.removeprefix("data: "))
            return judged(said.get("error") if isinstance(said, dict) else said)
    return UNANSWERED, told.text[:_MOST_CHARS]


def _refused(answer: httpx.Response) -> tuple[str, str]:
    """Judge an answer with another status than 200; Gradio's own ones are JSON about the body."""
    if answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
        return STATUS_5XX, answer.text[:_MOST_CHARS]
    said = "" if "Traceback" in answer.text else answer.text
    return (SENTENCE, said) if said else (NO_SENTENCE, answer.text[:_MOST_CHARS])


def linked(client: Client, event: int, search: str) -> tuple[str, str]:
    """Ask what an address opens, as the page does."""
    answer = _asked_of_page(client, event, {"action": "link", "id": 1, "search": search})
    return answer if isinstance(answer, tuple) else (RESULT, "")


def config_read(client: Client, event: int, text: str) -> tuple[str, str]:
    """Let the page read a config for sampling: it names what it leaves out, or opens another strategy."""
    asked = {"action": "read", "id": 1, "strategy": "sampling", "text": text}
    answer = _asked_of_page(client, event, asked)
    if isinstance(answer, tuple):
        return answer
    left_out = [judged(sentence) for sentence in answer["left_out"]]
    if not left_out:
        return (RESULT if answer["strategy"] == "sampling" else SENTENCE), ""
    return next((kind for kind in left_out if kind[0] == NO_SENTENCE), left_out[0])


def _asked_of_page(
    client: Client, event: int, asked: dict[str, Any]
) -> dict[str, Any] | tuple[str, str]:
    """Ask a question of the page that has one answer; return it, or what its error is judged as."""
    outputs = _outputs(client, event, asked)
    if isinstance(outputs, tuple):
        return outputs
    answer = json.loads(outputs[0])
    return judged(answer["error"]) if "error" in answer else answer


def replayed(client: Client, event: int, content: bytes) -> tuple[str, str]:
    """Upload a file and open it in the replay tab, as the page does."""
    try:
        sent = client.post("/gradio_api/upload", files={"files": ("run.json", content)})
    except httpx.HTTPError as error:
        return UNANSWERED, type(error).__name__
    if sent.status_code != httpx.codes.OK:
        return _refused(sent)
    about = {"path": sent.json()[0], "orig_name": "run.json", "meta": {"_type": "gradio.FileData"}}
    outputs = _outputs(client, event, None, [about])
    if isinstance(outputs, tuple):
        return outputs
    note = _NOTE.match(outputs[1]) if isinstance(outputs[1], str) else None
    if note is None:
        return NO_SENTENCE, repr(outputs[1])[:_MOST_CHARS]
    return judged(html.unescape(note[3])) if note[2] == "alert" else (RESULT, "")


def _outputs(
    client: Client, event: int, asked: Any, data: Sequence[Any] = ()
) -> list[Any] | tuple[str, str]:
    """Return what an event of the page puts into its elements, or what is wrong with the answer."""
    try:
        said = client.join(event, asked, data)
        outputs = json.loads(said.splitlines()[-1])
    except (httpx.HTTPError, AssertionError, ValueError, IndexError) as error:
        return UNANSWERED, f"{type(error).__name__}: {str(error)[:_MOST_CHARS]}"
    if "data" not in outputs:
        return judged(outputs.get("error"))
    return outputs["data"]
