"""What this machine keeps of custom methods: what their names mean and which code was confirmed, as small files.

Several processes write them: each takes a file's lock, reads what stands by then, and puts the whole file in its
place in one step. A file that cannot be read counts as empty, so what it held is asked for again.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path

from engine.errors import MethodError
from engine.methods.catalogue import COMMIT
from engine.settings import SETTINGS

PINS = "pins.json"
"""Name of a method of the hub -> the commit that it means here."""
CONFIRMED = "confirmed.json"
"""SHA-256 of code that its user has confirmed -> when, in UTC."""
_FORMS = {PINS: COMMIT, CONFIRMED: re.compile(r"\d{4}-\d\d-\d\dT.{1,40}")}


def methods_folder() -> Path:
    """Return where custom methods are kept, which need not be there."""
    return Path(SETTINGS.methods).expanduser()


def noted(file: str) -> dict[str, str]:
    """Return what stands in PINS or CONFIRMED."""
    try:
        found = json.loads((methods_folder() / file).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    form = _FORMS[file]
    return {
        k: value for k, value in found.items() if isinstance(value, str) and form.fullmatch(value)
    }


def note(file: str, key: str, value: str, *, anew: bool = False) -> str:
    """Write something down, and return what stands there then.

    Args:
        file: PINS or CONFIRMED.
        key: under which it is found.
        value: what it is.
        anew: takes the place of what stands there; otherwise the first stays.

    Raises:
        MethodError: it cannot be written.
    """
    from huggingface_hub.utils import WeakFileLock

    folder = methods_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with WeakFileLock(folder / f".{file}.lock"):
            known = noted(file)
            if anew or key not in known:
                known[key] = value
                put(folder / file, json.dumps(known, indent=1, sort_keys=True) + "\n")
            return known[key]
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise MethodError(
            f"{folder / file} cannot be written ({why}); PLAYGROUND_METHODS names another folder."
        ) from None


def put(path: Path, text: str, beside: Path | None = None) -> None:
    """Give a file its new content in one step.

    Args:
        path: of the file.
        text: what it says from now on.
        beside: where it is written first, on the same disk; None is the file's own folder.

    Raises:
        OSError: it cannot be written; what stood there still does.
    """
    handle, partial = tempfile.mkstemp(prefix=f".{path.name}.", dir=beside or path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(partial).replace(path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise
