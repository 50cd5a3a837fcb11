"""Writes requirements-dev.lock: ``python -m tests.helpers.lock``, after all tests have passed.

It names the versions that are installed here, of what the requirements ask for and of nothing else.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
ASKED = (
    "requirements.txt",
    "requirements-models.txt",
    "requirements-openvino.txt",
    "requirements-notebook.txt",
    "requirements-dev.txt",
)
LOCK = ROOT / "requirements-dev.lock"
RANGES = ("torch",)
"""What keeps its range: the wheel for CPUs has a version of its own on an index of its own."""
_HEAD = """\
# The versions that all tests passed with, for development: pip install -r requirements-dev.lock
# Written by `make lock` with CPython {python} on {system}; other systems may need other packages.
# torch keeps its range, so that its wheel for CPUs fits as well.
"""


def requirements(path: Path) -> Iterator[Requirement]:
    """Yield what a file of requirements asks for; included files, hashes and comments apart."""
    for line in path.read_text().splitlines():
        text = line.split("#")[0].strip(" \\")
        if text and not text.startswith("-"):
            yield Requirement(text)


def asked() -> list[Requirement]:
    """Return what all files of requirements ask for."""
    return [wanted for name in ASKED for wanted in requirements(ROOT / name)]


def needs(wanted: Requirement, elsewhere: Mapping[str, str] | None = None) -> Iterator[Requirement]:
    """Yield what an installed package needs, with the extras it was asked for with.

    Args:
        wanted: names the package and its extras.
        elsewhere: markers of another system than this, such as its ``python_version``.
    """
    for text in distribution(wanted.name).requires or ():
        needed = Requirement(text)
        extras = ("", *wanted.extras)
        if needed.marker is None or any(
            needed.marker.evaluate({**(elsewhere or {}), "extra": e}) for e in extras
        ):
            yield needed


def closure(
    asked_for: Iterable[Requirement],
    elsewhere: Mapping[str, str] | None = None,
    follow: Callable[[Requirement], bool] = lambda wanted: True,
) -> Iterator[Requirement]:
    """Yield what is asked for, what that needs, and so on, whichever range asks for it.

    Args:
        asked_for: where to begin.
        elsewhere: markers of another system than this.
        follow: whether to look at what a package needs; it must be installed.
    """
    seen: set[str] = set()
    waiting = list(asked_for)
    while waiting:
        wanted = waiting.pop()
        yield wanted
        key = f"{canonicalize_name(wanted.name)}[{','.join(sorted(wanted.extras))}]"
        if key not in seen and follow(wanted):
            waiting += needs(wanted, elsewhere)
        seen.add(key)


def locked() -> str:
    """Return the lock file for what is installed here."""
    ranges = {canonicalize_name(w.name): w for w in asked() if w.name in RANGES}
    names = {canonicalize_name(wanted.name) for wanted in closure(asked())}
    found = {n: str(ranges[n]) if n in ranges else f"{n}=={_version(n)}" for n in names}
    return head() + "".join(f"{found[name]}\n" for name in sorted(found))


def head() -> str:
    """Return how a lock file begins that is written by this Python on this system."""
    python = ".".join(platform.python_version_tuple()[:2])
    return _HEAD.format(python=python, system=f"{platform.system()} {platform.machine()}")


def _version(name: str) -> str:
    return distribution(name).version


if __name__ == "__main__":
    LOCK.write_text(locked())
