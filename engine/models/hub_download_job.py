"""Subprocess that downloads one model from the hub.

Large files resume where an earlier attempt ended (``partial_downloads``). Every file must match its
announced hash. It writes progress messages with ``total`` and ``got`` bytes, and answers with ``folder``
and ``revision``. It imports neither torch nor visitors' code.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from huggingface_hub import HfApi, constants, hf_hub_url, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import build_hf_headers

from engine.errors import ModelError
from engine.models import files, partial_downloads, sizes
from engine.models.disk_space import DISK_FULL_ERRNOS, no_space_message
from engine.models.hashes import git_hash_of, sha256_of
from engine.models.partial_downloads import FOLDER, LargeFile, folder_bytes
from engine.models.subprocess_job import DOWNLOAD_NICENESS, handle_job, write_message
from engine.sources.hub_cache import DOWNLOAD_PATTERNS, repository_folder, split_revision
from engine.sources.lora_adapters import (
    CONFIG,
    check_merge_allowed,
    check_weights,
    has_adapter_files,
    read_adapter,
)

if TYPE_CHECKING:
    from huggingface_hub.hf_api import RepoSibling

_REPORT_INTERVAL_S = 0.3
_UNAUTHORISED = 401
_CHUNK_BYTES = 1 << 20
"""Bytes per write; at most this much is lost on a break. huggingface_hub's default is ten times as large."""


def _download_snapshot(order: dict[str, Any]) -> dict[str, str]:
    """Download a snapshot; return its folder and commit."""
    name = order["name"]
    own = repository_folder(constants.HF_HUB_CACHE, name)
    repository, requested = split_revision(name)
    constants.DOWNLOAD_CHUNK_SIZE = _CHUNK_BYTES
    with hub_errors(name, own):
        siblings = fetch_model_info(name).siblings or ()
        total, weights = count_download_bytes(siblings)
        wanted_files = _list_wanted_files(siblings)
        if not any(file.rfilename.endswith(".safetensors") for file in wanted_files):
            raise ModelError(files.NO_WEIGHTS_MESSAGE)
        if total > order["most_bytes"]:
            raise ModelError(no_space_message(name, total, order["most_bytes"]))
        _report_bytes(own, wanted_files, total)
        # The small files are checked before anything large is fetched. Requesting them by branch makes
        # the cache record the commit, so the model is found later without the hub.
        small = {file.rfilename for file in wanted_files if not file.lfs} | {"config.json", CONFIG}
        patterns = [escape(path) for path in small]
        folder = snapshot_download(repository, revision=requested, allow_patterns=patterns)
        check_hashes(Path(folder), wanted_files)
        _check_configuration(name, folder, weights)
        revision = Path(folder).name
        large = {
            hf_hub_url(repository, file.rfilename, revision=revision): LargeFile(
                file.rfilename, file.lfs.size, file.lfs.sha256
            )
            for file in wanted_files
            if file.lfs
        }
        partial_downloads.complete_downloads(own, large, build_hf_headers())
        # Only now, since a folder with all its weights counts as a complete model.
        snapshot_download(repository, revision=revision, allow_patterns=DOWNLOAD_PATTERNS)
        if has_adapter_files(folder):
            check_weights(name, folder)
        else:
            files.check_folder(folder)
    return {"folder": folder, "revision": revision}


def fetch_model_info(name: str) -> Any:
    """Return what the hub says of a model: its files with sizes and hashes, its commit and its card."""
    repository, revision = split_revision(name)
    timeout = constants.HF_HUB_ETAG_TIMEOUT
    return HfApi().model_info(repository, revision=revision, timeout=timeout, files_metadata=True)


def _check_configuration(name: str, folder: str, weights_bytes: int) -> None:
    """Raise ModelError if the configuration asks for more than a model or an adapter may."""
    if has_adapter_files(folder):
        check_merge_allowed(name)
        read_adapter(name, folder)
    else:
        # A value takes at least half a byte, so twice the bytes bound the number of values.
        sizes.check_sizes(files.check_config(folder), 2 * weights_bytes)


