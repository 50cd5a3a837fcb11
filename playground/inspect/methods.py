"""Custom generation methods for the page: list, code, and methods written on this machine."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.errors import MethodError
from engine.messages import Message, join_messages
from engine.program import COMMAND
from engine.sandbox.confinement import BARRIERS, expected_barriers
from engine.sandbox.folder import ENTRY, README, extract_summary, read_method
from engine.sandbox.hub_search import search_hub_methods
from engine.sandbox.method_editor import (
    find_own_method,
    read_own_files,
    save_file,
    text_digest,
    trust_own_method,
)
from engine.sandbox.method_lookup import HUB, FoundMethod, find_method, is_local_method, list_offers
from engine.sandbox.method_templates import (
    create_method,
    list_own_methods,
    list_templates,
    own_methods_folder,
)
from engine.sandbox.trust import check_trusted, is_trusted, trust_code
from engine.settings import SETTINGS
from playground.inspect import method_checks
from playground.jobs.registry import JOBS, JobKind

ACTIONS = (
    "methods",
    "method",
    "method_search",
    "method_trust",
    "method_files",
    "method_new",
    "method_save",
    "method_check",
)
_GROUPS = {
    "template": "Templates",
    "shipped": "Built in",
    "own": "Yours",
    "recipe": "transformers' own, on the hub",
    "allowed": "Of the hub",
}
"""Kind of an offer -> its heading in the list."""
_HUB_GROUP = "Found on the hub"
_KIND_ORDER = ("shipped", "own", "template", "recipe", "allowed")
_BARRIER_WORDS = {
    "files": "reading other files",
    "network": "the network",
    "processes": "starting programs",
    "signals": "signals to other processes",
}
_FETCH = JobKind("method", stopped="Stopped; nothing was kept.")
_SEARCH = JobKind("method_search", stopped="Stopped.")


def act(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Answer one question about methods.

    Args:
        payload: ``action`` and its fields. ``methods`` lists them. ``method`` describes the one of
            this ``name``, downloaded only if ``fetch`` is true. ``method_search`` lists the hub's
            methods. ``method_trust`` takes a ``name``
            and the ``sha256`` that was shown. ``method_files`` reads the files of a user's own
            method. ``method_new`` takes a ``name`` and a ``template``. ``method_save`` takes a
            ``name``, a ``file``, its ``text`` and the mark of the text ``before``. ``method_check``
            takes a ``name`` (see ``method_checks.poll_check``). The general question ``stop``
            stops the download, search or check with the id ``press``.

    Raises:
        EngineError: One sentence naming what is wrong.
    """
    acts = {
        "methods": _list_methods,
        "method": _open_method,
        "method_search": _search_hub,
        "method_trust": _trust_method,
        "method_files": _read_own_files,
        "method_new": _create_method,
        "method_save": _save_method_file,
        "method_check": _poll_check,
    }
    return acts[payload["action"]](payload)


def describe_sandbox() -> str:
    """Return a sentence on what a method's sandbox allows and forbids on this machine."""
    limits = Message(
        "It may take {max_method_s} seconds and {max_method_memory_gb} GB beyond the model.",
        max_method_s=f"{SETTINGS.max_method_s:g}",
        max_method_memory_gb=f"{SETTINGS.max_method_memory_gb:g}",
    )
    missing = [name for name in BARRIERS if name not in expected_barriers()]
    if not missing:
        sandboxed = Message(
            "It runs sandboxed: it reads only the model and Python's packages, and has no "
            "network or other programs."
        )
        return join_messages([sandboxed, limits])
    lacking = join_messages([_BARRIER_WORDS[name] for name in missing], ", ")
    exposed = Message(
        "It runs in a separate process, but this machine cannot keep it from: {lacking}.",
        lacking=lacking,
    )
    return join_messages([exposed, limits])


def _list_methods(payload: Mapping[str, Any]) -> dict[str, Any]:
    del payload
    offers = sorted(list_offers().items(), key=lambda item: _KIND_ORDER.index(item[1].kind))
    return {
        "offers": [
            {"name": name, "told": offer.told, "group": _GROUPS[offer.kind], "tab": offer.tab}
            for name, offer in offers
        ],
        "starters": list(list_templates()),
        "makes": not SETTINGS.public,
        "folder": "" if SETTINGS.public else str(own_methods_folder()),
        "shut_in": describe_sandbox(),
    }


