"""Fetches one model of the hub, in a process of its own that can be ended whatever the hub does.

Large files go on where an earlier try ended (``parts``); each must have the hash that the hub announced.

It reads an order as JSON from its standard input and writes lines of JSON: ``total`` once the sizes are
known, ``got`` while bytes come, and at the end ``folder`` and ``revision``, or what is ``refused``. It
imports neither torch nor anything that a visitor could have sent, and it knows a token only if the
order says so.
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
from typing import Any

from engine.models import parts

_TELL_S = 0.3
_BEHIND = 10
_UNAUTHORISED = 401
_PIECE = 1 << 20
"""Bytes that are written at once, so that what has come is told and kept; the package waits for ten times as many."""


def begin() -> dict[str, Any]:
    """Return the order of the standard input, as which the hub is asked from now on, behind whatever decodes."""
    if hasattr(os, "nice"):
        os.nice(_BEHIND)
    order = json.loads(sys.stdin.read())
    # Read when the hub's package is imported.
    os.environ |= {
        "HF_ENDPOINT": order["endpoint"],
        "HF_HUB_CACHE": order["cache"],
        "HF_HUB_DOWNLOAD_TIMEOUT": str(order["silence_s"]),
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        # It would begin every file anew.
        "HF_HUB_DISABLE_XET": "1",
        **({} if order["token"] else {"HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}),
    }
    return order


def main() -> None:
    """Carry out the order of the standard input."""
    order = begin()
    from engine.errors import ModelError
    from engine.models.files import repository_folder

    own = repository_folder(order["cache"], order["name"])
    try:
        folder, revision = _fetch(order, own)
        write(folder=folder, revision=revision)
    except ModelError as error:
        write(refused=str(error))
    except BaseException as error:
        write(failed=type(error).__name__)
        raise


def _fetch(order: dict[str, Any], own: Path) -> tuple[str, str]:
    """Return the folder of a snapshot and its commit."""
    from huggingface_hub import HfApi, constants, hf_hub_url, snapshot_download
    from huggingface_hub.utils import build_hf_headers

    from engine.models import files, sizes
    from engine.models.adapter_names import CONFIG, check_weights, read_adapter

    name, probe_s = order["name"], order["probe_s"]
    repository, asked = files.repository_of(name)
    token = None if order["token"] else False
    constants.DOWNLOAD_CHUNK_SIZE = _PIECE
    with hub_errors(name, own):
        info = HfApi(token=token).model_info(
            repository, revision=asked, timeout=probe_s, files_metadata=True
        )
        total = _weights(info.siblings or (), order)
        named = {file.rfilename for file in info.siblings or ()}
        first = "config.json" if "config.json" in named or CONFIG not in named else CONFIG
        # Nothing large before the config is read. Asked for by its branch, the commit is noted in
        # the cache, so that the model is found there without the hub.
        small = {"etag_timeout": probe_s, "token": token}
        folder = snapshot_download(repository, revision=asked, allow_patterns=[first], **small)
        check_hashes(Path(folder), _unpacked(info.siblings))
        if first == CONFIG:
            files.check_merges(name)
            read_adapter(name, folder)
        else:
            # A value takes half a byte at least.
            sizes.check_sizes(files.check_config(folder), 2 * total)
        revision = Path(folder).name
        with _Teller(own, info.siblings):
            # What is small comes first: with its weights, a folder is a model.
            plain = _unpacked(info.siblings)
            patterns = [escape(file.rfilename) for file in plain]
            snapshot_download(repository, revision=revision, allow_patterns=patterns, **small)
            check_hashes(Path(folder), plain)
            for file in _large(info.siblings):
                url = hf_hub_url(repository, file.path, revision=revision)
                parts.complete(own, file, url, build_hf_headers(token=token))
            folder = snapshot_download(
                repository, revision=revision, allow_patterns=files.PATTERNS, **small
            )
        if first == CONFIG:
            check_weights(name, folder)
        else:
            files.check_folder(folder)
    return folder, revision


def _large(siblings: Any) -> list[parts.Large]:
    """Return the files of a repository that can be gone on with; what has no SHA-256 comes as the package does it."""
    return [
        parts.Large(file.rfilename, file.lfs.size, file.lfs.sha256)
        for file in _wanted(siblings)
        if file.lfs is not None
    ]


def _unpacked(siblings: Any) -> list[Any]:
    """Return the other files."""
    return [file for file in _wanted(siblings) if file.lfs is None]


def check_hashes(folder: Path, files: Iterable[Any]) -> None:
    """Refuse a file whose bytes are not those that the hub announced, and remove it.

    Args:
        folder: where they have come to.
        files: as the hub lists them.

    Raises:
        ModelError: naming the file.
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
            raise ModelError(parts.wrong_hash(file.rfilename))


