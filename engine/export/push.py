"""Settings to the hub: one generation_config.json, shown with what it changes before it is uploaded.

``GenerationConfig.push_to_hub`` would create a repository that is not there and write a model card, too. Here exactly
the text that was shown is uploaded, on top of the commit that it was compared with.
"""

from __future__ import annotations

import difflib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import EngineError, ParameterError, TraceError
from engine.export.generation_config import FILE, MAX_BYTES, SPECIAL_IDS
from engine.models import files
from engine.trace.checks import read_json_strict

MESSAGE = "Set generation_config.json from the Decoding Playground"
TIMEOUT_S = 10.0
"""Longest wait for the hub's first answer."""
_KEPT = (*SPECIAL_IDS, "eos_token_id")
_UNAUTHORISED, _FORBIDDEN, _CHANGED = 401, 403, (409, 412)


class PushError(EngineError):
    """Settings cannot be uploaded; the message says what stands in the way, and never holds the token."""

    code = "push"


@dataclass(frozen=True)
class Upload:
    """What would be uploaded.

    Attributes:
        to: the repository.
        revision: its branch.
        parent: the commit that was looked at.
        text: the file as it would be.
        before: the file as it is, None where there is none.
    """

    to: str
    revision: str
    parent: str
    text: str
    before: str | None

    @property
    def changes(self) -> bool:
        """Whether the file would be another one than before."""
        return self.text != self.before

    def diff(self) -> str:
        """Return the lines that would change, as a unified diff."""
        old = [] if self.before is None else self.before.splitlines()
        there = "/dev/null" if self.before is None else f"{self.to}/{FILE} ({self.revision})"
        lines = difflib.unified_diff(old, self.text.splitlines(), there, FILE, lineterm="")
        return "\n".join(lines)


def token_of_environment() -> str:
    """Return the token that HF_TOKEN holds; no other place is looked at.

    Raises:
        PushError: there is none.
    """
    token = os.environ.get("HF_TOKEN", "").strip()
    if not token:
        raise PushError("HF_TOKEN is not set: put a token with the right to write into it.")
    return token


def prepared(text: str, to: str, token: str, revision: str = "main") -> Upload:
    """Compare settings with what a repository has; nothing is uploaded.

    Special token ids that the repository's file names belong to its model and stay in it.

    Args:
        text: a generation_config.json as ``generation_config.write`` gives it.
        to: the repository, ``owner/name``.
        token: its right to write is not tried yet.
        revision: a branch.

    Raises:
        ParameterError: ``to`` is no hub id.
        PushError: the hub cannot be reached, the repository or branch is not there, or its file is damaged.
    """
    if not files.is_hub_id(to) or files.repository_of(to)[1] is not None:
        raise ParameterError("--to", to, "it must be a hub id like owner/name")
    if os.environ.get("HF_HUB_OFFLINE") == "1":
        raise PushError("HF_HUB_OFFLINE is 1: the hub is switched off, so nothing can be uploaded.")
    with _in_words(to, revision):
        parent = _api(token).model_info(to, revision=revision, timeout=TIMEOUT_S).sha
        before = _file(to, str(parent), token)
    fields = json.loads(text)
    return Upload(to, revision, str(parent), _with_ids(fields, before, to), before)


def send(upload: Upload, token: str, *, create_pr: bool = False) -> str:
    """Upload what was prepared; return the address of the commit, or of the pull request.

    Raises:
        PushError: no right to write, the repository has changed meanwhile, or the hub cannot be reached.
    """
    from huggingface_hub import CommitOperationAdd

    with _in_words(upload.to, upload.revision):
        done = _api(token).create_commit(
            upload.to,
            [CommitOperationAdd(FILE, upload.text.encode())],
            commit_message=MESSAGE,
            revision=upload.revision,
            parent_commit=upload.parent,
            create_pr=create_pr,
        )
    return str(done.pr_url or done.commit_url)


def _api(token: str) -> Any:
    from huggingface_hub import HfApi, constants

    return HfApi(endpoint=constants.ENDPOINT, token=token)


def _file(to: str, commit: str, token: str) -> str | None:
    """Return a repository's generation_config.json, None where it has none."""
    from huggingface_hub.errors import RemoteEntryNotFoundError

    # The hub's cache is for models; what is compared here is gone afterwards.
    with tempfile.TemporaryDirectory(prefix="push-") as place:
        try:
            path = _api(token).hf_hub_download(
                to, FILE, revision=commit, cache_dir=place, etag_timeout=TIMEOUT_S
            )
        except RemoteEntryNotFoundError:
            return None
        with Path(path).open("rb") as file:
            return file.read(MAX_BYTES + 1).decode("utf-8", "replace")


def _with_ids(fields: dict[str, Any], before: str | None, to: str) -> str:
    """Return the new file's text, with the special ids of the old one."""
    kept: dict[str, Any] = {}
    if before is not None:
        try:
            old = read_json_strict(before.encode("utf-8", "replace"), MAX_BYTES)
        except TraceError:
            old = None
        if not isinstance(old, dict):
            raise PushError(
                f"The {FILE} of {to} is no valid JSON object, so its special token ids cannot be kept."
            )
        kept = {n: old[n] for n in _KEPT if old.get(n) is not None and fields.get(n) is None}
    return json.dumps({**kept, **fields}, indent=2, allow_nan=False) + "\n"


@contextmanager
def _in_words(to: str, revision: str) -> Iterator[None]:
    """Turn whatever the hub's client raises into one sentence of our own; its text is not passed on."""
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    # Which HTTP library the hub package stands on has changed: its own error knows.
    unreachable: Any = HfHubHTTPError.__bases__[0]
    try:
        yield
    except GatedRepoError:
        raise PushError(f"{to} is gated: ask for access on its hub page first.") from None
    except RevisionNotFoundError:
        raise PushError(f"{to} has no branch {revision}; --revision names another.") from None
    except RepositoryNotFoundError:
        raise PushError(
            f"{to} does not exist on the hub, or this token may not see it; create it there first."
        ) from None
    except HfHubHTTPError as error:
        code = error.response.status_code if error.response is not None else 0
        raise PushError(_refused(to, code)) from None
    except (unreachable, OSError, ValueError):  # a login page is no JSON
        raise PushError(f"The hub cannot be reached, so nothing was uploaded to {to}.") from None


def _refused(to: str, code: int) -> str:
    if code == _UNAUTHORISED:
        return f"The hub does not know the token in HF_TOKEN, so nothing was uploaded to {to}."
    if code == _FORBIDDEN:
        return f"The token in HF_TOKEN has no right to write to {to}; --create-pr may still be open to it."
    if code in _CHANGED:
        return f"{to} has changed since it was looked at; try again to see the new difference."
    return f"The hub answered {code} for {to}; try again later."