def _open_method(payload: Mapping[str, Any]) -> dict[str, Any]:
    name = payload.get("name")
    if isinstance(name, str) and not is_local_method(name) and payload.get("fetch") is not True:
        return {"name": name, "to_fetch": True}
    with JOBS.run(_FETCH, payload.get("press")) as job:
        return method_to_dict(find_method(name, job.cancelled))  # type: ignore[arg-type]


def _search_hub(asked: Mapping[str, Any]) -> dict[str, Any]:
    _check_not_public("Methods are not searched on a public deployment; its owner lists them.")
    with JOBS.run(_SEARCH, asked.get("press")) as job:
        found = search_hub_methods(cancelled=job.cancelled)
    return {
        "offers": [
            {
                "name": method.name,
                "told": Message(
                    "The hub counts {n} downloads in the last month.", n=f"{method.downloads:,}"
                ),
                "group": _HUB_GROUP,
                "tab": None,
            }
            for method in found
        ]
    }


def method_to_dict(found: FoundMethod) -> dict[str, Any]:
    """Return a method as JSON values for the page."""
    method, trusted = found.method, is_trusted(found)
    return {
        "name": found.name,
        "source": found.source,
        "revision": found.revision,
        "sha256": method.sha256,
        "summary": extract_summary(method.source(README)) if README in method.files else "",
        "arguments": [asdict(argument) for argument in method.arguments],
        "files": {path: method.source(path) for path in _sort_paths(method.files)},
        "trusted": trusted,
        "own": found.source != HUB and not SETTINGS.public and found.name in list_own_methods(),
        "why_not": "" if trusted else _trust_problem(found),
        "can_trust": not SETTINGS.public,
    }


def _sort_paths(files: Mapping[str, bytes]) -> list[str]:
    """Return the paths of a method's files: its code first, the README last."""
    return sorted(files, key=lambda path: (path != ENTRY, path == README, path))


def _trust_problem(found: FoundMethod) -> str:
    try:
        check_trusted(found)
    except MethodError as error:
        return str(error)
    return ""


def _trust_method(payload: Mapping[str, Any]) -> dict[str, Any]:
    _check_not_public("Methods are not confirmed on a public deployment; its owner lists them.")
    found = find_method(payload.get("name"))  # type: ignore[arg-type]
    # The code may have changed since it was shown; only what was read is confirmed.
    if found.method.sha256 == payload.get("sha256"):
        trust_code(found.method.sha256)
        return method_to_dict(found)
    return {**method_to_dict(found), "changed": True}


def _read_own_files(payload: Mapping[str, Any]) -> dict[str, Any]:
    _check_not_public("Methods are not changed on a public deployment; its owner lists them.")
    return _own_method_state(payload.get("name"), read_method)


def _create_method(payload: Mapping[str, Any]) -> dict[str, Any]:
    _check_not_public("Methods are not made on a public deployment; its owner lists them.")
    name, template = payload.get("name"), payload.get("template")
    if not isinstance(name, str) or "/" in name or name in ("", ".", ".."):
        raise MethodError(
            "name is not allowed: it must be 1 to 63 letters, digits, _ and -, a letter first."
        )
    create_method(own_methods_folder() / name, str(template)[:100])
    return _own_method_state(name, trust_own_method)


def _save_method_file(payload: Mapping[str, Any]) -> dict[str, Any]:
    _check_not_public("Methods are not changed on a public deployment; its owner lists them.")
    name, before = payload.get("name"), payload.get("before")
    if save_file(name, payload.get("file"), payload.get("text"), before):
        return _own_method_state(name, trust_own_method)
    return {**_own_method_state(name, read_method), "changed": True}


def _own_method_state(name: Any, read: Callable[[Path], Any]) -> dict[str, Any]:
    """Return an own method's files with their marks, its upload command, and ``read``'s error or ""."""
    files, folder = read_own_files(name), find_own_method(name)
    try:
        read(folder)
        problem = ""
    except MethodError as error:
        problem = str(error)
    return {
        "name": name,
        "push": f"{COMMAND} method push {shlex.quote(str(folder))} --to owner/{name}",
        "files": {path: {"text": text, "mark": text_digest(text)} for path, text in files.items()},
        "problem": problem,
    }


def _poll_check(payload: Mapping[str, Any]) -> dict[str, Any]:
    _check_not_public("Methods are not checked on a public deployment; its owner lists them.")
    return method_checks.poll_check(payload)


def _check_not_public(refusal: str) -> None:
    """Refuse an action that only the owner of a machine may take.

    Raises:
        MethodError: This is a public deployment.
    """
    if SETTINGS.public:
        raise MethodError(refusal)
