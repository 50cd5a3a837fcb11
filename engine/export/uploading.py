"""What uploads to the hub have in common: the token, the client, and every refusal as one sentence of our own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.errors import EngineError, ParameterError
from engine.models import files

TIMEOUT_S = 10.0
"""Longest wait for the hub's first answer."""
_UNAUTHORISED, _FORBIDDEN, _CHANGED = 401, 403, (409, 412)


class PushError(EngineError):
    """Something cannot be uploaded; the message says what stands in the way, and never holds the token."""

    code = "push"


def token_of_environment() -> str:
    """Return the token that HF_TOKEN holds; no other place is looked at.

    Raises:
        PushError: there is none.
    """
    token = os.environ.get("HF_TOKEN", "").strip()
    if not token:
        raise PushError("HF_TOKEN is not set: put a token with the right to write into it.")
    return token


def check_target(to: str) -> None:
    """Check the name of a repository, and that the hub may be asked at all.

    Raises:
        ParameterError: ``to`` is no hub id.
        PushError: the hub is switched off.
    """
    if not files.is_hub_id(to) or files.repository_of(to)[1] is not None:
        raise ParameterError("--to", to, "it must be a hub id like owner/name")
    if os.environ.get("HF_HUB_OFFLINE") == "1":
        raise PushError("HF_HUB_OFFLINE is 1: the hub is switched off, so nothing can be uploaded.")


def client(token: str) -> Any:
    """Return the hub's client with this token and no other."""
    from huggingface_hub import HfApi, constants

    return HfApi(endpoint=constants.ENDPOINT, token=token)


def file_there(to: str, name: str, commit: str, token: str, most: int) -> str | None:
    """Return a file of a repository as text, None where it has none.

    Args:
        to: the repository.
        name: the file's path in it.
        commit: at which it is looked at.
        token: whose right to read it is.
        most: bytes of it that are read; one more tells that there are more.
    """
    from huggingface_hub.errors import RemoteEntryNotFoundError

    # The hub's cache is for models; what is compared here is gone afterwards.
    with tempfile.TemporaryDirectory(prefix="push-") as place:
        try:
            path = client(token).hf_hub_download(
                to, name, revision=commit, cache_dir=place, etag_timeout=TIMEOUT_S
            )
        except RemoteEntryNotFoundError:
            return None
        with Path(path).open("rb") as file:
            return file.read(most + 1).decode("utf-8", "replace")


def commit(
    to: str,
    contents: dict[str, bytes],
    message: str,
    parent: str,
    revision: str,
    token: str,
    *,
    create_pr: bool,
) -> str:
    """Upload files on top of the commit that was looked at; return the address of the commit or pull request.

    Raises:
        PushError: no right to write, the repository has changed meanwhile, or the hub cannot be reached.
    """
    from huggingface_hub import CommitOperationAdd

    with in_words(to, revision):
        done = client(token).create_commit(
            to,
            [CommitOperationAdd(name, content) for name, content in contents.items()],
            commit_message=message,
            revision=revision,
            parent_commit=parent,
            create_pr=create_pr,
        )
    return str(done.pr_url or done.commit_url)


@contextmanager
def in_words(to: str, revision: str) -> Iterator[None]:
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
