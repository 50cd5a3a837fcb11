"""The events that a page sends, by the element that sends them, for programs that speak as one."""

from __future__ import annotations

from typing import Any


def events_of(config: dict[str, Any], kind: str = "input") -> dict[str, int]:
    """Return {name of an element: id of its event} as Gradio's config declares them.

    Args:
        config: what ``/config`` answers.
        kind: of event.
    """
    parts = {part["id"]: part["props"] for part in config["components"]}
    return {
        str(parts.get(number, {}).get("elem_id")).removeprefix("page-"): event["id"]
        for event in config["dependencies"]
        for number, found in event["targets"]
        if found == kind
    }
