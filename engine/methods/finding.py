"""From a method's name to its code, read and never run: one that comes along, one of the hub, or a folder."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.errors import MethodError, ModelError, shown
from engine.methods.catalogue import COMMIT, RECIPES, allowed, allowed_as
from engine.methods.folder import ENTRY, README, Method, read_method, summary
from engine.methods.keeping import PINS, methods_folder, note, noted
from engine.methods.making import TEMPLATES, own_methods, templates
from engine.models import bringing, files, hub, lookup
from engine.settings import SETTINGS

SHIPPED, HUB, FOLDER = "shipped", "hub", "folder"
FETCH_S = 120.0
"""Longest wait for a method of the hub."""
_PLACE = "hub"
_FETCHED = "fetched"


@dataclass(frozen=True)
class Found:
    """A method that was found by its name."""

    name: str
    """As it was asked for."""
    method: Method
    """Read, not run."""
    source: str
    """SHIPPED, HUB or FOLDER."""
    revision: str | None
    """Commit of a repository of the hub."""


@dataclass(frozen=True)
class Offer:
    """A method that a list may name.

    Attributes:
        told: what it is in one line; empty where that is not known before it is fetched.
        kind: template, shipped, own (made on the page), recipe or allowed.
        tab: the strategy of this playground that does the same as a recipe.
    """

    told: str
    kind: str
    tab: str | None = None


def find_method(name: str, cancelled: threading.Event | None = None) -> Found:
    """Find a method and read it; one of the hub is fetched if it is not on this machine.

    A name of the hub without a revision goes on meaning the commit that it was first fetched at, and so does a
    branch or tag.

    Args:
        name: of a method that comes along or was made on the page, a hub id ``owner/name`` or
            ``owner/name@revision``, or a folder's path that begins with /, ~, ./ or ../.
        cancelled: gives up waiting when set.

    Raises:
        BusyError: the hub is being asked about too much.
        Cancelled: it was cancelled meanwhile.
        MethodError: there is none, it is not offered here, or it cannot be fetched or read.
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
    except RuntimeError:  # of a user who is not known
        raise MethodError(
            f"method = {shown(name)} is not allowed: there is no such folder."
        ) from None
    return Found(name, read_method(folder), FOLDER, None)


def is_here(name: str) -> bool:
    """Return whether a method can be found without asking the hub; where it cannot be found at all, too.

    Raises:
        MethodError: one of the hub that is not offered here.
    """
    if name in templates() or not files.is_hub_id(name):
        return True
    known = _known_commit(name)
    return known is not None and (_folder_of(files.repository_of(name)[0], known) / ENTRY).is_file()


def pin(found: Found) -> None:
    """Let the name of a repository without a revision mean the commit of one that was found.

    Args:
        found: of the hub; nothing changes for others.

    Raises:
        MethodError: it cannot be written down.
    """
    if found.revision is not None:
        note(PINS, files.repository_of(found.name)[0], found.revision, anew=True)


def offered() -> dict[str, Offer]:
    """Return name -> what it is, of the methods that a list may name; nothing is fetched or asked for."""
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
    """Return the sentence about a name that means nothing here."""
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
    """Return the folder and the commit of a method of the hub.

    Raises:
        MethodError: it is not offered here, or cannot be fetched.
    """
    repository, _ = files.repository_of(name)
    known = _known_commit(name)
    if known is not None:
        folder = _folder_of(repository, known)
        if (folder / ENTRY).is_file():
            return folder, known
    commit = _fetch(f"{repository}@{known}" if known else name, cancelled)
    if known is None:
        # Where another process was first, its commit stands.
        commit = note(PINS, name, commit)
    elif commit != known:
        raise MethodError(f"The hub gives another commit for {name} than {known}.")
    return _folder_of(repository, commit), commit


def _known_commit(name: str) -> str | None:
    """Return the commit that a name means, None where the hub has to say.

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
    """Return where a method of the hub is kept; the folder has the method's name."""
    owner, _, name = repository.partition("/")
    return methods_folder() / _PLACE / owner / commit / name


def _fetch(name: str, cancelled: threading.Event | None) -> str:
    """Bring a method to its place, whole or not at all; return its commit."""
    place = methods_folder() / _PLACE
    with _as_method_error(), bringing.no_room(name, place, "PLAYGROUND_METHODS"):
        place.mkdir(parents=True, exist_ok=True)
        bringing.tidy(place / _FETCHED)
        with tempfile.TemporaryDirectory(
            prefix=f".{_FETCHED}.", dir=place, ignore_cleanup_errors=True
        ) as beside:
            made = Path(beside) / "method"
            order = hub.order_for(name) | {"into": str(made)}
            commit = lookup.ask("engine.methods.fetching", order, FETCH_S, cancelled)["revision"]
            shutil.rmtree(made / ".cache", ignore_errors=True)  # the package's notes
            _take_place(made, _folder_of(files.repository_of(name)[0], commit))
    return commit


def _take_place(made: Path, folder: Path) -> None:
    """Give what was fetched its name, unless another process was first."""
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
