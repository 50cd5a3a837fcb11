"""Subprocess that downloads one model from the hub; it can be killed whatever the hub does.

Large files resume where an earlier attempt ended (``parts``). Every file must match its announced hash.

It reads a job as JSON from standard input and writes JSON lines: ``total`` once sizes are known,
``got`` during the download, and finally ``folder`` and ``revision``, or ``refused``. It imports
neither torch nor visitors' code, and uses the owner's token only if the job says so.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.messages import Message
from engine.models import partial_downloads

if TYPE_CHECKING:
    from huggingface_hub.hf_api import RepoSibling

_REPORT_INTERVAL_S = 0.3
_NICENESS = 10
_UNAUTHORISED = 401
_CHUNK_BYTES = 1 << 20
"""Bytes per write; at most this much is lost on a break. huggingface_hub's default is ten times as large."""


def read_hub_order() -> dict[str, Any]:
    """Read the job from standard input, configure huggingface_hub with it, and lower the process priority.

    Call it before importing huggingface_hub. Returns the job.
    """
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    order = json.loads(sys.stdin.read())
    # huggingface_hub reads these once, when it is imported.
    os.environ |= {
        "HF_ENDPOINT": order["endpoint"],
        "HF_HUB_CACHE": order["cache"],
        "HF_HUB_DOWNLOAD_TIMEOUT": str(order["silence_s"]),
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        # Xet cannot resume: it would start every file from zero.
        "HF_HUB_DISABLE_XET": "1",
        **({} if order["token"] else {"HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}),
    }
    return order


def main() -> None:
    """Run the job from standard input."""
    order = read_hub_order()
    from engine.errors import ModelError
    from engine.sources.hub_cache import repository_folder

    own = repository_folder(order["cache"], order["name"])
    try:
        folder, revision = _download_snapshot(order, own)
        write_message(folder=folder, revision=revision)
    except ModelError as error:
        write_message(refused=str(error))
    except BaseException as error:
        write_message(failed=type(error).__name__)
        raise


def _download_snapshot(order: dict[str, Any], own: Path) -> tuple[str, str]:
    """Download a snapshot; return its folder and commit."""
    from huggingface_hub import HfApi, constants, hf_hub_url, snapshot_download
    from huggingface_hub.utils import build_hf_headers

    from engine.models import files, sizes
    from engine.sources.hub_cache import DOWNLOAD_PATTERNS, split_revision
    from engine.sources.lora_adapters import (
        CONFIG,
        check_merge_allowed,
        check_weights,
        read_adapter,
    )

    name, probe_s = order["name"], order["probe_s"]
    repository, asked = split_revision(name)
    # huggingface_hub: None uses the stored token, False sends none.
    token = None if order["token"] else False
    constants.DOWNLOAD_CHUNK_SIZE = _CHUNK_BYTES
    with hub_errors(name, own):
        info = HfApi(token=token).model_info(
            repository, revision=asked, timeout=probe_s, files_metadata=True
        )
        siblings = info.siblings or []
        total = _check_weights_size(siblings, order)
        named = {file.rfilename for file in siblings}
        first = "config.json" if "config.json" in named or CONFIG not in named else CONFIG
        # The config is checked before anything large is fetched. Requesting it by branch makes the
        # cache record the commit, so the model is found later without the hub.
        small = {"etag_timeout": probe_s, "token": token}
        folder = snapshot_download(repository, revision=asked, allow_patterns=[first], **small)
        check_hashes(Path(folder), _list_small_files(siblings))
        if first == CONFIG:
            check_merge_allowed(name)
            read_adapter(name, folder)
        else:
            # A value takes at least half a byte, so twice the bytes bound the number of values.
            sizes.check_sizes(files.check_config(folder), 2 * total)
        revision = Path(folder).name
        with _ProgressReporter(own, siblings):
            # Small files first: a folder with all its weights counts as a complete model.
            plain = _list_small_files(siblings)
            patterns = [escape(file.rfilename) for file in plain]
            snapshot_download(repository, revision=revision, allow_patterns=patterns, **small)
            check_hashes(Path(folder), plain)
            for file in _list_large_files(siblings):
                url = hf_hub_url(repository, file.path, revision=revision)
                partial_downloads.complete_download(own, file, url, build_hf_headers(token=token))
            folder = snapshot_download(
                repository, revision=revision, allow_patterns=DOWNLOAD_PATTERNS, **small
            )
        if first == CONFIG:
            check_weights(name, folder)
        else:
            files.check_folder(folder)
    return folder, revision


def _list_large_files(siblings: Iterable[RepoSibling]) -> list[partial_downloads.LargeFile]:
    """List the files with an announced SHA-256, whose download can resume."""
    return [
        partial_downloads.LargeFile(file.rfilename, file.lfs.size, file.lfs.sha256)
        for file in _list_wanted_files(siblings)
        if file.lfs is not None
    ]


def _list_small_files(siblings: Iterable[RepoSibling]) -> list[RepoSibling]:
    """List the files without a SHA-256; snapshot_download fetches them."""
    return [file for file in _list_wanted_files(siblings) if file.lfs is None]


def check_hashes(folder: Path, files: Iterable[RepoSibling]) -> None:
    """Compare downloaded files with the hashes that the hub announced.

    Args:
        folder: where they were downloaded to.
        files: the hub's listing of them.

    Raises:
        ModelError: naming the first file that differs; that file is removed.
    """
    from engine.errors import ModelError
    from engine.models.hashes import git_hash_of, sha256_of

    for file in files:
        path = folder / file.rfilename
        announced, hash_of = (
            (file.lfs.sha256, sha256_of) if file.lfs else (file.blob_id, git_hash_of)
        )
        if announced and path.is_file() and hash_of(path) != announced:
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
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    from engine.errors import ModelError
    from engine.sources.hub_cache import split_revision

    repository, asked = split_revision(name)

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
            asked=asked or "main",
        ) from None
    except HfHubHTTPError as error:
        raise _http_error(name, error) from None
    except (unreachable, OSError, ValueError) as error:  # ValueError: a login page instead of JSON
        if getattr(error, "errno", None) in partial_downloads.DISK_FULL_ERRNOS:
            raise ModelError(
                "There is no room left on the disk for {name}; what had come of it was removed.",
                name=name,
            ) from None
        raise _connection_error(name, own, still) from None


def _connection_error(name: str, own: Path | None, still: str) -> Exception:
    from engine.errors import ModelError

    kept = partial_downloads.folder_bytes(own / partial_downloads.FOLDER) if own else 0
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


def _http_error(name: str, error: Any) -> Exception:
    from engine.errors import ModelError

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
    from fnmatch import fnmatch

    from engine.sources.hub_cache import DOWNLOAD_PATTERNS

    return [
        f for f in siblings if any(fnmatch(f.rfilename, pattern) for pattern in DOWNLOAD_PATTERNS)
    ]


def no_space_message(name: str, total: int, most: int) -> str:
    """Return the error sentence for a model whose files do not fit on the disk.

    Args:
        name: the model's name.
        total: bytes of its files.
        most: bytes available for them.
    """
    return Message(
        "{name} has {total} GB of files, and there is room for {most} GB here.",
        name=name,
        total=f"{total / 1e9:.2f}",
        most=f"{most / 1e9:.2f}",
    )


def _check_weights_size(siblings: Iterable[RepoSibling], order: dict[str, Any]) -> int:
    """Report the total download size and return the bytes of the weights.

    Raises:
        ModelError: there are no safetensors weights, or the files do not fit on the disk.
    """
    from engine.errors import ModelError
    from engine.models import files

    if not any(file.rfilename.endswith(".safetensors") for file in siblings):
        raise ModelError(files.NO_WEIGHTS_MESSAGE)
    total, weights = count_download_bytes(siblings)
    if total > order["most_bytes"]:
        raise ModelError(no_space_message(order["name"], total, order["most_bytes"]))
    write_message(total=total)
    return weights


class _ProgressReporter:
    """Context manager that reports the bytes downloaded so far, including those of earlier attempts."""

    def __init__(self, own: Path, siblings: Iterable[RepoSibling]) -> None:
        self.folders = own / "blobs", own / partial_downloads.FOLDER
        self.over = threading.Event()
        wanted = {
            file.lfs.sha256 if file.lfs else file.blob_id for file in _list_wanted_files(siblings)
        }
        # Bytes of other revisions, which share the folder.
        self.others = sum(
            partial_downloads.folder_bytes(path) - partial_downloads.folder_bytes(path, wanted)
            for path in self.folders
        )

    def __enter__(self) -> None:
        threading.Thread(target=self._report_loop, daemon=True).start()

    def __exit__(self, *raised: Any) -> None:
        self.over.set()

    def _report_loop(self) -> None:
        while not self.over.wait(_REPORT_INTERVAL_S):
            write_message(
                got=max(
                    0,
                    sum(partial_downloads.folder_bytes(path) for path in self.folders)
                    - self.others,
                )
            )


def write_message(**message: Any) -> None:
    """Write one JSON line to the parent process."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
