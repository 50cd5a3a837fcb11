"""Settings that a speech model supports (language, task, timestamps) and its longest sound, from its files.

A model on the meta device has no generation configuration, and a loaded one keeps special ids only, so
the files are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.models.files import read_json_object

TASKS = ("transcribe", "translate")
MAX_LANGUAGE_CHARS = 32
"""Most characters of a language code."""
_GENERATION_FILE, _PREPROCESSOR_FILE = "generation_config.json", "preprocessor_config.json"
_MAX_SECONDS = 3600
_MAX_LANGUAGES = 500


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


def read_speech_choices(folder: str) -> SpeechChoices:
    """Return the speech settings that a folder's model supports; none if its files are missing or damaged."""
    window = read_json_object(Path(folder) / _PREPROCESSOR_FILE).get("chunk_length")
    known = isinstance(window, int | float) and 0 < window <= _MAX_SECONDS
    return replace(
        _parse_choices(read_json_object(Path(folder) / _GENERATION_FILE)),
        seconds=window if known else None,
    )


def _parse_choices(fields: Mapping[str, object]) -> SpeechChoices:
    times = fields.get("no_timestamps_token_id") is not None
    # Whisper's generate() refuses language and task for a model that is not multilingual.
    if not fields.get("is_multilingual", True):
        return SpeechChoices(timestamps=times)
    tasks = _mapping_field(fields, "task_to_id")
    codes = [
        name.removeprefix("<|").removesuffix("|>") for name in _mapping_field(fields, "lang_to_id")
    ]
    languages = tuple(code for code in codes if 1 <= len(code) <= MAX_LANGUAGE_CHARS)
    return SpeechChoices(
        languages[:_MAX_LANGUAGES], tuple(task for task in TASKS if task in tasks), times
    )


def _mapping_field(fields: Mapping[str, object], name: str) -> Mapping[str, Any]:
    found = fields.get(name)
    return found if isinstance(found, Mapping) else {}