def _report_bytes(own: Path, wanted_files: list[Any], total: int) -> None:
    """Begin to report the bytes downloaded so far, including those of earlier attempts."""
    names = {file.lfs.sha256 if file.lfs else file.blob_id for file in wanted_files}
    write_message(total=total)

    def report() -> None:
        while True:
            time.sleep(_REPORT_INTERVAL_S)
            write_message(got=sum(folder_bytes(own / place, names) for place in ("blobs", FOLDER)))

    threading.Thread(target=report, daemon=True).start()


def check_hashes(folder: Path, listed: Iterable[RepoSibling]) -> None:
    """Compare downloaded files with the hashes that the hub announced.

    Args:
        folder: where they were downloaded to.
        listed: the hub's listing of them; those that are not there yet are skipped.

    Raises:
        ModelError: naming the first file that differs; that file is removed.
    """
    for file in listed:
        path = folder / file.rfilename
        announced, hash_of = (
            (file.lfs.sha256, sha256_of) if file.lfs else (file.blob_id, git_hash_of)
        )
        if announced and path.is_file() and hash_of(path) != announced:
            # The file in blobs and the link to it, so that the next try fetches it again.
            path.resolve().unlink()
            path.unlink(missing_ok=True)
            raise ModelError(partial_downloads.wrong_hash_message(file.rfilename))


@contextmanager
def hub_errors(
    name: str, own: Path | None = None, still: str = "embedded models still work"
) -> Iterator[None]:
    """Turn any hub or network error of a block into a one-sentence ModelError.

    Args:
        name: the requested model.
        own: its folder in the hub's cache, which may hold partial downloads.
        still: what works without the hub, for the sentence.

    Raises:
        ModelError: why the model cannot be fetched.
    """
    repository, revision = split_revision(name)

    # The base class is an error of the hub's HTTP library, which has changed between versions.
    unreachable: Any = HfHubHTTPError.__bases__[0]
    try:
        yield
    except GatedRepoError:
        raise ModelError(
            "{name} is gated: ask for access on its hub page first.", name=name
        ) from None
    except RepositoryNotFoundError:
        raise ModelError("{name} does not exist on the hub, or is private.", name=name) from None
    except RevisionNotFoundError:
        raise ModelError(
            "{name} has no revision {asked} on the hub: no branch, tag or commit is "
            "called so, or not any more.",
            name=repository,
            asked=revision or "main",
        ) from None
    except HfHubHTTPError as error:
        raise _http_error(name, error) from None
    except (unreachable, OSError, ValueError) as error:  # ValueError: a login page instead of JSON
        if getattr(error, "errno", None) in DISK_FULL_ERRNOS:
            raise ModelError(
                "The disk has no space left for {name}, so the partial download was removed.",
                name=name,
            ) from None
        raise _connection_error(name, own, still) from None


def _connection_error(name: str, own: Path | None, still: str) -> ModelError:
    kept = folder_bytes(own / FOLDER) if own else 0
    if kept:
        return ModelError(
            "The line to the hub broke while {name} came; {kept} MB are kept, and the next try "
            "goes on from there.",
            name=name,
            kept=f"{kept / 1e6:.0f}",
        )
    return ModelError(
        "{name} is not on this machine and the hub cannot be reached; {still}.",
        name=name,
        still=still,
    )


def _http_error(name: str, error: Any) -> ModelError:
    code = error.response.status_code if error.response is not None else "an error"
    if code == _UNAUTHORISED:
        return ModelError("{name} does not exist on the hub, or is private.", name=name)
    return ModelError("The hub answered {code} for {name}; try again later.", code=code, name=name)


def count_download_bytes(siblings: Iterable[RepoSibling]) -> tuple[int, int]:
    """Return the bytes a download of the repository would fetch, and how many of them are safetensors.

    Args:
        siblings: the hub's listing of its files.
    """
    found = _list_wanted_files(siblings)
    weights = [file for file in found if file.rfilename.endswith(".safetensors")]
    return sum(f.size or 0 for f in found), sum(f.size or 0 for f in weights)


def _list_wanted_files(siblings: Iterable[RepoSibling]) -> list[Any]:
    """List the files of a repository that a download would fetch."""
    return [
        f for f in siblings if any(fnmatch(f.rfilename, pattern) for pattern in DOWNLOAD_PATTERNS)
    ]


if __name__ == "__main__":
    handle_job(_download_snapshot, DOWNLOAD_NICENESS)
