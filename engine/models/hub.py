"""Downloads from the hub: one subprocess per model, with a time limit and a disk limit.

A download holds no lock that a run needs. Callers that want the same model wait for one download. Its
process is killed when nobody waits or the time is over; partial large files stay for the next attempt
(``parts``).
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.errors import BusyError, Cancelled, ModelError
from engine.messages import Message
from engine.models import memory_budget, partial_downloads
from engine.settings import SETTINGS, child_environment
from engine.sources.hub_cache import has_complete_snapshot, repository_folder, split_revision
from engine.sources.source import Hub

ByteProgress = Callable[[int, int], None]
"""Called with the bytes received and the total bytes (0 if not known yet)."""
PROBE_S = 5.0
"""Longest wait for the hub's first answer, in seconds."""
SILENCE_S = 20
"""Longest pause during a download, in seconds."""
_POLL_S = 0.05
_RESERVED_BYTES = 1_000_000_000
"""Disk space that downloads leave free for other programs."""
_LOG = logging.getLogger("engine")


def fetch_snapshot(
    source: Hub, cancelled: threading.Event | None = None, tell: ByteProgress | None = None
) -> tuple[str, str]:
    """Return the folder and commit of a hub model; download it first if needed.

    Args:
        source: the repository.
        cancelled: waiting ends when this is set.
        tell: called with the download's progress.

    Raises:
        BusyError: too many downloads are running.
        Cancelled: ``cancelled`` was set.
        ModelError: the model is not allowed here or cannot be fetched.
    """
    source.check_offered()
    found, name = source.snapshot(), source.name
    if found is not None:
        return found, Path(found).name
    if os.environ.get("HF_HUB_OFFLINE") == "1":
        raise ModelError("{name} is not on this machine and the hub is switched off.", name=name)
    with _lock:
        download = _ACTIVE_DOWNLOADS.get(name)
        if download is None:
            if len(_ACTIVE_DOWNLOADS) >= SETTINGS.max_downloads:
                raise BusyError(
                    "{n} models are being fetched already; try again in a moment.",
                    n=len(_ACTIVE_DOWNLOADS),
                )
            download = _ACTIVE_DOWNLOADS[name] = _Download(name)
        download.waiting += 1
    try:
        return download.wait(cancelled or threading.Event(), tell or (lambda got, total: None))
    finally:
        with _lock:
            download.waiting -= 1
            if not download.waiting:
                download.end()


