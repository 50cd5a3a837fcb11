"""Settings that a speech model supports (language, task, timestamps) and its longest sound, from its files.

A model on the meta device has no generation configuration, and a loaded one keeps special ids only, so
the files are read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

TASKS = ("transcribe", "translate")
LONGEST_LANGUAGE = 32
"""Most characters of a language code."""
_FILE, _SOUNDS = "generation_config.json", "preprocessor_config.json"
_LONGEST_S = 3600
_MOST_LANGUAGES = 500


@dataclass(frozen=True)
class SpeechChoices:
    """Optional settings of a speech model.

    Attributes:
        languages: supported language codes; empty if there is no choice.
        tasks: supported ones of TASKS; empty if there is no choice.
        timestamps: whether it has timestamp tokens.
        seconds: longest sound in seconds, None if not declared.
    """

    languages: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    timestamps: bool = False
    seconds: float | None = None


def speech_in(folder: str) -> SpeechChoices:
    """Return the speech settings that a folder's model supports; none if its files are missing or damaged."""
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
    # Whisper's generate() refuses language and task for a model that is not multilingual.
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
