"""Downloads from the hub: one subprocess per model, with a time limit and a disk limit.

Callers that want the same model wait for one download. Its process is killed when nobody waits or the
time is over; partial files stay for the next attempt (``partial_downloads``).
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from huggingface_hub import constants

from engine.errors import ModelError
from engine.messages import Message
from engine.models import memory_budget
from engine.models.partial_downloads import FOLDER, folder_bytes, remove_old_parts
from engine.models.shared_work import ByteProgress, SharedWork
from engine.models.subprocess_job import run_job
from engine.settings import SETTINGS, child_environment
from engine.sources.hub_cache import repository_folder, split_revision
from engine.sources.source import Hub

PROBE_S = 5
"""Longest wait for the hub's first answer, in seconds."""
SILENCE_S = 20
"""Longest pause during a download, in seconds."""
_RESERVED_BYTES = 1_000_000_000
"""Disk space that downloads leave free for other programs."""
_DOWNLOADS = SharedWork()
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
    # Refused here if the hub is switched off: a download takes a slot and tidies the cache.
    work, most = partial(_download, name, hub_environment(name)), SETTINGS.max_downloads
    busy = Message("{n} models are being fetched already; try again in a moment.", n=most)
    return _DOWNLOADS.run(name, work, cancelled, tell, most, busy)


def _download(name: str, environment: dict[str, str], report: ByteProgress) -> tuple[str, str]:
    """Download a model in a subprocess; return its folder and commit."""
    progress = {"got": 0, "total": 0}

    def report_bytes(message: Mapping[str, Any]) -> None:
        progress.update(message)
        report(progress["got"], progress["total"])

    try:
        answer = run_job(
            "engine.models.hub_download_job",
            build_hub_order(name),
            report_bytes,
            ended=Message("{name} could not be fetched; try again later.", name=name),
            limit_s=SETTINGS.load_timeout_s,
            environment=environment,
        )
    except TimeoutError:
        raise ModelError(
            "{name} did not arrive within {s} s. The partial download is kept, and the next "
            "try continues it.",
            name=name,
            s=f"{SETTINGS.load_timeout_s:g}",
        ) from None
    finally:
        _tidy_cache(name)
    return answer["folder"], answer["revision"]


def _tidy_cache(name: str) -> None:
    """Remove old partial files, and on a public Space old models, after a download of a model."""
    cache = Path(constants.HF_HUB_CACHE)
    # Under the lock no download can begin meanwhile. This one has ended, but counts as active until
    # its callers have their answer.
    with _DOWNLOADS.lock:
        busy = [repository_folder(cache, other) for other in _DOWNLOADS.active if other != name]
        kept = remove_old_parts(cache, busy, SETTINGS.max_parts_gb * 1e9, SETTINGS.parts_age_s)
    if SETTINGS.public:
        _evict_cached_models(cache, name, kept)


def hub_environment(name: str) -> dict[str, str]:
    """Return the environment of a subprocess that asks the hub about a model.

    Raises:
        ModelError: the hub is switched off.
    """
    if os.environ.get("HF_HUB_OFFLINE") == "1":
        raise ModelError("{name} is not on this machine and the hub is switched off.", name=name)
    # Visitors of a public deployment must not use the owner's token.
    token = not SETTINGS.public
    return child_environment(secrets=token) | {
        "HF_ENDPOINT": constants.ENDPOINT,
        "HF_HUB_CACHE": constants.HF_HUB_CACHE,
        "HF_HUB_ETAG_TIMEOUT": str(PROBE_S),
        "HF_HUB_DOWNLOAD_TIMEOUT": str(SILENCE_S),
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        # Xet cannot resume: it would start every file from zero.
        "HF_HUB_DISABLE_XET": "1",
        **({} if token else {"HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}),
    }


def build_hub_order(name: str) -> dict[str, Any]:
    """Build the job for a subprocess that asks the hub about a model."""
    cache = Path(constants.HF_HUB_CACHE)
    return {"name": name, "most_bytes": _available_bytes(cache, name)}


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


def _available_bytes(cache: Path, name: str) -> int:
    """Return the most bytes a model's files may have, including partial files of earlier attempts."""
    own = repository_folder(cache, name)
    # The cache may not exist before the first download, and only an existing folder has a disk.
    there = next(folder for folder in (cache, *cache.parents) if folder.exists())
    free = shutil.disk_usage(there).free - _RESERVED_BYTES + folder_bytes(own / FOLDER)
    return max(0, min(free, int(SETTINGS.max_model_files_gb * 1e9)))
