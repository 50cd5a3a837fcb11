"""What a speech model can be told besides its sound, and how much it hears at once, as the files of its folder say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

TASKS = ("transcribe", "translate")
LONGEST_LANGUAGE = 32
"""Characters that the name of a language may have."""
_FILE, _SOUNDS = "generation_config.json", "preprocessor_config.json"
_LONGEST_S = 3600
_MOST_LANGUAGES = 500


@dataclass(frozen=True)
class SpeechChoices:
    """What can be told; nothing of it has to be.

    Attributes:
        languages: codes of those that it knows; empty where it knows one alone.
        tasks: of TASKS; empty where it knows one alone.
        timestamps: whether it has tokens for times.
        seconds: how long a sound may be, None where nothing says so.
    """

    languages: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    timestamps: bool = False
    seconds: float | None = None


def speech_in(folder: str) -> SpeechChoices:
    """Return what the model of a folder can be told; nothing where its file is missing or damaged."""
    window = _read(folder, _SOUNDS).get("chunk_length")
    known = isinstance(window, int | float) and 0 < window <= _LONGEST_S
    return replace(_choices(_read(folder, _FILE)), seconds=window if known else None)


def _read(folder: str, file: str) -> Mapping[str, Any]:
    try:
        fields = json.loads((Path(folder) / file).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, Mapping) else {}


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
