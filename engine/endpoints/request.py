"""The request of a recorded answer: its prompt and settings, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from engine.endpoints.events import MAX_BYTES
from engine.endpoints.fields import iter_objects, read_object, read_text
from engine.errors import TraceError
from engine.trace.checks import read_json_strict
from engine.trace.records import ROLES
from engine.trace.value_types import JsonObject, JsonValue

_SETTINGS = (
    *("max_tokens", "max_completion_tokens", "max_new_tokens", "n_predict", "num_predict"),
    *("temperature", "top_k", "top_p", "min_p", "typical_p", "seed", "n", "stop", "echo"),
    *("frequency_penalty", "presence_penalty", "repeat_penalty", "repetition_penalty"),
    *("logprobs", "top_logprobs", "n_probs", "top_n_tokens", "post_sampling_probs", "logit_bias"),
)
"""Settings that a trace keeps: a request may also contain keys and addresses, which it must not."""
_MAX_SETTING = 2**63


@dataclass(slots=True)
class Request:
    """What a request says about its answer."""

    prompt: str | None = None
    messages: tuple[dict[str, Any], ...] | None = None
    settings: dict[str, Any] = field(default_factory=dict)


def read_request(data: bytes | None) -> Request:
    """Return the request of a file: its body, or an object with the body as ``body``.

    Raises:
        TraceError: the file is no JSON object, or its prompt has an unknown shape.
    """
    if data is None:
        return Request()
    return request_from_json(read_json_strict(data, MAX_BYTES))


def request_from_json(value: JsonValue) -> Request:
    """Return the request in a JSON object.

    Raises:
        TraceError: it is no object, or its prompt has an unknown shape.
    """
    whole = read_object(value, "request")
    body = read_object(whole.get("body", whole), "body")
    # Ollama has the settings in options, TGI in parameters.
    inner = [read_object(body.get(name), name) for name in ("options", "parameters")]
    settings: dict[str, Any] = {}
    for fields in (body, *inner):
        settings |= keep_settings(fields)
    prompt = body.get("prompt", body.get("inputs"))
    return Request(
        prompt if isinstance(prompt, str) else None,
        _read_messages(body.get("messages")) if body.get("messages") else None,
        settings,
    )


def keep_settings(fields: JsonObject) -> dict[str, Any]:
    """Return the settings that a trace keeps."""
    return {n: fields[n] for n in _SETTINGS if n in fields and _is_setting(fields[n])}


def _is_setting(value: JsonValue) -> bool:
    if isinstance(value, (list, dict)):
        items = value if isinstance(value, list) else list(value.values())
        return all(not isinstance(item, (list, dict)) and _is_setting(item) for item in items)
    return not isinstance(value, (int, float)) or abs(value) < _MAX_SETTING


def _read_messages(value: JsonValue) -> tuple[dict[str, Any], ...]:
    found: list[dict[str, Any]] = []
    for message in iter_objects(value, "messages"):
        role = read_text(message.get("role"), "role")
        # OpenAI's newer name for the same role.
        role = "system" if role == "developer" else role
        if role not in ROLES:
            raise TraceError(
                "The request has a message of the unknown role {role}.", role=repr(role[:40])
            )
        found.append({"role": role, "content": _read_content(message.get("content"))})
    return tuple(found)


def _read_content(value: JsonValue) -> str:
    """Return the text of a message; pictures and sounds are left out."""
    if not isinstance(value, list):
        return read_text(value, "content")
    return "".join(read_text(part.get("text"), "text") for part in iter_objects(value, "content"))
