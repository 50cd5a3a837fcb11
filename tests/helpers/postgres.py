"""A PostgreSQL of its own, where the machine has one."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from tests.helpers.patience import PATIENCE_S
from tests.helpers.server import free_port


def missing() -> str:
    """Return why there is none, empty where there is."""
    if not all(shutil.which(name) for name in ("postgres", "initdb", "pg_ctl")):
        return "postgres, initdb and pg_ctl are not in PATH"
    if find_spec("psycopg") is None:
        return "psycopg is not installed: requirements-cluster.txt"
    if os.getuid() == 0 and _other() is None:
        return "PostgreSQL does not run as root, and there is nobody else to run it"
    return ""


def _other() -> int | None:
    """Return a user of this machine who is not root."""
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_uid
        except KeyError:
            continue
    return None


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """Run a server; yields its address.

    Args:
        folder: for its files; it has to be empty, and everybody may reach it.
    """
    user = _other() if os.getuid() == 0 else None
    if user is not None:
        os.chown(folder, user, -1)
    data, port = folder / "data", free_port()

    def told(*command: str) -> None:
        subprocess.run(
            command,
            user=user,
            cwd=folder,
            check=True,
            timeout=PATIENCE_S,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    told("initdb", "-D", str(data), "-U", "own", "--auth=trust", "--no-sync", "-E", "UTF8")
    own = f"-p {port} -k '' -c listen_addresses=127.0.0.1 -c fsync=off"
    told("pg_ctl", "-D", str(data), "-o", own, "-w", "-l", str(folder / "log"), "start")
    try:
        yield f"postgresql+psycopg://own@127.0.0.1:{port}/postgres"
    finally:
        told("pg_ctl", "-D", str(data), "-m", "immediate", "-w", "stop")
