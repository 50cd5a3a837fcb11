"""An order that a process of its own carries out, and all that it loads and takes goes when it ends.

The process reads the order as JSON from its standard input and answers one line of JSON; what is ``refused`` ends
it with status 1.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.models.wheel import is_full
from engine.settings import environment

_POLL_S = 0.2
_SHOWN = 200


def check_package(needed: str, whose: str) -> None:
    """Refuse where a package that only some models need is missing.

    Args:
        needed: its name on the package index.
        whose: begins the sentence: what needs it, and what for.

    Raises:
        ModelError: how to get the package.
    """
    try:
        version(needed)
    except PackageNotFoundError:
        raise ModelError(
            f"{whose} is not installed: python -m pip install -r requirements-models.txt brings it."
        ) from None


def carried_out(
    module: str,
    order: Mapping[str, Any],
    failure: str,
    tell: Callable[[], None],
    limit_s: float | None = None,
) -> dict[str, Any]:
    """Return what a module answers to an order.

    Args:
        module: one that ends with ``sys.exit(answered(...))``.
        order: JSON values.
        failure: how the sentence begins that says what was refused.
        tell: called now and then while it goes on; what it raises ends the process.
        limit_s: seconds after which it is ended, None for none.

    Raises:
        ModelError: it refused.
        OSError: the disk is full.
    """
    with subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
        env=environment(secrets=False) | {"HF_HUB_OFFLINE": "1"},
    ) as process:
        try:
            answer = _answer(process, order, tell, limit_s)
        finally:
            process.kill()
    if process.returncode != 0 and is_full(answer):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if process.returncode != 0:
        refused = json.loads(answer)["refused"] if answer.strip() else "it ended before it was done"
        raise ModelError(f"{failure}: {refused}.")
    return json.loads(answer)


def _answer(
    process: subprocess.Popen[str],
    order: Mapping[str, Any],
    tell: Callable[[], None],
    limit_s: float | None,
) -> str:
    """Return what a process says that is given an order, nothing where it was ended."""
    given: str | None = json.dumps(order)
    until = None if limit_s is None else time.monotonic() + limit_s
    while True:
        try:
            return process.communicate(given, timeout=_POLL_S)[0]
        except subprocess.TimeoutExpired:
            given = None
            tell()
        if until is not None and time.monotonic() > until:
            process.kill()
            return process.communicate()[0]


def answered(act: Callable[[dict[str, Any]], Mapping[str, Any] | None]) -> int:
    """Carry out the order of the standard input; return the exit status.

    Args:
        act: is given the order and returns the answer; what it raises is refused in its first line.
    """
    order = json.loads(sys.stdin.read())
    try:
        # Libraries print what they like.
        with redirect_stdout(sys.stderr):
            answer = act(order) or {}
    except Exception as error:  # a file may break any rule of its format
        lines = str(error).strip().splitlines() or [type(error).__name__]
        said = lines[0]
        for place in order.values():
            if isinstance(place, str) and Path(place).is_absolute():
                said = said.replace(place, "the folder")
        print(json.dumps({"refused": said.rstrip(" .!")[:_SHOWN]}))  # noqa: T201 - the answer
        return 1
    print(json.dumps(answer))  # noqa: T201 - the answer
    return 0
