"""Look up a hub model's facts before anything large is fetched."""

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
from engine.settings import SETTINGS, child_environment
from engine.sources.source import Hub

LOOKUP_TIMEOUT_S = 20.0
"""Time limit for all requests about one model, in seconds."""
_MAX_LOOKUPS = 2
_POLL_S = 0.05
_LOOKUP_SLOTS = threading.BoundedSemaphore(_MAX_LOOKUPS)


@dataclass(frozen=True)
class HubFacts:
    """Facts about a hub model.

    Attributes:
        revision: its commit.
        licence: licence in its model card, None if missing.
        gated: whether the owner requires an agreement first.
        private: whether only its owner can see it.
        disk_bytes: size of all files that would be fetched.
        weights_bytes: size of the safetensors files among them.
        values: number of values in the weights; None if the hub has not counted them.
        template_file: whether the chat template is a separate file.
        problem: why its config.json could not be fetched, as a sentence; None if it was.
        room_bytes: most bytes a model's files may take on this machine.
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


def look_up_model(source: Hub, into: str) -> HubFacts:
    """Return the hub's facts about a model, from a subprocess with a time limit.

    Args:
        source: the repository.
        into: an empty folder for its config.json, adapter_config.json, tokenizer_config.json and
            generation_config.json. They stay out of the hub's cache, where they would look like a model.

    Raises:
        BusyError: too many lookups are running.
        ModelError: the model is not allowed here or does not exist, or the hub did not answer.
    """
    source.check_offered()
    order = hub.build_hub_order(source.name)
    answer = ask_hub("engine.models.hub_lookup_job", order | {"into": into}, LOOKUP_TIMEOUT_S)
    return HubFacts(**answer["facts"], room_bytes=order["most_bytes"])


def ask_hub(
    module: str, order: dict[str, Any], most_s: float, cancelled: threading.Event | None = None
) -> dict[str, Any]:
    """Run a module that asks the hub in a subprocess and return its answer.

    Args:
        module: the module; it reads its job with ``fetching.begin`` and writes one JSON line.
        order: the job: ``hub.order_for`` and the module's own fields.
        most_s: time limit in seconds.
        cancelled: the process is killed when this is set.

    Raises:
        BusyError: too many lookups are running.
        Cancelled: ``cancelled`` was set.
        ModelError: the hub is switched off, did not answer, or refused.
    """
    name = order["name"]
    if os.environ.get("HF_HUB_OFFLINE") == "1":
        raise ModelError("{name} is not on this machine and the hub is switched off.", name=name)
    if not _LOOKUP_SLOTS.acquire(blocking=False):
        raise BusyError(
            "The hub is being asked about {n} repositories already; try again in a moment.",
            n=_MAX_LOOKUPS,
        )
    try:
        answer = json.loads(_read_output(module, order, most_s, cancelled or threading.Event()))
    except subprocess.TimeoutExpired:
        raise ModelError(
            "The hub did not answer for {name} within {s} s; try again later.",
            name=name,
            s=f"{most_s:g}",
        ) from None
    except (OSError, ValueError):
        raise ModelError(
            "The hub could not be asked about {name}; try again later.", name=name
        ) from None
    finally:
        _LOOKUP_SLOTS.release()
    if "refused" in answer:
        raise ModelError(answer["refused"])
    return answer


def _read_output(
    module: str, order: dict[str, Any], most_s: float, cancelled: threading.Event
) -> str:
    """Run the subprocess and return its output.

    Raises:
        Cancelled: ``cancelled`` was set.
        TimeoutExpired: the time limit was reached.
    """
    until, text = time.monotonic() + most_s, json.dumps(order)
    with subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
        env=child_environment(secrets=not SETTINGS.public),
    ) as process:
        try:
            while not cancelled.is_set():
                try:
                    return process.communicate(text, timeout=_POLL_S)[0]
                except subprocess.TimeoutExpired:
                    text = None  # communicate() accepts input on its first call only
                    if time.monotonic() > until:
                        raise
            raise Cancelled
        finally:
            process.kill()
