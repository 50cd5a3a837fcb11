"""What stands beside every figure: the goal it has, the machine, the versions and the code."""

from __future__ import annotations

import os
import platform
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[1]
_PACKAGES = ("gradio", "openvino", "torch", "transformers")


@dataclass(frozen=True)
class Goal:
    """What a figure is to be: at most a limit, or at least it."""

    limit: float
    at_least: bool = False
    of_speed: bool = False
    """Whether a busy machine alone can miss it; such a goal is reported and does not fail the programme."""

    def met(self, figure: float | None) -> bool:
        """Return whether a figure reaches the goal; what was not measured does not."""
        if figure is None:
            return False
        return figure >= self.limit if self.at_least else figure <= self.limit

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.limit:g}" if self.limit else "0"


def machine() -> dict[str, Any]:
    """Return what is known of the machine now; nothing that names it."""
    return {
        "system": platform.system(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "load_average": [round(value, 1) for value in os.getloadavg()],
    }


def versions() -> dict[str, str]:
    """Return the versions of what the figures depend on."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def now() -> str:
    """Return the time of day in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def commit() -> str:
    """Return the commit of the code that is measured; ``+`` says that something is not committed."""
    try:
        found = _git("rev-parse", "--short=12", "HEAD")
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", ":!docs", ":!assets")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found + ("+" if changed else "")


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()