class _Download:
    """A running download in a subprocess."""

    def __init__(self, name: str) -> None:
        self.name, self.waiting = name, 0
        self.got, self.total = 0, 0
        self.answer: dict[str, Any] | None = None
        self.over = threading.Event()
        self.until = time.monotonic() + SETTINGS.load_timeout_s
        order = build_hub_order(name)
        self.cache = Path(order["cache"])
        self.folder = repository_folder(order["cache"], name)
        # Revisions share this folder: a failed download must not remove those that were here before.
        self.known = not partial_downloads.has_only_parts(self.folder)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "engine.models.hub_download_job"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=Path(__file__).resolve().parents[2],
            env=child_environment(secrets=not SETTINGS.public),
        )
        threading.Thread(target=self._read, args=(order,), daemon=True).start()

    def wait(self, cancelled: threading.Event, tell: ByteProgress) -> tuple[str, str]:
        """Wait for the download; return folder and commit, see ``fetch_snapshot``."""
        told = None
        while not self.over.wait(_POLL_S):
            if cancelled.is_set():
                raise Cancelled
            if time.monotonic() > self.until:
                raise ModelError(
                    "{name} did not come within {s} s; what came of it is kept, and the next try "
                    "goes on from there.",
                    name=self.name,
                    s=f"{SETTINGS.load_timeout_s:g}",
                )
            if told != (self.got, self.total):
                told = self.got, self.total
                tell(*told)
        answer = self.answer or {}
        if "folder" in answer:
            return answer["folder"], answer["revision"]
        raise ModelError(
            answer.get("refused")
            or Message("{name} could not be fetched; try again later.", name=self.name)
        )

    def end(self) -> None:
        """Unregister the download and kill its process."""
        if _ACTIVE_DOWNLOADS.get(self.name) is self:
            del _ACTIVE_DOWNLOADS[self.name]
        self.process.kill()

    def _read(self, order: dict[str, Any]) -> None:
        try:
            with self.process as process:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(json.dumps(order))
                process.stdin.close()
                for line in process.stdout:
                    self._handle_message(json.loads(line))
        except (OSError, ValueError):  # the process was killed
            pass
        finally:
            self._clean_up()
            self.over.set()

    def _clean_up(self) -> None:
        """Remove what cannot be used, and partial files beyond their disk limit."""
        with _lock:
            if "folder" not in (self.answer or {}) and self._is_alone():
                # Otherwise a refused or interrupted model would be found as a local one.
                partial_downloads.remove_all_but_parts(self.folder)
            busy = [d.folder for d in _ACTIVE_DOWNLOADS.values() if d is not self]
            most, age_s = SETTINGS.max_parts_gb * 1e9, SETTINGS.parts_age_s
            kept = partial_downloads.remove_old_parts(self.cache, busy, most, age_s)
        if SETTINGS.public:
            _evict_cached_models(self.cache, self.name, kept)

    def _is_alone(self) -> bool:
        """Return True if no other revision of the repository is in the cache or being downloaded."""
        others = [
            d for d in _ACTIVE_DOWNLOADS.values() if d is not self and d.folder == self.folder
        ]
        return not (self.known or others or has_complete_snapshot(self.folder))

    def _handle_message(self, message: dict[str, Any]) -> None:
        self.total = message.get("total", self.total)
        self.got = message.get("got", self.got)
        if "failed" in message:
            _LOG.error("%s could not be fetched: %s", self.name, message["failed"])
        if "folder" in message or "refused" in message:
            self.answer = message


_ACTIVE_DOWNLOADS: dict[str, _Download] = {}
_lock = threading.Lock()


def stop_downloads() -> None:
    """Kill all running downloads, at shutdown."""
    with _lock:
        for download in list(_ACTIVE_DOWNLOADS.values()):
            download.end()


def build_hub_order(name: str) -> dict[str, Any]:
    """Build the job for a subprocess that asks the hub about a model."""
    from huggingface_hub import constants

    cache = Path(constants.HF_HUB_CACHE)
    return {
        "name": name,
        "endpoint": constants.ENDPOINT,
        "cache": str(cache),
        "probe_s": PROBE_S,
        "silence_s": SILENCE_S,
        "most_bytes": _available_bytes(cache, repository_folder(cache, name)),
        # Visitors of a public deployment must not use the owner's token.
        "token": not SETTINGS.public,
    }


def _evict_cached_models(cache: Path, name: str, kept: int) -> None:
    """Evict the least recently used models from the hub's cache until it is within its budget.

    Only on a public Space: elsewhere other programs of the owner use the same cache.

    Args:
        cache: the hub's cache folder.
        name: the model just downloaded, which stays.
        kept: bytes of partial files.
    """
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        found = scan_cache_dir(cache)
        used = found.size_on_disk + kept
        for repo in sorted(found.repos, key=lambda repo: repo.last_accessed):
            if used <= SETTINGS.max_hub_gb * 1e9:
                return
            if repo.repo_id != split_revision(name)[0]:
                # A loaded model keeps working: its files stay open.
                shutil.rmtree(repo.repo_path, ignore_errors=True)
                used -= repo.size_on_disk
                memory_budget.record_eviction(repo.repo_id, "disk", name)
    except (CacheNotFound, OSError, ValueError) as error:
        _LOG.error("the hub's cache could not be tidied: %s", type(error).__name__)


def _available_bytes(cache: Path, own: Path) -> int:
    """Return the most bytes a model's files may have, including partial files of earlier attempts."""
    there = next(folder for folder in (cache, *cache.parents) if folder.exists())
    free = (
        shutil.disk_usage(there).free
        - _RESERVED_BYTES
        + partial_downloads.folder_bytes(own / partial_downloads.FOLDER)
    )
    return max(0, min(free, int(SETTINGS.max_model_files_gb * 1e9)))
