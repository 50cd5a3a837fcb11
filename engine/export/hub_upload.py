"""Shared parts of hub uploads: the token, the client and one-sentence error messages."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.errors import EngineError, ParameterError
from engine.messages import Message
from engine.sources.hub_cache import is_hub_id, split_revision
from engine.temporary_folder import TemporaryFolder

TIMEOUT_S = 10.0
"""Most seconds to wait for the hub's first answer."""
# HTTP status codes.
_UNAUTHORISED, _FORBIDDEN, _CHANGED = 401, 403, (409, 412)


class PushError(EngineError):
    """An upload is impossible; the message gives the reason and never contains the token."""

    code = "push"


def read_hub_token() -> str:
    """Return the token in HF_TOKEN, which is the only source.

    Raises:
        PushError: HF_TOKEN is empty or not set.
    """
    token = os.environ.get("HF_TOKEN", "").strip()
    if not token:
        raise PushError("HF_TOKEN is not set: put a token with the right to write into it.")
    return token


def check_target(to: str) -> None:
    """Check the name of a repository and that the hub is enabled.

    Raises:
        ParameterError: `to` is no hub id.
        PushError: HF_HUB_OFFLINE is 1.
    """
    if not is_hub_id(to) or split_revision(to)[1] is not None:
        raise ParameterError("--to", to, "it must be a hub id like owner/name")
    if os.environ.get("HF_HUB_OFFLINE") == "1":
        raise PushError("HF_HUB_OFFLINE is 1: the hub is switched off, so nothing can be uploaded.")


def hub_client(token: str) -> Any:
    """Return a hub client that uses this token only."""
    from huggingface_hub import HfApi, constants

    return HfApi(endpoint=constants.ENDPOINT, token=token)


def download_text(to: str, name: str, commit: str, token: str, most: int) -> str | None:
    """Return a file of a repository as text; None if it does not exist.

    Args:
        to: the repository.
        name: path of the file in it.
        commit: the commit to read from.
        token: an access token.
        most: limit in bytes; one byte more is read, so that a larger file can be detected.
    """
    from huggingface_hub.errors import RemoteEntryNotFoundError

    # Not the hub's cache, which is for models: the file is only compared and then discarded.
    with TemporaryFolder("push") as place:
        try:
            path = hub_client(token).hf_hub_download(
                to, name, revision=commit, cache_dir=place, etag_timeout=TIMEOUT_S
            )
        except RemoteEntryNotFoundError:
            # LocalEntryNotFoundError is different: the download failed, so the file may exist.
            return None
        with Path(path).open("rb") as file:
            return file.read(most + 1).decode("utf-8", "replace")


def commit_files(
    to: str,
    contents: dict[str, bytes],
    message: str,
    parent: str,
    revision: str,
    token: str,
    *,
    create_pr: bool,
) -> str:
    """Upload files on top of the commit `parent`; return the URL of the commit or pull request.

    Raises:
        PushError: the token may not write, the repository has changed since, or the hub cannot be
            reached.
    """
    from huggingface_hub import CommitOperationAdd

    with translate_hub_errors(to, revision):
        done = hub_client(token).create_commit(
            to,
            [CommitOperationAdd(name, content) for name, content in contents.items()],
            commit_message=message,
            revision=revision,
            parent_commit=parent,
            create_pr=create_pr,
        )
    return str(done.pr_url or done.commit_url)


@contextmanager
def translate_hub_errors(to: str, revision: str) -> Iterator[None]:
    """Turn errors of the hub's client into a PushError without the client's text."""
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    # The hub package has changed its HTTP library; the base class of its error gives the right one.
    unreachable: Any = HfHubHTTPError.__bases__[0]
    try:
        yield
    except GatedRepoError:
        raise PushError("{name} is gated: ask for access on its hub page first.", name=to) from None
    except RevisionNotFoundError:
        raise PushError(
            "{to} has no branch {revision}; --revision names another.", to=to, revision=revision
        ) from None
    except RepositoryNotFoundError:
        raise PushError(
            "{to} does not exist on the hub, or this token may not see it; create it there first.",
            to=to,
        ) from None
    except HfHubHTTPError as error:
        code = error.response.status_code if error.response is not None else 0
        raise PushError(_refusal_message(to, code)) from None
    except (unreachable, OSError, ValueError):  # a login page is no JSON
        raise PushError(
            "The hub cannot be reached, so nothing was uploaded to {to}.", to=to
        ) from None


def _refusal_message(to: str, code: int) -> str:
    if code == _UNAUTHORISED:
        return f"The hub does not know the token in HF_TOKEN, so nothing was uploaded to {to}."
    if code == _FORBIDDEN:
        return f"The token in HF_TOKEN has no right to write to {to}; --create-pr may still be open to it."
    # The hub's answers if the parent commit is not the newest one any more.
    if code in _CHANGED:
        return f"{to} has changed since it was looked at; try again to see the new difference."
    return Message("The hub answered {code} for {name}; try again later.", code=code, name=to)
