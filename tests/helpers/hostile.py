"""What nobody may leave behind who runs a hostile method, and what nobody may have changed."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from engine.models.loading import load
from engine.sandbox.sandbox_parent import SandboxProcess
from tests.helpers.methods import job, run_method, write_method

MARK = "left-by-a-method"
"""In the name of whatever a hostile method makes outside."""
KEY = 0x5EED1234
"""Of the System V memory, queues and semaphores that it makes."""


@contextmanager
def nothing_left(own: Path, monkeypatch: Any) -> Iterator[list[Any]]:
    """Hold a block that runs methods to leaving no process, file or shared memory, and the model as it was.

    Args:
        own: an empty folder in which temporary files are made meanwhile.
        monkeypatch: of the test.

    Yields:
        The processes that were started.
    """
    before = fingerprint()
    monkeypatch.setattr(tempfile, "tempdir", str(own))
    started: list[Any] = []
    start = SandboxProcess._start

    def noted(self: SandboxProcess) -> Any:
        process = start(self)
        started.append(process)
        return process

    monkeypatch.setattr(SandboxProcess, "_start", noted)
    yield started
    assert all(process.returncode is not None for process in started)
    assert working_in(own) == []
    assert list(own.iterdir()) == []
    assert shared_memory() == []
    assert fingerprint() == before


def fingerprint() -> str:
    """Return a hash of every parameter of the Storyteller in this process and of what it makes of a prompt."""
    model = load("storyteller").model
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode() + value.contiguous().numpy().tobytes())
    ids = torch.tensor([[5, 9, 20, 33]])
    with torch.no_grad():
        for _ in range(6):
            logits = model(input_ids=ids).logits
            digest.update(logits.softmax(-1).numpy().tobytes())
            ids = torch.cat([ids, logits[:, -1].argmax(-1, keepdim=True)], -1)
    return digest.hexdigest() + str(ids.tolist())


def working_in(folder: Path) -> list[str]:
    """Return the processes whose working directory is in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            place = os.readlink(process / "cwd")
        except OSError:
            continue
        if Path(place).is_relative_to(folder):
            found.append(process.name)
    return found


def shared_memory() -> list[str]:
    """Return what a hostile method has left in memory that outlives its process."""
    shm = Path("/dev/shm")
    found = [path.name for path in shm.iterdir() if MARK in path.name] if shm.is_dir() else []
    for kind in ("shm", "sem", "msg"):
        table = Path("/proc/sysvipc", kind)
        lines = table.read_text().splitlines()[1:] if table.is_file() else []
        found += [kind for line in lines if int(line.split()[0]) == KEY]
    return found


def run_act(folder: Path, act: str, process: SandboxProcess | None = None) -> Any:
    """Run a method whose generate() is one line, on a small prompt; see ``run_method``.

    Args:
        folder: in which its files are written.
        act: may use ctypes, os, sys, threading, time and libc, and it may import more.
        process: where it runs; a new one with its model where it is left out.
    """
    source = (
        "import ctypes, os, sys, threading, time\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        f"def generate(model, input_ids, **kwargs):\n    {act}\n    return input_ids\n"
    )
    return run_method(write_method(folder, source), job([[5, 9, 20, 33]]), process)
