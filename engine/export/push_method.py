"""A custom generation method to the hub: shown with what it changes there before it is uploaded."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from engine.errors import MethodError
from engine.export.uploading import TIMEOUT_S, check_target, client, commit, file_there, in_words
from engine.methods.folder import MAX_BYTES, README, Method

MESSAGE = "Upload a custom generation method"


@dataclass(frozen=True)
class MethodUpload:
    """What would be uploaded.

    Attributes:
        to: the repository.
        revision: its branch.
        parent: the commit that was looked at.
        files: path -> content, of those that are new there or another.
        before: path -> text as it is there, None where there is none; of the same files.
    """

    to: str
    revision: str
    parent: str
    files: dict[str, bytes]
    before: dict[str, str | None]

    def told(self) -> list[str]:
        """Return every file with the lines that would change, as unified diffs; a new file is all new lines."""
        return [self._diff(path) for path in self.files]

    def _diff(self, path: str) -> str:
        old = self.before[path]
        there = "/dev/null" if old is None else f"{self.to}/{path} ({self.revision})"
        new = self.files[path].decode("utf-8", "replace").splitlines()
        return "\n".join(
            difflib.unified_diff((old or "").splitlines(), new, there, path, lineterm="")
        )


def prepared_method(method: Method, to: str, token: str, revision: str = "main") -> MethodUpload:
    """Compare a method with what a repository has; nothing is uploaded.

    Args:
        method: as ``read_method`` returned it: nothing else of its folder is uploaded.
        to: the repository, ``owner/name``; it must be there.
        token: its right to write is not tried yet.
        revision: a branch.

    Raises:
        MethodError: its README lacks the tag, without which nobody would find it.
        ParameterError: ``to`` is no hub id.
        PushError: the hub cannot be reached, or the repository or branch is not there.
    """
    if not method.tagged:
        raise MethodError(
            f"{README} of {method.name} lacks the tag custom_generate in its front matter."
        )
    check_target(to)
    with in_words(to, revision):
        parent = str(client(token).model_info(to, revision=revision, timeout=TIMEOUT_S).sha)
        there = {
            path: file_there(to, path, parent, token, MAX_BYTES) for path in sorted(method.files)
        }
    changed = {
        path: method.files[path]
        for path, old in there.items()
        if old is None or old.encode() != method.files[path]
    }
    return MethodUpload(to, revision, parent, changed, {path: there[path] for path in changed})


def send_method(upload: MethodUpload, token: str, *, create_pr: bool = False) -> str:
    """Upload what was prepared; return the address of the commit, or of the pull request.

    Raises:
        PushError: no right to write, the repository has changed meanwhile, or the hub cannot be reached.
    """
    return commit(
        upload.to, upload.files, MESSAGE, upload.parent, upload.revision, token, create_pr=create_pr
    )