@contextmanager
def hub_errors(
    name: str, own: Path | None = None, still: str = "embedded models still work"
) -> Iterator[None]:
    """Turn whatever a hub answers, or does not answer, into one sentence.

    Args:
        name: what is asked for.
        own: its folder in the hub's cache, where something of it may be kept for the next try.
        still: what can be done without the hub.

    Raises:
        ModelError: why it cannot be had.
    """
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    from engine.errors import ModelError
    from engine.models import files

    repository, asked = files.repository_of(name)

    # Which HTTP library the hub package stands on has changed: its own error knows.
    unreachable: Any = HfHubHTTPError.__bases__[0]
    try:
        yield
    except GatedRepoError:
        raise ModelError(f"{name} is gated: ask for access on its hub page first.") from None
    except RepositoryNotFoundError:
        raise ModelError(f"{name} does not exist on the hub, or is private.") from None
    except RevisionNotFoundError:
        raise ModelError(
            f"{repository} has no revision {asked or 'main'} on the hub: no branch, tag or commit is"
            " called so, or not any more."
        ) from None
    except HfHubHTTPError as error:
        code = error.response.status_code if error.response is not None else "an error"
        if code == _UNAUTHORISED:
            raise ModelError(f"{name} does not exist on the hub, or is private.") from None
        raise ModelError(f"The hub answered {code} for {name}; try again later.") from None
    except (unreachable, OSError, ValueError) as error:  # a login page is no JSON
        if getattr(error, "errno", None) in parts.NO_ROOM:
            raise ModelError(
                f"There is no room left on the disk for {name}; what had come of it was removed."
            ) from None
        kept = parts.size_of(own / parts.FOLDER) if own else 0
        if kept:
            raise ModelError(
                f"The line to the hub broke while {name} came; {kept / 1e6:.0f} MB are kept, and"
                " the next try goes on from there."
            ) from None
        raise ModelError(
            f"{name} is not on this machine and the hub cannot be reached; {still}."
        ) from None


def wanted(siblings: Any) -> tuple[int, int]:
    """Return the bytes of what would be fetched of a repository, and of the weights among it, 0 where none are safe.

    Args:
        siblings: its files, as the hub lists them.
    """
    found = _wanted(siblings)
    weights = [file for file in found if file.rfilename.endswith(".safetensors")]
    return sum(f.size or 0 for f in found), sum(f.size or 0 for f in weights)


def _wanted(siblings: Any) -> list[Any]:
    """Return those of a repository's files that would be fetched."""
    from fnmatch import fnmatch

    from engine.models import files

    return [f for f in siblings if any(fnmatch(f.rfilename, pattern) for pattern in files.PATTERNS)]


def no_room(name: str, total: int, most: int) -> str:
    """Return the sentence that says why a model's files do not fit.

    Args:
        name: what it is called.
        total: bytes of its files.
        most: bytes that there is room for.
    """
    return (
        f"{name} has {total / 1e9:.2f} GB of files, and there is room for {most / 1e9:.2f} GB here."
    )


def _weights(siblings: Any, order: dict[str, Any]) -> int:
    """Return the bytes of a repository's weights.

    Raises:
        ModelError: it has none that are safe, or more files than there is room for.
    """
    from engine.errors import ModelError
    from engine.models import files

    if not any(file.rfilename.endswith(".safetensors") for file in siblings):
        raise ModelError(files.NO_WEIGHTS)
    total, weights = wanted(siblings)
    if total > order["most_bytes"]:
        raise ModelError(no_room(order["name"], total, order["most_bytes"]))
    write(total=total)
    return weights


class _Teller:
    """Tells while a block runs how many bytes of a model have come, those of earlier tries among them."""

    def __init__(self, own: Path, siblings: Any) -> None:
        self.folders = own / "blobs", own / parts.FOLDER
        self.over = threading.Event()
        wanted = {file.lfs.sha256 if file.lfs else file.blob_id for file in _wanted(siblings)}
        # Another revision's, in the same folder.
        self.others = sum(
            parts.size_of(path) - parts.size_of(path, wanted) for path in self.folders
        )

    def __enter__(self) -> None:
        threading.Thread(target=self._tell, daemon=True).start()

    def __exit__(self, *raised: Any) -> None:
        self.over.set()

    def _tell(self) -> None:
        while not self.over.wait(_TELL_S):
            write(got=max(0, sum(parts.size_of(path) for path in self.folders) - self.others))


def write(**message: Any) -> None:
    """Write one line for who gave the order."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
