"""Decides whose code may run: shipped methods, allowed ones, and code that the user confirmed.

A confirmation is bound to the hash of the code, regardless of its name and place; one changed byte
needs a new one.
"""

from __future__ import annotations

import shlex
from datetime import UTC, datetime

from engine import program
from engine.errors import MethodError, format_value
from engine.sandbox.catalogue import SHA256_PATTERN, list_allowed_methods
from engine.sandbox.method_lookup import HUB, SHIPPED, FoundMethod
from engine.sandbox.method_store import CONFIRMED, read_records, write_record
from engine.settings import SETTINGS


def is_trusted(found: FoundMethod) -> bool:
    """Return whether a method may run on this machine."""
    if found.source == SHIPPED or _is_allowed(found):
        return True
    return not SETTINGS.public and found.method.sha256 in read_records(CONFIRMED)


def trust_code(sha256: str) -> None:
    """Trust code with this hash on this machine from now on.

    Args:
        sha256: hash of a ``Method`` that its user has seen, 64 hexadecimal digits.

    Raises:
        MethodError: it is not a hash, this is a public deployment, or it cannot be stored.
    """
    if SETTINGS.public:
        raise MethodError("Methods are not confirmed on a public deployment; its owner lists them.")
    if not (isinstance(sha256, str) and SHA256_PATTERN.fullmatch(sha256)):
        raise MethodError(
            "sha256 = {sha256} is not allowed: it must be 64 digits from 0 to f.",
            sha256=format_value(sha256),
        )
    write_record(CONFIRMED, sha256, datetime.now(UTC).isoformat(timespec="seconds"))


def check_trusted(found: FoundMethod) -> None:
    """Refuse a method that must not run on this machine.

    Raises:
        MethodError: says how to allow it.
    """
    if is_trusted(found):
        return
    name, sha256 = found.name, found.method.sha256
    if SETTINGS.public:
        raise MethodError(
            "{name} is not what this deployment allows by that name: its code has the "
            "sha256 {sha256}.",
            name=name,
            sha256=sha256,
        )
    raise MethodError(
        "The code of {name} has not been confirmed on this machine (sha256 {sha256}): {command} "
        "shows it and asks.",
        name=name,
        sha256=sha256,
        command=f"{program.COMMAND} method trust {shlex.quote(name)}",
    )


def _is_allowed(found: FoundMethod) -> bool:
    repository = found.name.partition("@")[0]
    known = (repository, found.revision, found.method.sha256)
    return found.source == HUB and known in {
        (a.repository, a.commit, a.sha256) for a in list_allowed_methods()
    }
