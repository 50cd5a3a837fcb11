"""Finds a chat template in a model's files, without transformers."""

from __future__ import annotations

import json
from pathlib import Path


def has_chat_template(folder: str | None) -> bool | None:
    """Return whether a model's folder has a chat template; None if there is no folder or it is unclear."""
    if folder is None:
        return None
    if (Path(folder) / "chat_template.jinja").is_file():
        return True
    try:
        settings = json.loads((Path(folder) / "tokenizer_config.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return isinstance(settings, dict) and bool(settings.get("chat_template"))
