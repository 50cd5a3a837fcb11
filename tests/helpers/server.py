"""The playground as a visitor meets it: app.py in a process of its own, on a free port."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.helpers.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
_POLL_S = 0.2


@contextmanager
def playground(log: Path, port: int | None = None, **environ: str) -> Iterator[str]:
    """Serve until the block ends; yields the address.

    Leaving the block also tests the end: SIGTERM must be followed by status 0.

    Args:
        log: the file that takes what the server prints.
        port: where it listens; a free one for None.
        environ: variables beside those of this process.
    """
    port = port or free_port()
    # A client of a busy machine is slow to fetch what it has asked for.
    patient = {"PLAYGROUND_UNHEARD_S": str(PATIENCE_S)}
    own = {"PLAYGROUND_PORT": str(port), "OMP_NUM_THREADS": "1"}
    with log.open("w") as printed:
        process = subprocess.Popen(
            [sys.executable, "app.py"],
            cwd=ROOT,
            env={**os.environ, **patient, **own, **environ},
            stdout=printed,
            stderr=subprocess.STDOUT,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        _await_answer(url, process, log)
        yield url
        process.send_signal(signal.SIGTERM)
        status = process.wait(PATIENCE_S)
        assert status == 0, f"SIGTERM must end cleanly: {status}\n{log.read_text()[-2000:]}"
    finally:
        process.kill()
        process.wait()


def free_port() -> int:
    """Return a port of this machine that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _await_answer(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return as soon as the server answers; it says in its log why it does not."""
    given_up = time.monotonic() + PATIENCE_S
    while True:
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE_S):
                return
        except OSError:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < given_up, "the server does not answer"
            time.sleep(_POLL_S)
