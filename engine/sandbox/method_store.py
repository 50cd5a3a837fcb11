"""Small JSON files about methods on this machine: pinned commits and confirmed code.

Several processes write them. Each takes the file's lock, reads it again and replaces it atomically.
An unreadable file counts as empty, so its questions are asked again.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path

from engine.errors import MethodError
from engine.sandbox.catalogue import COMMIT_PATTERN
from engine.settings import SETTINGS

PINS = "pins.json"
"""Name of a hub method -> its commit on this machine."""
CONFIRMED = "confirmed.json"
"""SHA-256 of confirmed code -> time of confirmation, in UTC."""
_VALUE_PATTERNS = {PINS: COMMIT_PATTERN, CONFIRMED: re.compile(r"\d{4}-\d\d-\d\dT.{1,40}")}
HUB_FOLDER = "hub"
"""Name of the folder below ``methods_folder`` that downloaded methods are in."""


def methods_folder() -> Path:
    """Return the folder of custom methods, which may not exist."""
    return Path(SETTINGS.methods).expanduser()


def read_records(file: str) -> dict[str, str]:
    """Return the valid entries of PINS or CONFIRMED."""
    try:
        found = json.loads((methods_folder() / file).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    form = _VALUE_PATTERNS[file]
    return {
        k: value for k, value in found.items() if isinstance(value, str) and form.fullmatch(value)
    }


def write_record(file: str, key: str, value: str, *, anew: bool = False) -> str:
    """Write an entry and return the value stored under its key.

    Args:
        file: PINS or CONFIRMED.
        key: of the entry.
        value: of the entry.
        anew: replace an existing value; otherwise the first one stays.

    Raises:
        MethodError: the file cannot be written.
    """
    from huggingface_hub.utils import WeakFileLock

    folder = methods_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with WeakFileLock(folder / f".{file}.lock"):
            known = read_records(file)
            if anew or key not in known:
                known[key] = value
                replace_file(folder / file, json.dumps(known, indent=1, sort_keys=True) + "\n")
            return known[key]
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise MethodError(
            "{file} cannot be written ({why}); PLAYGROUND_METHODS names another folder.",
            file=folder / file,
            why=why,
        ) from None


def replace_file(path: Path, text: str, beside: Path | None = None) -> None:
    """Replace a file's content atomically.

    Args:
        path: the file.
        text: its new content.
        beside: folder of the temporary file, on the same disk; None for the file's own folder.

    Raises:
        OSError: it cannot be written; the old content remains.
    """
    # Next to the file, since a rename works within one file system only.
    handle, partial = tempfile.mkstemp(prefix=f".{path.name}.", dir=beside or path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(partial).replace(path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise
