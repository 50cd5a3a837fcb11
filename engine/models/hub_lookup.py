"""Look up a hub model's facts in a subprocess, before anything large is fetched."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from huggingface_hub import hf_hub_download

from engine.errors import BusyError, Cancelled, ModelError
from engine.messages import Message
from engine.models import hub
from engine.models.hub_download_job import count_download_bytes, fetch_model_info, hub_errors
from engine.models.subprocess_job import DOWNLOAD_NICENESS, handle_job, run_job
from engine.sources.hub_cache import split_revision
from engine.sources.lora_adapters import CONFIG as ADAPTER
from engine.sources.lora_adapters import GENERATION_CONFIG
from engine.sources.source import Hub

LOOKUP_TIMEOUT_S = 20.0
"""Time limit for all requests about one model, in seconds."""
CONFIG, TOKENIZER, TEMPLATE = "config.json", "tokenizer_config.json", "chat_template.jinja"
_MAX_BYTES = {
    CONFIG: 1_000_000,
    ADAPTER: 1_000_000,
    TOKENIZER: 10_000_000,
    GENERATION_CONFIG: 1_000_000,
}
_MAX_CHARS = 60
_MAX_LOOKUPS = 2
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
    answer = ask_hub("engine.models.hub_lookup", order | {"into": into}, LOOKUP_TIMEOUT_S)
    return HubFacts(**answer, room_bytes=order["most_bytes"])


def ask_hub(
    module: str, order: dict[str, Any], most_s: float, cancelled: threading.Event | None = None
) -> dict[str, Any]:
    """Run a module that asks the hub in a subprocess and return its answer.

    Args:
        module: the module, see ``run_job``.
        order: the job: ``hub.build_hub_order`` and the module's own fields.
        most_s: time limit in seconds.
        cancelled: the process is killed when this is set.

    Raises:
        BusyError: too many lookups are running.
        Cancelled: ``cancelled`` was set.
        ModelError: the hub is switched off, did not answer, or refused.
    """
    name = order["name"]
    environment = hub.hub_environment(name)
    if not _LOOKUP_SLOTS.acquire(blocking=False):
        raise BusyError(
            "The hub is being asked about {n} repositories already; try again in a moment.",
            n=_MAX_LOOKUPS,
        )

    def check_cancelled(_: Mapping[str, Any]) -> None:
        if cancelled is not None and cancelled.is_set():
            raise Cancelled

    try:
        return run_job(
            module,
            order,
            check_cancelled,
            ended=Message("The hub could not be asked about {name}; try again later.", name=name),
            limit_s=most_s,
            environment=environment,
        )
    except TimeoutError:
        raise ModelError(
            "The hub did not answer for {name} within {s} s; try again later.",
            name=name,
            s=f"{most_s:g}",
        ) from None
    finally:
        _LOOKUP_SLOTS.release()


def _read_hub_facts(order: dict[str, Any]) -> dict[str, Any]:
    """Return the hub's facts about a model; ``problem`` says why its small files could not be fetched."""
    with hub_errors(order["name"]):
        info = fetch_model_info(order["name"])
    siblings = info.siblings or []
    total, weights = count_download_bytes(siblings)
    problem = None
    try:
        _download_small_files(
            order, info.sha, {file.rfilename: file.size or 0 for file in siblings}
        )
    except ModelError as error:
        problem = str(error)
    values = getattr(info.safetensors, "total", None)
    return {
        "revision": info.sha,
        "licence": _card_licence(info.card_data),
        "gated": bool(info.gated),
        "private": bool(info.private),
        "disk_bytes": total,
        "weights_bytes": weights,
        "values": values if isinstance(values, int) and values > 0 else None,
        "template_file": any(file.rfilename == TEMPLATE for file in siblings),
        "problem": problem,
    }


def _download_small_files(
    order: dict[str, Any], revision: str | None, sizes: dict[str, int]
) -> None:
    # Not into the hub's cache, where a folder with a config.json would look like a model.
    for file, most in _MAX_BYTES.items():
        # A file that the repository does not have counts as too large.
        if sizes.get(file, most + 1) <= most:
            with hub_errors(order["name"]):
                hf_hub_download(
                    split_revision(order["name"])[0],
                    file,
                    revision=revision,
                    local_dir=order["into"],
                )


def _card_licence(card: Any) -> str | None:
    """Return the licence in a model card, None if missing."""
    licence = getattr(card, "license", None)
    # A licence outside the hub's list is named in a field of its own.
    if licence == "other":
        licence = getattr(card, "license_name", None) or licence
    return str(licence)[:_MAX_CHARS] if licence else None


if __name__ == "__main__":
    handle_job(_read_hub_facts, DOWNLOAD_NICENESS)
