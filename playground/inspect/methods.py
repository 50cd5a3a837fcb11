"""Custom generation methods for the page: list, code, and methods written on this machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.errors import Cancelled, MethodError, StoppedError
from engine.sandbox.confinement import BARRIERS, expected
from engine.sandbox.folder import ENTRY, README, read_method, summary
from engine.sandbox.method_editor import mark_of, own_files, own_method, save_file, trust_own
from engine.sandbox.method_lookup import HUB, Found, find_method, is_here, offered
from engine.sandbox.method_templates import new_method, own_folder, own_methods, templates
from engine.sandbox.trust import check_trusted, is_trusted, trust
from engine.settings import SETTINGS
from playground.inspect import method_checks

ACTIONS = (
    "methods",
    "method",
    "method_trust",
    "method_files",
    "method_new",
    "method_save",
    "method_check",
    "method_stop",
)
_GROUPS = {
    "template": "Templates",
    "shipped": "They come along",
    "own": "Yours",
    "recipe": "transformers' own, on the hub",
    "allowed": "Of the hub",
}
"""Kind of an offer -> its heading in the list."""
_ORDER = ("shipped", "own", "template", "recipe", "allowed")
_WORDS = {
    "files": "reading other files",
    "network": "the network",
    "processes": "starting programs",
    "signals": "signals to other processes",
}
_MOST_STOPS = 64
_STOPS: dict[str, threading.Event] = {}
"""Events that stop a download, by the unguessable id that the page generated."""


def act(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Answer one question about methods.

    Args:
        asked: ``action`` and its fields. ``methods`` lists them. ``method`` describes the one of
            this ``name``, downloaded only if ``fetch`` is true. ``method_trust`` takes a ``name``
            and the ``sha256`` that was shown. ``method_files`` reads the files of a user's own
            method. ``method_new`` takes a ``name`` and a ``template``. ``method_save`` takes a
            ``name``, a ``file``, its ``text`` and the mark of the text ``before``. ``method_check``
            takes a ``name`` (see ``method_checks.act``). ``method_stop`` stops the download or
            check with the id ``press``.

    Raises:
        EngineError: One sentence naming what is wrong.
    """
    acts = {
        "methods": _listed,
        "method": _method,
        "method_trust": _trusted,
        "method_files": _files,
        "method_new": _new,
        "method_save": _saved,
        "method_check": _check,
        "method_stop": _stop,
    }
    return acts[asked["action"]](asked)


def shut_in() -> str:
    """Return a sentence on what a method's sandbox allows and forbids on this machine."""
    limits = f"It may take {SETTINGS.max_method_s:g} seconds and {SETTINGS.max_method_memory_gb:g} GB beyond the model."
    missing = [name for name in BARRIERS if name not in expected()]
    if not missing:
        return (
            "It runs in a process of its own that reads the model and Python's packages and nothing else, without the"
            f" network or other programs. {limits}"
        )
    lacking = ", ".join(_WORDS[name] for name in missing)
    return f"It runs in a process of its own, but this machine cannot keep it from: {lacking}. {limits}"


def _listed(asked: Mapping[str, Any]) -> dict[str, Any]:
    del asked
    offers = sorted(offered().items(), key=lambda item: _ORDER.index(item[1].kind))
    return {
        "offers": [
            {"name": name, "told": offer.told, "group": _GROUPS[offer.kind], "tab": offer.tab}
            for name, offer in offers
        ],
        "templates": list(templates()),
        "makes": not SETTINGS.public,
        "folder": "" if SETTINGS.public else str(own_folder()),
        "shut_in": shut_in(),
    }


def _method(asked: Mapping[str, Any]) -> dict[str, Any]:
    name = asked.get("name")
    if isinstance(name, str) and not is_here(name) and asked.get("fetch") is not True:
        return {"name": name, "to_fetch": True}
    press = str(asked.get("press", ""))[:64]
    stopped = threading.Event()
    _STOPS[press] = stopped
    while len(_STOPS) > _MOST_STOPS:
        _STOPS.pop(next(iter(_STOPS)))
    try:
        return described(find_method(name, stopped))  # type: ignore[arg-type]
    except Cancelled:
        raise StoppedError("Stopped; nothing was kept of it.") from None
    finally:
        _STOPS.pop(press, None)


def described(found: Found) -> dict[str, Any]:
    """Return a method as JSON values for the page."""
    method, trusted = found.method, is_trusted(found)
    return {
        "name": found.name,
        "source": found.source,
        "revision": found.revision,
        "sha256": method.sha256,
        "summary": summary(method.source(README)) if README in method.files else "",
        "arguments": [asdict(argument) for argument in method.arguments],
        "files": {path: method.source(path) for path in _ordered(method.files)},
        "trusted": trusted,
        "own": found.source != HUB and not SETTINGS.public and found.name in own_methods(),
        "why_not": "" if trusted else _why_not(found),
        "can_trust": not SETTINGS.public,
    }


def _ordered(files: Mapping[str, bytes]) -> list[str]:
    """Return the paths of a method's files: its code first, the README last."""
    return sorted(files, key=lambda path: (path != ENTRY, path == README, path))


def _why_not(found: Found) -> str:
    try:
        check_trusted(found)
    except MethodError as error:
        return str(error)
    return ""


def _trusted(asked: Mapping[str, Any]) -> dict[str, Any]:
    _check_private("confirmed")
    found = find_method(asked.get("name"))  # type: ignore[arg-type]
    # The code may have changed since it was shown; only what was read is confirmed.
    if found.method.sha256 == asked.get("sha256"):
        trust(found.method.sha256)
        return described(found)
    return {**described(found), "changed": True}


def _files(asked: Mapping[str, Any]) -> dict[str, Any]:
    _check_private("changed")
    return _own(asked.get("name"), read_method)


def _new(asked: Mapping[str, Any]) -> dict[str, Any]:
    _check_private("made")
    name, template = asked.get("name"), asked.get("template")
    if not isinstance(name, str) or "/" in name or name in ("", ".", ".."):
        raise MethodError(
            "name is not allowed: it must be 1 to 63 letters, digits, _ and -, a letter first."
        )
    new_method(own_folder() / name, str(template)[:100])
    return _own(name, trust_own)


def _saved(asked: Mapping[str, Any]) -> dict[str, Any]:
    _check_private("changed")
    name, before = asked.get("name"), asked.get("before")
    if save_file(name, asked.get("file"), asked.get("text"), before):
        return _own(name, trust_own)
    return {**_own(name, read_method), "changed": True}


def _own(name: Any, read: Callable[[Path], Any]) -> dict[str, Any]:
    """Return the files of an own method with their marks, and ``read``'s error, "" for none."""
    files, folder = own_files(name), own_method(name)
    try:
        read(folder)
        problem = ""
    except MethodError as error:
        problem = str(error)
    return {
        "name": name,
        "folder": str(folder),
        "files": {path: {"text": text, "mark": mark_of(text)} for path, text in files.items()},
        "problem": problem,
    }


def _check(asked: Mapping[str, Any]) -> dict[str, Any]:
    _check_private("checked")
    return method_checks.act(asked)


def _stop(asked: Mapping[str, Any]) -> dict[str, Any]:
    press = str(asked.get("press", ""))[:64]
    fetching = _STOPS.get(press)
    if fetching is not None:
        fetching.set()
    method_checks.stop(press)
    return {}


def _check_private(verb: str) -> None:
    """Refuse an action that only the owner of a machine may take.

    Raises:
        MethodError: This is a public deployment.
    """
    if SETTINGS.public:
        raise MethodError(f"Methods are not {verb} on a public deployment; its owner lists them.")
