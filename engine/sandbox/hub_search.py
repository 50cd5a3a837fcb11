"""Searches the hub for custom generation methods by their tag, in a subprocess with a time limit."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass
from typing import Any

from huggingface_hub import constants
from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

from engine.errors import MethodError, ModelError
from engine.messages import Message
from engine.models import hub_lookup
from engine.models.hub_download_job import hub_errors
from engine.models.subprocess_job import DOWNLOAD_NICENESS, handle_job
from engine.sandbox.folder import CODE
from engine.sources.hub_cache import is_hub_id

TAG = CODE
"""Tag of a repository with a method, as transformers' documentation asks for it."""
MAX_METHODS = 100
_MAX_WORDS = 100
_LIST_NAME = Message("The list of the hub's methods")


@dataclass(frozen=True)
class HubMethod:
    """A repository of the hub that has the tag of methods.

    Attributes:
        name: its hub id, ``owner/name``.
        downloads: how often it was downloaded in the last 30 days.
        likes: how many people like it.
    """

    name: str
    downloads: int
    likes: int


def search_hub_methods(
    words: str = "", cancelled: threading.Event | None = None
) -> list[HubMethod]:
    """Return the hub's methods, the most downloaded first, at most ``MAX_METHODS``.

    Args:
        words: part of the name; empty for all.
        cancelled: gives up waiting when set.

    Raises:
        BusyError: too many lookups are running.
        Cancelled: the search was cancelled meanwhile.
        MethodError: the hub is switched off, cannot be reached or refuses.
    """
    order = {"name": _LIST_NAME, "words": words[:_MAX_WORDS]}
    try:
        answer = hub_lookup.ask_hub(
            "engine.sandbox.hub_search", order, hub_lookup.LOOKUP_TIMEOUT_S, cancelled
        )
    except ModelError as error:
        raise MethodError(str(error)) from None
    return [HubMethod(**method) for method in answer["methods"]]


def _list_tagged_methods(order: dict[str, Any]) -> dict[str, Any]:
    """Return the repositories with the tag whose name contains the words."""
    with hub_errors(_LIST_NAME, still="built-in methods still work"):
        # Not HfApi.list_models(): it repeats a request that fails until the time is over.
        answer = get_session().get(
            f"{constants.ENDPOINT}/api/models",
            params={
                "filter": TAG,
                "search": order["words"],
                "sort": "downloads",
                "limit": MAX_METHODS,
            },
            headers=build_hf_headers(),
            timeout=constants.HF_HUB_ETAG_TIMEOUT,
        )
        hf_raise_for_status(answer)
        found = answer.json()
        methods = [
            HubMethod(model["id"], int(model.get("downloads", 0)), int(model.get("likes", 0)))
            for model in found
            if is_hub_id(model["id"])
        ]
    return {"methods": [asdict(method) for method in methods]}


if __name__ == "__main__":
    handle_job(_list_tagged_methods, DOWNLOAD_NICENESS)
