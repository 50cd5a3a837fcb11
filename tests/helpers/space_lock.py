"""Writes pre-requirements.txt, the lock of a Space, and that of deploy: ``python -m tests.helpers.space_lock``.

A Space installs requirements.txt and packages of its own in one command, and pip wants a hash for all
of them or none. pre-requirements.txt it installs before that, by a command of its own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from packaging.utils import canonicalize_name

from tests.helpers import lock

LOCK = lock.ROOT / "pre-requirements.txt"
REQUIREMENTS = lock.ROOT / "requirements.txt"
IMAGES = lock.ROOT / "deploy" / "requirements.lock"
IN_IMAGES = (REQUIREMENTS, lock.ROOT / "requirements-cluster.txt")
PYTHON = "3.12"
TORCH = "torch<=2.11.0"
"""The newest that a ZeroGPU takes."""
UV = (sys.executable, "-m", "uv")
_LIMIT_S = 300
_HEAD = """\
# What a Space installs first, every file by its SHA-256: CPython {python} on Linux x86_64.
# Written by `make lock` from requirements.txt and from what a Space adds to it.
# Otherwise than in requirements-dev.lock, for {torch}: {others}
--only-binary :all:
"""


_HEAD_OF_IMAGES = """\
# What the images of deploy/ install, every file by its SHA-256: CPython {python} on Linux x86_64.
# Written by `make lock` from requirements.txt and requirements-cluster.txt.
"""


def asked_in_images() -> list[str]:
    """Return what the images of deploy/ install."""
    return [str(wanted) for path in IN_IMAGES for wanted in lock.requirements(path)]


def head_of_images(text: str) -> str:
    """Return how their lock begins."""
    del text
    return _HEAD_OF_IMAGES.format(python=PYTHON)


def asked() -> list[str]:
    """Return what is installed on a Space: what is required here, and what its own command adds."""
    front = (lock.ROOT / "README.md").read_text().split("---")[1]
    [sdk] = re.findall(r"^sdk_version: (\S+)$", front, re.MULTILINE)
    platform = (f"gradio[mcp,oauth]=={sdk}", "uvicorn>=0.14.0", "websockets>=10.4", "spaces", TORCH)
    return [*map(str, lock.requirements(REQUIREMENTS)), *platform]


def entries(text: str) -> dict[str, tuple[str, list[str]]]:
    """Return name -> (version, SHA-256 of its files) of what a lock with hashes names."""
    blocks = re.findall(r"^([\w.-]+)==(\S+)((?: \\\n +--hash=sha256:\w+)*)$", text, re.MULTILINE)
    return {name: (version, re.findall(r"sha256:(\w+)", rest)) for name, version, rest in blocks}


def head(text: str) -> str:
    """Return how a lock begins: what of it is not the version that the tests passed with."""
    tested = {canonicalize_name(w.name): str(w.specifier) for w in lock.requirements(lock.LOCK)}
    others = [
        f"{name}=={version}"
        for name, (version, _) in entries(text).items()
        if tested.get(name, f"=={version}") != f"=={version}"
    ]
    return _HEAD.format(python=PYTHON, torch=TORCH, others=", ".join(others) or "none")


def renew(
    path: Path = LOCK,
    uv: Sequence[str] = UV,
    wants: Callable[[], list[str]] = asked,
    begins: Callable[[str], str] = head,
) -> tuple[int, str]:
    """Resolve anew from metadata alone, without fetching a wheel, and write the lock.

    The versions in requirements-dev.lock are kept wherever the rest allows.

    Args:
        path: the lock; it stays as it is unless there is a new one.
        uv: the command that resolves.
        wants: returns what is asked for.
        begins: the lock -> its head.

    Returns:
        (exit status, sentence): 0 also where no index could be reached.
    """
    stays = f"{path.name} stays as it is:"
    if tuple(uv) == UV and find_spec("uv") is None:
        return 0, f"{stays} uv is not installed."
    with tempfile.TemporaryDirectory() as folder:
        wanted, found = Path(folder, "asked.txt"), Path(folder, "lock.txt")
        wanted.write_text("\n".join(wants()))
        # What stands in the file to be written is preferred.
        found.write_text(lock.LOCK.read_text())
        try:
            done = _resolve([*uv, *_arguments(wanted, found)])
        except subprocess.TimeoutExpired:
            return 0, f"{stays} the package index did not answer within {_LIMIT_S} s."
        text = found.read_text()
    if "Failed to fetch" in done.stderr:
        return 0, f"{stays} the package index could not be reached."
    if done.returncode:
        return 1, f"{stays} {' '.join(done.stderr.split())}"
    path.write_text(begins(text) + text)
    return 0, f"{path.name} names {len(entries(text))} packages."


def _arguments(wanted: Path, found: Path) -> list[str]:
    system = ("--python-version", PYTHON, "--python-platform", "x86_64-manylinux_2_31")
    shape = ("--only-binary", ":all:", "--generate-hashes", "--no-annotate", "--no-header")
    return ["pip", "compile", "--no-config", *system, *shape, str(wanted), "-o", str(found)]


def _resolve(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    environ = {"UV_HTTP_RETRIES": "1", **os.environ}
    return subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=_LIMIT_S, check=False
    )


if __name__ == "__main__":
    ends = [renew(), renew(IMAGES, wants=asked_in_images, begins=head_of_images)]
    sys.stdout.write("".join(f"{sentence}\n" for _, sentence in ends))
    sys.exit(max(status for status, _ in ends))
