"""Load the tokenizer of a model's folder, if there is one."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path
from typing import Any

_FILES = ("tokenizer*", "vocab*", "merges*", "spiece*", "*.model", "*.tiktoken", "special_tokens*")


def load_tokenizer(folder: str) -> Any:
    """Return a folder's tokenizer; None if it has no tokenizer files, so the model works with ids only.

    Raises:
        Exception: whatever transformers raises for damaged files.
    """
    names = [path.name for path in Path(folder).iterdir()]
    if not any(fnmatch(name, pattern) for name in names for pattern in _FILES):
        return None
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
