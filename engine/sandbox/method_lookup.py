"""Finds a method's code by its name: a shipped method, a hub repository or a folder.

The code is read and never executed here.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.errors import MethodError, ModelError, format_value
from engine.messages import Message
from engine.models import hub, hub_lookup
from engine.models.disk_space import disk_errors
from engine.sandbox.catalogue import (
    COMMIT_PATTERN,
    RECIPES,
    find_allowed_method,
    list_allowed_methods,
)
from engine.sandbox.folder import ENTRY, README, Method, extract_summary, read_method
from engine.sandbox.method_store import (
    HUB_FOLDER,
    PINS,
    methods_folder,
    read_records,
    write_record,
)
from engine.sandbox.method_templates import TEMPLATES_FOLDER, list_own_methods, list_templates
from engine.settings import SETTINGS
from engine.sources.hub_cache import is_hub_id, split_revision
from engine.temporary_folder import TemporaryFolder

SHIPPED, HUB, FOLDER = "shipped", "hub", "folder"
FETCH_S = 120.0
"""Longest download of a hub method, in seconds."""


@dataclass(frozen=True)
class FoundMethod:
    """A method found by its name."""

    name: str
    """As requested."""
    method: Method
    """Its code, read but not executed."""
    source: str
    """SHIPPED, HUB or FOLDER."""
    revision: str | None
    """Commit of a hub repository, else None."""


@dataclass(frozen=True)
class MethodOffer:
    """A method that can be listed.

    Attributes:
        told: one-line description; empty if unknown before the download.
        kind: template, shipped, own (created on the page), recipe or allowed.
        tab: the strategy of this playground that does the same as a recipe.
    """

    told: str
    kind: str
    tab: str | None = None


def find_method(name: str, cancelled: threading.Event | None = None) -> FoundMethod:
    """Find and read a method; a hub method is downloaded if it is not on this machine.

    A hub name without a commit keeps the commit of its first download, also for a branch or tag.

    Args:
        name: a shipped method or one created on the page, a hub id ``owner/name`` or
            ``owner/name@revision``, or a folder path that begins with /, ~, ./ or ../.
        cancelled: gives up waiting when set.

    Raises:
        BusyError: too many hub lookups are running.
        Cancelled: the search was cancelled meanwhile.
        MethodError: there is no such method, it is not offered here, or it cannot be downloaded or
            read.
    """
    if not isinstance(name, str):
        raise MethodError(_format_unknown_method(name))
    known = list_templates()
    if name in known:
        return FoundMethod(name, read_method(known[name]), SHIPPED, None)
    if is_hub_id(name):
        folder, commit = _locate_hub_method(name, cancelled)
        return FoundMethod(name, read_method(folder), HUB, commit)
    own = {} if SETTINGS.public else list_own_methods()
    if name in own:
        return FoundMethod(name, read_method(own[name]), FOLDER, None)
    if SETTINGS.public or not _is_path(name):
        raise MethodError(_format_unknown_method(name))
    try:
        folder = Path(name).expanduser()
    except RuntimeError:  # the home of an unknown user
        raise MethodError(
            "method = {name} is not allowed: there is no such folder.", name=format_value(name)
        ) from None
    return FoundMethod(name, read_method(folder), FOLDER, None)


def is_local_method(name: str) -> bool:
    """Return whether a method can be resolved without the hub; also True if it does not exist.

    Raises:
        MethodError: a hub method that is not offered here.
    """
    if name in list_templates() or not is_hub_id(name):
        return True
    known = _known_commit(name)
    return (
        known is not None and (_hub_method_folder(split_revision(name)[0], known) / ENTRY).is_file()
    )


def pin_commit(found: FoundMethod) -> None:
    """Make the repository's name without a revision mean the commit of a found method.

    Args:
        found: a hub method; others change nothing.

    Raises:
        MethodError: the pin cannot be written.
    """
    if found.revision is not None:
        write_record(PINS, split_revision(found.name)[0], found.revision, anew=True)


def list_offers() -> dict[str, MethodOffer]:
    """Return name -> offer of the methods that can be listed; nothing is downloaded."""
    found = {
        name: MethodOffer(
            _read_summary(folder), "template" if folder.parent == TEMPLATES_FOLDER else "shipped"
        )
        for name, folder in list_templates().items()
    }
    if not SETTINGS.public:
        found |= {
            name: MethodOffer(_read_summary(folder), "own")
            for name, folder in list_own_methods().items()
        }
        found |= {
            name: MethodOffer(recipe.title, "recipe", recipe.tab)
            for name, recipe in RECIPES.items()
        }
    for method in list_allowed_methods():
        recipe = RECIPES.get(method.repository)
        told = (
            recipe.title
            if recipe
            else _read_summary(_hub_method_folder(method.repository, method.commit))
        )
        found[method.name] = MethodOffer(told, "allowed", recipe and recipe.tab)
    return found


def _read_summary(folder: Path) -> str:
    try:
        return extract_summary((folder / README).read_text("utf-8", "replace"))
    except OSError:
        return ""


def _is_path(name: str) -> bool:
    return Path(name).is_absolute() or name.partition("/")[0] in (".", "..") or name[:1] == "~"


def _format_unknown_method(name: object) -> str:
    """Return the error message for an unknown method name."""
    values = {"name": format_value(name), "templates": ", ".join(list_templates())}
    if not SETTINGS.public:
        return Message(
            "method = {name} is not allowed: it must be built in ({templates}){own}, a hub id "
            "like owner/name or owner/name@revision, or a folder, as an absolute path or one "
            "that begins with ./ or ~.",
            **values,
            own=_format_own_methods(),
        )
    allowed = ", ".join(method.name for method in list_allowed_methods())
    if not allowed:
        return Message(
            "method = {name} is not allowed: it must be built in ({templates}).",
            **values,
        )
    return Message(
        "method = {name} is not allowed: it must be built in ({templates}) or offered here "
        "({names}).",
        **values,
        names=allowed,
    )


def _format_own_methods() -> str:
    names = ", ".join(list_own_methods())
    return Message(", one of yours ({names})", names=names) if names else ""


def _locate_hub_method(name: str, cancelled: threading.Event | None) -> tuple[Path, str]:
    """Return the folder and the commit of a hub method.

    Raises:
        MethodError: it is not offered here, or cannot be downloaded.
    """
    repository, _ = split_revision(name)
    known = _known_commit(name)
    if known is not None:
        folder = _hub_method_folder(repository, known)
        if (folder / ENTRY).is_file():
            return folder, known
    commit = _download_method(f"{repository}@{known}" if known else name, cancelled)
    if known is None:
        # If another process pinned the name first, its commit counts.
        commit = write_record(PINS, name, commit)
    elif commit != known:
        raise MethodError(
            "The hub gives another commit for {name} than {known}.", name=name, known=known
        )
    return _hub_method_folder(repository, commit), commit


def _known_commit(name: str) -> str | None:
    """Return the commit that a name means, None if the hub must be asked.

    Raises:
        MethodError: it is not offered here.
    """
    listed = find_allowed_method(name)
    if listed is not None:
        return listed.commit
    if SETTINGS.public:
        raise MethodError(_format_unknown_method(name))
    asked = split_revision(name)[1]
    # A commit cannot change, unlike a branch or a tag, so it needs no pin.
    if COMMIT_PATTERN.fullmatch(asked or ""):
        return asked
    return read_records(PINS).get(name) or (RECIPES[name].commit if name in RECIPES else None)


def _hub_method_folder(repository: str, commit: str) -> Path:
    """Return the local folder of a hub method; its last part is the method's name."""
    owner, _, name = repository.partition("/")
    return methods_folder() / HUB_FOLDER / owner / commit / name


def _download_method(name: str, cancelled: threading.Event | None) -> str:
    """Download a method to its place, complete or not at all; return its commit."""
    place = methods_folder() / HUB_FOLDER
    with _convert_errors(), disk_errors(name, place, "PLAYGROUND_METHODS"):
        place.mkdir(parents=True, exist_ok=True)
        with TemporaryFolder("method", place) as beside:
            made = Path(beside) / "method"
            order = hub.build_hub_order(name) | {"into": str(made)}
            commit = hub_lookup.ask_hub(
                "engine.sandbox.method_download", order, FETCH_S, cancelled
            )["revision"]
            shutil.rmtree(made / ".cache", ignore_errors=True)  # huggingface_hub's download records
            _move_into_place(made, _hub_method_folder(split_revision(name)[0], commit))
    return commit


def _move_into_place(made: Path, folder: Path) -> None:
    """Rename the download to its place, unless another process was first."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        made.rename(folder)
    except OSError:
        if not (folder / ENTRY).is_file():
            raise


@contextmanager
def _convert_errors() -> Iterator[None]:
    try:
        yield
    except ModelError as error:
        raise MethodError(str(error)) from None
