"""Finds a method's code by its name: a shipped method, a hub repository or a folder.

The code is read and never executed here.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.errors import MethodError, ModelError, shown
from engine.models import files, hub, hub_lookup, install
from engine.sandbox.catalogue import COMMIT, RECIPES, allowed, allowed_as
from engine.sandbox.folder import ENTRY, README, Method, read_method, summary
from engine.sandbox.method_store import PINS, methods_folder, note, noted
from engine.sandbox.method_templates import TEMPLATES, own_methods, templates
from engine.settings import SETTINGS

SHIPPED, HUB, FOLDER = "shipped", "hub", "folder"
FETCH_S = 120.0
"""Longest download of a hub method, in seconds."""
_PLACE = "hub"
_FETCHED = "fetched"


@dataclass(frozen=True)
class Found:
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
class Offer:
    """A method that can be listed.

    Attributes:
        told: one-line description; empty if unknown before the download.
        kind: template, shipped, own (created on the page), recipe or allowed.
        tab: the strategy of this playground that does the same as a recipe.
    """

    told: str
    kind: str
    tab: str | None = None


def find_method(name: str, cancelled: threading.Event | None = None) -> Found:
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
        raise MethodError(_unknown(name))
    known = templates()
    if name in known:
        return Found(name, read_method(known[name]), SHIPPED, None)
    if files.is_hub_id(name):
        folder, commit = _of_hub(name, cancelled)
        return Found(name, read_method(folder), HUB, commit)
    own = {} if SETTINGS.public else own_methods()
    if name in own:
        return Found(name, read_method(own[name]), FOLDER, None)
    if SETTINGS.public or not _is_path(name):
        raise MethodError(_unknown(name))
    try:
        folder = Path(name).expanduser()
    except RuntimeError:  # the home of an unknown user
        raise MethodError(
            f"method = {shown(name)} is not allowed: there is no such folder."
        ) from None
    return Found(name, read_method(folder), FOLDER, None)


def is_here(name: str) -> bool:
    """Return whether a method can be resolved without the hub; also True if it does not exist.

    Raises:
        MethodError: a hub method that is not offered here.
    """
    if name in templates() or not files.is_hub_id(name):
        return True
    known = _known_commit(name)
    return known is not None and (_folder_of(files.repository_of(name)[0], known) / ENTRY).is_file()


def pin(found: Found) -> None:
    """Make the repository's name without a revision mean the commit of a found method.

    Args:
        found: a hub method; others change nothing.

    Raises:
        MethodError: the pin cannot be written.
    """
    if found.revision is not None:
        note(PINS, files.repository_of(found.name)[0], found.revision, anew=True)


def offered() -> dict[str, Offer]:
    """Return name -> offer of the methods that can be listed; nothing is downloaded."""
    found = {
        name: Offer(_told(folder), "template" if folder.parent == TEMPLATES else "shipped")
        for name, folder in templates().items()
    }
    if not SETTINGS.public:
        found |= {name: Offer(_told(folder), "own") for name, folder in own_methods().items()}
        found |= {
            name: Offer(recipe.title, "recipe", recipe.tab) for name, recipe in RECIPES.items()
        }
    for method in allowed():
        recipe = RECIPES.get(method.repository)
        told = recipe.title if recipe else _told(_folder_of(method.repository, method.commit))
        found[method.name] = Offer(told, "allowed", recipe and recipe.tab)
    return found


def _told(folder: Path) -> str:
    try:
        return summary((folder / README).read_text("utf-8", "replace"))
    except OSError:
        return ""


def _is_path(name: str) -> bool:
    return Path(name).is_absolute() or name.partition("/")[0] in (".", "..") or name[:1] == "~"


def _unknown(name: object) -> str:
    """Return the error message for an unknown method name."""
    along = f"one that comes along ({', '.join(templates())})"
    if SETTINGS.public:
        return f"method = {shown(name)} is not allowed: it must be {along}{_or_allowed()}."
    own = f", one of yours ({', '.join(own_methods())})" if own_methods() else ""
    return (
        f"method = {shown(name)} is not allowed: it must be {along}{own}, a hub id like owner/name or"
        " owner/name@revision, or a folder, as an absolute path or one that begins with ./ or ~."
    )


def _or_allowed() -> str:
    names = ", ".join(method.name for method in allowed())
    return f" or one that is offered here ({names})" if names else ""


def _of_hub(name: str, cancelled: threading.Event | None) -> tuple[Path, str]:
    """Return the folder and the commit of a hub method.

    Raises:
        MethodError: it is not offered here, or cannot be downloaded.
    """
    repository, _ = files.repository_of(name)
    known = _known_commit(name)
    if known is not None:
        folder = _folder_of(repository, known)
        if (folder / ENTRY).is_file():
            return folder, known
    commit = _fetch(f"{repository}@{known}" if known else name, cancelled)
    if known is None:
        # If another process pinned the name first, its commit counts.
        commit = note(PINS, name, commit)
    elif commit != known:
        raise MethodError(f"The hub gives another commit for {name} than {known}.")
    return _folder_of(repository, commit), commit


def _known_commit(name: str) -> str | None:
    """Return the commit that a name means, None if the hub must be asked.

    Raises:
        MethodError: it is not offered here.
    """
    listed = allowed_as(name)
    if listed is not None:
        return listed.commit
    if SETTINGS.public:
        raise MethodError(_unknown(name))
    asked = files.repository_of(name)[1]
    if COMMIT.fullmatch(asked or ""):
        return asked
    return noted(PINS).get(name) or (RECIPES[name].commit if name in RECIPES else None)


def _folder_of(repository: str, commit: str) -> Path:
    """Return the local folder of a hub method; its last part is the method's name."""
    owner, _, name = repository.partition("/")
    return methods_folder() / _PLACE / owner / commit / name


def _fetch(name: str, cancelled: threading.Event | None) -> str:
    """Download a method to its place, complete or not at all; return its commit."""
    place = methods_folder() / _PLACE
    with _as_method_error(), install.no_room(name, place, "PLAYGROUND_METHODS"):
        place.mkdir(parents=True, exist_ok=True)
        install.tidy(place / _FETCHED)
        with tempfile.TemporaryDirectory(
            prefix=f".{_FETCHED}.", dir=place, ignore_cleanup_errors=True
        ) as beside:
            made = Path(beside) / "method"
            order = hub.order_for(name) | {"into": str(made)}
            commit = hub_lookup.ask("engine.sandbox.method_download", order, FETCH_S, cancelled)[
                "revision"
            ]
            shutil.rmtree(made / ".cache", ignore_errors=True)  # huggingface_hub's download records
            _take_place(made, _folder_of(files.repository_of(name)[0], commit))
    return commit


def _take_place(made: Path, folder: Path) -> None:
    """Rename the download to its place, unless another process was first."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        made.rename(folder)
    except OSError:
        if not (folder / ENTRY).is_file():
            raise


@contextmanager
def _as_method_error() -> Iterator[None]:
    try:
        yield
    except ModelError as error:
        raise MethodError(str(error)) from None
