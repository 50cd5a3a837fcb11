"""Conversions of speech settings (language, task, timestamps) between form, link and request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.errors import ParameterError
from engine.run.media_request import check_speech

_TIMESTAMPS_ON = "1"


def speech_from_form(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return a form's ``speech`` settings for a request, empty if there are none.

    Raises:
        ParameterError: A setting is not valid. Whether the model supports it is checked after
            loading.
    """
    speech = payload.get("speech")
    if speech is None:
        return {}
    check_speech(speech)
    return dict(speech)


def speech_from_link(query: Mapping[str, str]) -> dict[str, Any]:
    """Return the speech settings of a link's query.

    Raises:
        ParameterError: As ``speech_from_form``.
    """
    speech: dict[str, Any] = {name: query[name] for name in ("language", "task") if query.get(name)}
    times = query.get("timestamps", "")
    if times not in ("", _TIMESTAMPS_ON):
        raise ParameterError("timestamps", times[:40], "the link's must be 1, or left out")
    if times:
        speech["return_timestamps"] = True
    return speech_from_form({"speech": speech})


def speech_to_link(speech: Mapping[str, Any]) -> dict[str, str]:
    """Convert speech settings to a link's query fields, "" for a setting that is absent."""
    return {
        "language": speech.get("language") or "",
        "task": speech.get("task") or "",
        "timestamps": _TIMESTAMPS_ON if speech.get("return_timestamps") else "",
    }
