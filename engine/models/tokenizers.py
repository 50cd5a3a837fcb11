"""The tokenizer that stands in a model's folder, if one does."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path
from typing import Any

_FILES = ("tokenizer*", "vocab*", "merges*", "spiece*", "*.model", "*.tiktoken", "special_tokens*")


def tokenizer_in(folder: str) -> Any:
    """Return a folder's tokenizer; None where no file there is one's, and the model speaks ids alone.

    Raises:
        Exception: what transformers raises for a damaged one.
    """
    names = [path.name for path in Path(folder).iterdir()]
    if not any(fnmatch(name, pattern) for name in names for pattern in _FILES):
        return None
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
