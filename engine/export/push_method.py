"""Upload a custom generation method to the hub, after showing what would change."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from engine.errors import MethodError
from engine.export.hub_upload import (
    TIMEOUT_S,
    check_target,
    commit_files,
    download_text,
    hub_client,
    translate_hub_errors,
)
from engine.sandbox.folder import MAX_BYTES, README, Method

COMMIT_MESSAGE = "Upload a custom generation method"


@dataclass(frozen=True)
class MethodUpload:
    """A prepared upload of a method.

    Attributes:
        to: the repository.
        revision: its branch.
        parent: the commit that the files were compared with.
        files: path -> content of the new or changed files.
        before: path -> current text of the same files; None for a new file.
    """

    to: str
    revision: str
    parent: str
    files: dict[str, bytes]
    before: dict[str, str | None]

    def diffs(self) -> list[str]:
        """Return a unified diff for every new or changed file."""
        return [self._diff(path) for path in self.files]

    def _diff(self, path: str) -> str:
        old = self.before[path]
        there = "/dev/null" if old is None else f"{self.to}/{path} ({self.revision})"
        new = self.files[path].decode("utf-8", "replace").splitlines()
        return "\n".join(
            difflib.unified_diff((old or "").splitlines(), new, there, path, lineterm="")
        )


def prepare_method_upload(
    method: Method, to: str, token: str, revision: str = "main"
) -> MethodUpload:
    """Compare a method with the files in a repository and return the upload; nothing is uploaded.

    Args:
        method: the method as ``read_method`` returns it; no other files are uploaded.
        to: an existing repository, ``owner/name``.
        token: an access token; its right to write is not tested.
        revision: a branch.

    Raises:
        MethodError: the README lacks the tag by which the hub finds methods.
        ParameterError: `to` is no hub id.
        PushError: the hub cannot be reached, or the repository or branch does not exist.
    """
    if not method.tagged:
        raise MethodError(
            "{readme} of {name} lacks the tag custom_generate in its front matter.",
            readme=README,
            name=method.name,
        )
    check_target(to)
    with translate_hub_errors(to, revision):
        parent = str(hub_client(token).model_info(to, revision=revision, timeout=TIMEOUT_S).sha)
        there = {
            path: download_text(to, path, parent, token, MAX_BYTES) for path in sorted(method.files)
        }
    changed = {
        path: method.files[path]
        for path, old in there.items()
        if old is None or old.encode() != method.files[path]
    }
    return MethodUpload(to, revision, parent, changed, {path: there[path] for path in changed})


def send_method_upload(upload: MethodUpload, token: str, *, create_pr: bool = False) -> str:
    """Upload a prepared method; return the URL of the commit or of the pull request.

    Raises:
        PushError: the token may not write, the repository has changed since, or the hub cannot be
            reached.
    """
    return commit_files(
        upload.to,
        upload.files,
        COMMIT_MESSAGE,
        upload.parent,
        upload.revision,
        token,
        create_pr=create_pr,
    )
