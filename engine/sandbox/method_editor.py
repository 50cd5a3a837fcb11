"""Reads and writes the files of methods that were created on the page."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

from engine.errors import MethodError, format_value
from engine.sandbox.folder import (
    ENTRY,
    MAX_BYTES,
    README,
    format_too_large,
    read_files,
    read_method,
)
from engine.sandbox.method_store import replace_file
from engine.sandbox.method_templates import list_own_methods, own_methods_folder
from engine.sandbox.trust import trust_code

_SAVE_LOCK = threading.Lock()


def find_own_method(name: object) -> Path:
    """Return the folder of a method that was created on the page.

    Raises:
        MethodError: there is none with this name.
    """
    known = list_own_methods()
    if not isinstance(name, str) or name not in known:
        if not known:
            raise MethodError(
                "method = {name} cannot be changed here: it must be one of yours; there is none "
                "yet.",
                name=format_value(name),
            )
        raise MethodError(
            "method = {name} cannot be changed here: it must be one of yours ({known}).",
            name=format_value(name),
            known=", ".join(known),
        )
    if known[name].is_symlink():
        raise MethodError(
            "{name} is a link; a method must consist of plain files.", name=known[name]
        )
    return known[name]


def read_own_files(name: object) -> dict[str, str]:
    """Return path -> text of a method's editable files, its code first; nothing is validated.

    Raises:
        MethodError: there is no such method, or it cannot be read.
    """
    folder = find_own_method(name)
    try:
        found = {path: text.decode("utf-8") for path, text in read_files(folder).items()}
    except UnicodeDecodeError:
        raise MethodError(
            "A file of {folder} is no text; change it elsewhere.", folder=folder.name
        ) from None
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise MethodError("{folder} cannot be read: {why}.", folder=folder, why=why) from None
    return {path: found[path] for path in sorted(found, key=lambda path: (path != ENTRY, path))}


def text_digest(text: str) -> str:
    """Return the SHA-256 of a text, to detect changes."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def save_file(name: object, path: object, text: object, before: object = None) -> bool:
    """Write a file of a method created on the page, unless it has changed since it was read.

    Args:
        name: the method's name.
        path: path inside its folder, of an existing file or its README.
        text: the new content.
        before: ``text_digest`` the text when it was read; None to overwrite any text.

    Returns:
        False if the file has changed.

    Raises:
        MethodError: the file cannot be written.
    """
    # No other save may come between the comparison with `before` and the replacement.
    with _SAVE_LOCK:
        folder, files = find_own_method(name), read_own_files(name)
        if not isinstance(path, str) or path not in (*files, README):
            raise MethodError(
                "file = {path} is not allowed: it must be one of {files}.",
                path=format_value(path),
                files=", ".join(files),
            )
        _check_text(folder.name, path, text, files)
        assert isinstance(text, str)
        if before is not None and before != text_digest(files.get(path, "")):
            return False
        try:
            # A temporary file inside the folder would count as one of the method's files.
            replace_file(folder / path, text, own_methods_folder())
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise MethodError(
                "{folder} could not be written: {error}.", folder=folder / path, error=why
            ) from None
    return True


def trust_own_method(folder: Path) -> None:
    """Trust the code of a method created on the page: its author has seen it.

    Args:
        folder: the method's folder.

    Raises:
        MethodError: it is not a valid method; one sentence with file and line.
    """
    trust_code(read_method(folder).sha256)


def _check_text(name: str, path: str, text: object, files: dict[str, str]) -> None:
    """Refuse content that could not be read back.

    Raises:
        MethodError: it is not text, or too long.
    """
    if not isinstance(text, str):
        raise MethodError("{path} must be text.", path=path)
    try:
        others = (other.encode() for place, other in files.items() if place != path)
        size = len(text.encode()) + sum(map(len, others))
    except UnicodeEncodeError:
        raise MethodError("{path} has characters that UTF-8 does not have.", path=path) from None
    if size > MAX_BYTES:
        raise MethodError(format_too_large(name))
