"""Load the tokenizer of a model's folder, if there is one."""

from __future__ import annotations

import json
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.messages import Message
from engine.model_code import is_failure

_FILES = ("tokenizer*", "vocab*", "merges*", "spiece*", "*.model", "*.tiktoken", "special_tokens*")


def load_tokenizer(folder: str) -> Any:
    """Return a folder's tokenizer; None if it has no tokenizer files, so the model works with ids only.

    Raises:
        ModelError: transformers cannot read its files; the sentence names the one that spoils it.
    """
    names = [path.name for path in Path(folder).iterdir()]
    if not any(fnmatch(name, pattern) for name in names for pattern in _FILES):
        return None
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except BaseException as error:  # a damaged file may raise anything, also a panic of Rust code
        if not is_failure(error):
            raise
        raise ModelError(
            "The model's {file} cannot be read ({kind}).",
            file=_find_damaged_file(folder) or Message("tokenizer"),
            kind=type(error).__name__,
        ) from error


def _find_damaged_file(folder: str) -> str | None:
    """Return the tokenizer's file that is damaged, None if it is not clear which."""
    from tokenizers import Tokenizer

    def read_object(path: str) -> dict[str, Any]:
        return dict(json.loads(Path(path).read_bytes()))

    for name, read in (
        ("tokenizer.json", Tokenizer.from_file),
        ("tokenizer_config.json", read_object),
        ("special_tokens_map.json", read_object),
    ):
        path = Path(folder) / name
        try:
            if path.is_file():
                read(str(path))
        except BaseException:  # as above
            return name
    return None
