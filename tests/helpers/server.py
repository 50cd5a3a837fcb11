"""The playground as a visitor meets it: app.py in a process of its own, on a free port."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from tests.helpers.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
_POLL_S = 0.2


@contextmanager
def playground(log: Path, port: int | None = None, **limits: Any) -> Iterator[str]:
    """Serve until the block ends; yields the address.

    Leaving the block also tests the end: SIGTERM must be followed by status 0.

    Args:
        log: the file that takes what the server prints.
        port: where it listens; a free one for None.
        limits: as of ``process``.
    """
    with process(log, port=port, **limits) as (url, served):
        yield url
        served.send_signal(signal.SIGTERM)
        status = _ended(served)
        assert status == 0, f"SIGTERM must end cleanly: {status}\n{log.read_text()[-9000:]}"


@contextmanager
def process(
    log: Path,
    command: Sequence[str] = ("app.py",),
    port: int | None = None,
    folder: Path = ROOT,
    python: str | Path = sys.executable,
    **limits: Any,
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Serve in a process of its own; yields the address and the process, which is killed at the end.

    Args:
        log: the file that takes what the server prints.
        command: what Python is given to run.
        port: where it listens; a free one for None.
        folder: where it runs.
        python: the Python that runs it.
        limits: settings by the names of ``engine.settings``, in place of those of the environment.
    """
    port = port or free_port()
    # A client of a busy machine is slow to fetch what it has asked for.
    # What was brought to the machine is on offer in no test that does not say so.
    limits = {"unheard_s": PATIENCE_S, "journal": "", "models": log.parent, **limits, "port": port}
    own = {f"PLAYGROUND_{name.upper()}": str(value) for name, value in limits.items()}
    with log.open("w") as printed:
        served = subprocess.Popen(
            [python, *command],
            cwd=folder,
            env={**os.environ, **own, "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"},
            stdout=printed,
            stderr=subprocess.STDOUT,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        await_answer(url, served, log)
        yield url, served
    finally:
        served.kill()
        served.wait()


def _ended(served: subprocess.Popen[bytes]) -> int:
    """Return the status a process ends with; one that does not end says in its log where it hangs."""
    try:
        return served.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        served.send_signal(signal.SIGABRT)
        return served.wait(PATIENCE_S)


def free_port() -> int:
    """Return a port of this machine that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def await_answer(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return as soon as the server answers, however long it computes before.

    One that neither answers nor computes hangs, and its log says where. On a machine that others keep
    busy, a server needs minutes for the imports that take seconds on a quiet one.
    """
    computed, given_up = 0.0, time.monotonic() + PATIENCE_S
    while True:
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE_S):
                return
        except OSError:
            assert process.poll() is None, log.read_text()
        used = psutil.Process(process.pid).cpu_times()
        if used.user + used.system > computed:
            computed, given_up = used.user + used.system, time.monotonic() + PATIENCE_S
        assert time.monotonic() < given_up, "the server neither answers nor computes"
        time.sleep(_POLL_S)
