"""Warm processes with limits on time and memory, for programs that strangers send; see ``bounded_job``."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.settings import child_environment

_MAX_PROCESSES = 2
"""A job that takes all of its time keeps one of them; the other one answers the other jobs."""
_MAX_MEMORY_BYTES = 64_000_000
"""Memory of a process in addition to that of its imports."""


class _BoundedProcess:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "engine.models.bounded_job", str(_MAX_MEMORY_BYTES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=Path(__file__).resolve().parents[2],
            env=child_environment(secrets=False) | {"HF_HUB_OFFLINE": "1"},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def run(self, job: Mapping[str, object]) -> dict[str, Any]:
        self._stdin.write(json.dumps(job).encode() + b"\n")
        self._stdin.flush()
        if line := self._stdout.readline():
            return json.loads(line)
        # No answer: its own timer ended the process, or it ran out of memory.
        if self._process.wait() == -signal.SIGALRM:
            raise TimeoutError
        raise MemoryError

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._stdin.close()
        self._stdout.close()


class _BoundedProcesses:
    """The processes; its methods are safe to call from any thread."""

    def __init__(self) -> None:
        self._slots = threading.BoundedSemaphore(_MAX_PROCESSES)
        self._idle: list[_BoundedProcess] = []

    def run(self, job: Mapping[str, object]) -> dict[str, Any]:
        with self._slots:
            process = self._take_idle() or _BoundedProcess()
            try:
                answer = process.run(job)
            except BaseException:
                # Its late answer would be taken for that of the next job.
                process.close()
                raise
            self._idle.append(process)
            return answer

    def close(self) -> None:
        """End the idle processes."""
        while self._idle:
            self._idle.pop().close()

    def _take_idle(self) -> _BoundedProcess | None:
        while self._idle:
            process = self._idle.pop()
            if process.is_alive:
                return process
            process.close()
        return None


_PROCESSES = _BoundedProcesses()
atexit.register(_PROCESSES.close)
# A fork shares the pipes of its parent's processes and would mix up their answers.
os.register_at_fork(after_in_child=_PROCESSES.__init__)


def render_template(
    messages: object, arguments: Mapping[str, object], limit_s: float, most_chars: int
) -> dict[str, Any]:
    """Render messages; return the ``text``, its ``length`` if too long, or the ``refused`` reason.

    Args:
        messages: JSON values.
        arguments: other arguments of transformers' ``render_jinja_template``, as JSON values.
        limit_s: most seconds.
        most_chars: most characters of the text.

    Raises:
        TimeoutError: the template takes longer.
        MemoryError: the template takes more than 64 MB.
    """
    job = {"messages": messages, "arguments": dict(arguments)}
    return _PROCESSES.run(job | {"limit_s": limit_s, "most_chars": most_chars})


def compile_grammar(spec: Mapping[str, object], limit_s: float) -> dict[str, Any]:
    """Compile ``structured_outputs``; return its ``grammar``, or the reason why it is ``refused``.

    Args:
        spec: its value in normal form.
        limit_s: most seconds.

    Raises:
        TimeoutError: it takes longer.
        MemoryError: it takes more than 64 MB.
    """
    return _PROCESSES.run({"spec": dict(spec), "limit_s": limit_s})
