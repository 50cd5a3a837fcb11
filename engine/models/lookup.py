"""What the hub tells of a model before anything large is fetched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import BusyError, Cancelled, ModelError
from engine.models import hub
from engine.settings import SETTINGS, environment

LOOKUP_S = 20.0
"""Longest wait for all that is asked about one model."""
_MOST_AT_ONCE = 2
_POLL_S = 0.05
_PLACES = threading.BoundedSemaphore(_MOST_AT_ONCE)


@dataclass(frozen=True)
class HubFacts:
    """What the hub tells of a model.

    Attributes:
        revision: its commit.
        licence: as its model card names it, None where it names none.
        gated: whether its owner asks for an agreement first.
        private: whether only its owner sees it.
        disk_bytes: of all files that would be fetched.
        weights_bytes: of the safetensors files among them.
        values: how many the weights hold, None where the hub has not counted them.
        template_file: whether a chat template stands in a file of its own.
        problem: why its config.json did not come, in a sentence.
        room_bytes: that a model's files may have on this machine.
    """

    revision: str | None
    licence: str | None
    gated: bool
    private: bool
    disk_bytes: int
    weights_bytes: int
    values: int | None
    template_file: bool
    problem: str | None
    room_bytes: int


def look_up(name: str, into: str) -> HubFacts:
    """Return what the hub tells of a model, in a process of its own that ends in any case.

    Args:
        name: a hub id ``owner/name``.
        into: an empty folder for its config.json, adapter_config.json and tokenizer_config.json.

    Raises:
        BusyError: too many models are being asked about.
        ModelError: it is not allowed here, not there, or the hub did not answer.
    """
    hub.check_allowed(name)
    order = hub.order_for(name)
    answer = ask("engine.models.looking", order | {"into": into}, LOOKUP_S)
    return HubFacts(**answer["facts"], room_bytes=order["most_bytes"])


def ask(
    module: str, order: dict[str, Any], most_s: float, cancelled: threading.Event | None = None
) -> dict[str, Any]:
    """Return what a process tells that asks the hub; it ends in any case.

    Args:
        module: what the process runs; it reads the order as ``fetching.begin`` does, and writes one line of JSON.
        order: of ``hub.order_for``, and what the module needs besides.
        most_s: how long it may take.
        cancelled: gives up when set.

    Raises:
        BusyError: the hub is being asked about too much.
        Cancelled: it was cancelled meanwhile.
        ModelError: the hub is switched off, did not answer, or refused.
    """
    name = order["name"]
    if os.environ.get("HF_HUB_OFFLINE") == "1":
        raise ModelError(f"{name} is not on this machine and the hub is switched off.")
    if not _PLACES.acquire(blocking=False):
        raise BusyError(
            f"The hub is being asked about {_MOST_AT_ONCE} repositories already; try again in a moment."
        )
    try:
        answer = json.loads(_written(module, order, most_s, cancelled or threading.Event()))
    except subprocess.TimeoutExpired:
        raise ModelError(
            f"The hub did not answer for {name} within {most_s:g} s; try again later."
        ) from None
    except (OSError, ValueError):
        raise ModelError(f"The hub could not be asked about {name}; try again later.") from None
    finally:
        _PLACES.release()
    if "refused" in answer:
        raise ModelError(answer["refused"])
    return answer


def _written(module: str, order: dict[str, Any], most_s: float, cancelled: threading.Event) -> str:
    """Return what a process writes that is given an order.

    Raises:
        Cancelled: it was cancelled meanwhile.
        TimeoutExpired: it took too long.
    """
    until, text = time.monotonic() + most_s, json.dumps(order)
    with subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
        env=environment(secrets=not SETTINGS.public),
    ) as process:
        try:
            while not cancelled.is_set():
                try:
                    return process.communicate(text, timeout=_POLL_S)[0]
                except subprocess.TimeoutExpired:
                    text = None  # it is on its way
                    if time.monotonic() > until:
                        raise
            raise Cancelled
        finally:
            process.kill()
