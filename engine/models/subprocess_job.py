"""Run a job in a subprocess: it can be killed at any time, and all its memory is freed when it ends.

The subprocess gets the job as JSON in its argument and writes lines of JSON: any number of progress
messages, and last its ``answer``, ``refused`` with the message of a ModelError, or ``failed`` with that of
another exception. It ends with its parent.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Any

from engine.errors import ModelError
from engine.messages import restore_templates, to_json
from engine.models.disk_space import is_disk_full
from engine.program import install_command
from engine.settings import child_environment

_POLL_S = 0.05
_MAX_SHOWN = 200
_LAST = ("answer", "refused", "failed")
"""Fields of the last message of a job."""
_LOG = logging.getLogger("engine")
_messages = 1
"""The pipe to the parent process."""
DOWNLOAD_NICENESS = 10
"""By how much the priority of a process that asks the hub is lowered."""


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
            "{whose} is not installed: {command} brings it.",
            whose=whose,
            command=install_command("models"),
        ) from None


def run_job(
    module: str,
    order: Mapping[str, object],
    report: Callable[[Mapping[str, Any]], object] = lambda message: None,
    *,
    failure: str | None = None,
    ended: str = "it ended before it was done",
    limit_s: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Run a module as a subprocess and return its answer.

    Args:
        module: a module that calls ``handle_job``.
        order: the job, as JSON values.
        report: called with each progress message, and with an empty one every 0.05 s without any; an
            exception from it ends the process.
        failure: start of the error sentence; None if the job refuses with sentences.
        ended: the reason if the process was killed, or failed without ``failure``.
        limit_s: time limit in seconds, None for no limit.
        environment: environment variables; None is this process's without secrets and the hub.

    Raises:
        ModelError: the job refused, failed or ended before it was done.
        OSError: the disk is full.
        TimeoutError: the time limit was reached.
    """
    with subprocess.Popen(
        [sys.executable, "-m", module, json.dumps(order)],
        # Nothing is written to it: it closes when this process ends, see _exit_with_parent.
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
        env=environment or child_environment(secrets=False) | {"HF_HUB_OFFLINE": "1"},
    ) as process:
        assert process.stdout is not None
        lines: SimpleQueue[str] = SimpleQueue()
        reader = threading.Thread(target=_read_lines, args=(process.stdout, lines))
        reader.start()
        try:
            last = _wait_for_answer(lines, report, limit_s)
        finally:
            # Also after an answer: nothing in the process may keep it alive.
            process.kill()
            reader.join()
    if "answer" in last:
        return last["answer"]
    reason = last.get("refused", ended)
    if "failed" in last:
        _LOG.error("%s: %s", module, last["failed"])
        reason = reason if failure is None else last["failed"]
    if is_disk_full(reason):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if failure is None:
        raise ModelError(reason)
    # A refusal is a whole sentence, the end of a process only a part of one.
    template = "{failure}: {why}" if reason.endswith(".") else "{failure}: {why}."
    raise ModelError(template, failure=failure, why=reason)


def _wait_for_answer(
    lines: SimpleQueue[str],
    report: Callable[[Mapping[str, Any]], object],
    limit_s: float | None,
) -> Mapping[str, Any]:
    """Report a job's progress and return its last message, empty if the process was killed.

    Raises:
        TimeoutError: the time limit was reached.
    """
    until = None if limit_s is None else time.monotonic() + limit_s
    while until is None or time.monotonic() < until:
        try:
            line = lines.get(timeout=_POLL_S)
        except Empty:
            report({})
            continue
        message = restore_templates(json.loads(line or "{}"))
        if not line or not message.keys().isdisjoint(_LAST):
            return message
        report(message)
    raise TimeoutError


def _read_lines(output: IO[str], lines: SimpleQueue[str]) -> None:
    """Pass on a process's lines, and an empty one when it has ended."""
    # In a separate thread, since a blocked read notices neither a time limit nor a caller who leaves.
    for line in output:
        lines.put(line)
    lines.put("")


def handle_job(
    act: Callable[[dict[str, Any]], Mapping[str, Any] | None], niceness: int = 0
) -> None:
    """Run this process's job and write its answer.

    Args:
        act: takes the job and returns the answer.
        niceness: by how much the process priority is lowered.
    """
    global _messages  # noqa: PLW0603 - of this process, which does one job
    # Libraries print, also from C: only messages may reach the pipe.
    _messages = os.dup(1)
    os.dup2(2, 1)
    if hasattr(os, "nice"):
        os.nice(niceness)
    order = json.loads(sys.argv[1])
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    try:
        answer = act(order) or {}
    except ModelError as error:
        write_message(refused=_hide_places(str(error), order))
    except Exception as error:  # a file may break any rule of its format
        lines = str(error).strip().splitlines() or [type(error).__name__]
        write_message(failed=_hide_places(lines[0], order).rstrip(" .!")[:_MAX_SHOWN])
    else:
        write_message(answer=answer)


def _exit_with_parent() -> None:
    """Wait until the parent is gone, also if it was killed, and end this process."""
    # Not sys.stdin.read(): Python aborts if a thread still holds the lock of a stream at exit.
    os.read(0, 1)
    os._exit(1)


def _hide_places(text: str, order: Mapping[str, Any]) -> str:
    """Return a reason without paths of this machine, which must not reach a visitor."""
    for place in order.values():
        if isinstance(place, str) and place in text and Path(place).is_absolute():
            text = text.replace(place, "the folder")
    return text


def write_message(**message: Any) -> None:
    """Write a message to the parent process."""
    # One write for each line, so that lines of two threads do not mix.
    os.write(_messages, f"{to_json(message)}\n".encode())
