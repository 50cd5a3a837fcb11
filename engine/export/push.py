"""Upload settings to the hub as one generation_config.json, after showing what would change.

``GenerationConfig.push_to_hub`` would also create a missing repository and write a model card. Here
exactly the shown text is uploaded, on top of the commit that it was compared with.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import TraceError
from engine.export.generation_config import FILE_NAME, MAX_BYTES, SPECIAL_IDS
from engine.export.hub_upload import (
    TIMEOUT_S,
    PushError,
    check_target,
    commit_files,
    download_text,
    hub_client,
    translate_hub_errors,
)
from engine.trace.checks import read_json_strict

COMMIT_MESSAGE = "Set generation_config.json from the Decoding Playground"
_PRESERVED_FIELDS = (*SPECIAL_IDS, "eos_token_id")


@dataclass(frozen=True)
class Upload:
    """A prepared upload of settings.

    Attributes:
        to: the repository.
        revision: its branch.
        parent: the commit that the file was compared with.
        text: the new file.
        before: the current file; None if there is none.
    """

    to: str
    revision: str
    parent: str
    text: str
    before: str | None

    @property
    def has_changes(self) -> bool:
        """Whether the new file differs from the current one."""
        return self.text != self.before

    def diff(self) -> str:
        """Return the changes as a unified diff."""
        old = [] if self.before is None else self.before.splitlines()
        there = "/dev/null" if self.before is None else f"{self.to}/{FILE_NAME} ({self.revision})"
        lines = difflib.unified_diff(old, self.text.splitlines(), there, FILE_NAME, lineterm="")
        return "\n".join(lines)


def prepare_upload(text: str, to: str, token: str, revision: str = "main") -> Upload:
    """Compare settings with the file in a repository and return the upload; nothing is uploaded.

    Special token ids in the repository's file belong to its model and are kept.

    Args:
        text: a generation_config.json, as returned by ``generation_config.write``.
        to: the repository, ``owner/name``.
        token: an access token; its right to write is not tested.
        revision: a branch.

    Raises:
        ParameterError: `to` is no hub id.
        PushError: the hub cannot be reached, the repository or branch does not exist, or its file
            is damaged.
    """
    check_target(to)
    with translate_hub_errors(to, revision):
        parent = hub_client(token).model_info(to, revision=revision, timeout=TIMEOUT_S).sha
        before = download_text(to, FILE_NAME, str(parent), token, MAX_BYTES)
    fields = json.loads(text)
    return Upload(to, revision, str(parent), _merge_special_ids(fields, before, to), before)


def send_upload(upload: Upload, token: str, *, create_pr: bool = False) -> str:
    """Upload prepared settings; return the URL of the commit or of the pull request.

    Raises:
        PushError: the token may not write, the repository has changed since, or the hub cannot be
            reached.
    """
    # The hub refuses the commit if `parent` is not the newest one.
    return commit_files(
        upload.to,
        {FILE_NAME: upload.text.encode()},
        COMMIT_MESSAGE,
        upload.parent,
        upload.revision,
        token,
        create_pr=create_pr,
    )


def _merge_special_ids(fields: Mapping[str, object], before: str | None, to: str) -> str:
    """Return the text of the new file, including the special ids of the current one."""
    kept: dict[str, Any] = {}
    if before is not None:
        try:
            # Anyone may have written the hub's file.
            old = read_json_strict(before.encode("utf-8", "replace"), MAX_BYTES)
        except TraceError:
            old = None
        if not isinstance(old, dict):
            raise PushError(
                "The {file_name} of {to} is no valid JSON object, so its special token ids "
                "cannot be kept.",
                file_name=FILE_NAME,
                to=to,
            )
        # A field that the settings give themselves, as they may with eos_token_id, wins.
        kept = {
            n: old[n] for n in _PRESERVED_FIELDS if old.get(n) is not None and fields.get(n) is None
        }
    return json.dumps({**kept, **fields}, indent=2, allow_nan=False) + "\n"
