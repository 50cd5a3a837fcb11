"""What a form and an address say of a speech besides its sound; a form in the names of a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.errors import ParameterError
from engine.run.media_request import check_speech

_WITH_TIMES = "1"


def of_form(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the field of a request that a form's ``speech`` is, empty where it says nothing.

    Raises:
        ParameterError: one sentence; whether the model can be told that is seen when it is there.
    """
    told = asked.get("speech")
    if told is None:
        return {}
    check_speech(told)
    return dict(told)


def of_link(query: Mapping[str, str]) -> dict[str, Any]:
    """Return the same of an address.

    Raises:
        ParameterError: as ``of_form``.
    """
    told: dict[str, Any] = {name: query[name] for name in ("language", "task") if query.get(name)}
    times = query.get("timestamps", "")
    if times not in ("", _WITH_TIMES):
        raise ParameterError("timestamps", times[:40], "the link's must be 1, or left out")
    if times:
        told["return_timestamps"] = True
    return of_form({"speech": told})


def link_of(told: Mapping[str, Any]) -> dict[str, str]:
    """Return what an address says of it, empty for what nothing is said of."""
    return {
        "language": told.get("language") or "",
        "task": told.get("task") or "",
        "timestamps": _WITH_TIMES if told.get("return_timestamps") else "",
    }
