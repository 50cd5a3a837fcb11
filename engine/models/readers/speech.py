"""What a speech model can be told besides its sound, as the generation_config.json of its folder says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TASKS = ("transcribe", "translate")
LONGEST_LANGUAGE = 32
"""Characters that the name of a language may have."""
_FILE = "generation_config.json"
_MOST_LANGUAGES = 500


@dataclass(frozen=True)
class SpeechChoices:
    """What can be told; nothing of it has to be.

    Attributes:
        languages: codes of those that it knows; empty where it knows one alone.
        tasks: of TASKS; empty where it knows one alone.
        timestamps: whether it has tokens for times.
    """

    languages: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    timestamps: bool = False


def speech_in(folder: str) -> SpeechChoices:
    """Return what the model of a folder can be told; nothing where its file is missing or damaged."""
    try:
        fields = json.loads((Path(folder) / _FILE).read_bytes())
    except (OSError, ValueError, RecursionError):
        return SpeechChoices()
    return _choices(fields) if isinstance(fields, Mapping) else SpeechChoices()


def _choices(fields: Mapping[str, Any]) -> SpeechChoices:
    times = fields.get("no_timestamps_token_id") is not None
    # As generate() has it: a model that says so of itself is told neither.
    if not fields.get("is_multilingual", True):
        return SpeechChoices(timestamps=times)
    tasks = _named(fields, "task_to_id")
    codes = [name.removeprefix("<|").removesuffix("|>") for name in _named(fields, "lang_to_id")]
    languages = tuple(code for code in codes if 1 <= len(code) <= LONGEST_LANGUAGE)
    return SpeechChoices(
        languages[:_MOST_LANGUAGES], tuple(task for task in TASKS if task in tasks), times
    )


def _named(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = fields.get(name)
    return found if isinstance(found, Mapping) else {}
