"""What the hub tells of a model before anything large is fetched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from engine.errors import BusyError, ModelError
from engine.models import hub
from engine.settings import SETTINGS, environment

LOOKUP_S = 20.0
"""Longest wait for all that is asked about one model."""
_MOST_AT_ONCE = 2
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
    if os.environ.get("HF_HUB_OFFLINE") == "1":
        raise ModelError(f"{name} is not on this machine and the hub is switched off.")
    if not _PLACES.acquire(blocking=False):
        raise BusyError(
            f"The hub is being asked about {_MOST_AT_ONCE} models already; try again in a moment."
        )
    try:
        order = hub.order_for(name)
        found = subprocess.run(
            [sys.executable, "-m", "engine.models.looking"],
            input=json.dumps(order | {"into": into}),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=LOOKUP_S,
            check=False,
            cwd=Path(__file__).resolve().parents[2],
            env=environment(secrets=not SETTINGS.public),
        )
        answer = json.loads(found.stdout)
    except subprocess.TimeoutExpired:
        raise ModelError(
            f"The hub did not answer for {name} within {LOOKUP_S:g} s; try again later."
        ) from None
    except (OSError, ValueError):
        raise ModelError(f"The hub could not be asked about {name}; try again later.") from None
    finally:
        _PLACES.release()
    if "facts" not in answer:
        raise ModelError(str(answer.get("refused", "")))
    return HubFacts(**answer["facts"], room_bytes=order["most_bytes"])
