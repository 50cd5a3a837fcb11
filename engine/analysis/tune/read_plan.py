"""Reads a plan: lists of prompts, settings with grids, seeds and measures, from a file or a page."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from engine.analysis.tune.answer_checks import AnswerChecks
from engine.analysis.tune.measures import DEFAULT_MEASURES, PATTERN, REFERENCE, SCHEMA
from engine.analysis.tune.plan import (
    MAX_PROMPTS,
    MAX_SETTINGS,
    TunePlan,
    TunePrompt,
    TuneSetting,
    check_plan,
)
from engine.errors import EngineError, ParameterError, suggest_name
from engine.messages import Message
from engine.type_guards import is_list, is_mapping

_MAX_BYTES = 1_000_000
_FIELDS = (
    "model",
    "template",
    "prompts",
    "prompts_file",
    "settings",
    "seeds",
    "measures",
    "judge",
    "pattern",
    "schema",
    "match",
)
_PROMPT_FIELDS = ("prompt", "messages", "reference")
_SETTING_FIELDS = ("strategy", "params", "grid", "name")
_NO_TEXT = "The file is not text: save the prompts as UTF-8, one a line."


def load_plan(path: str | Path) -> TunePlan:
    """Return the checked plan of a YAML or JSON file; ``prompts_file`` is next to it.

    Raises:
        EngineError: the file cannot be read, or one sentence on what is wrong in it.
    """
    text = decode_text(_read_bytes(path))
    try:
        # JSON is YAML, so one parser reads both. safe_load builds no Python objects.
        data = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 1
        raise EngineError("The file is not valid YAML at line {line}.", line=line) from None
    if is_mapping(data) and "prompts_file" in data:
        listed = Path(path).parent / str(data["prompts_file"])
        data = {**data, "prompts": decode_text(_read_bytes(listed))}
        del data["prompts_file"]
    return read_plan(data)


def _read_bytes(path: str | Path) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise EngineError(
            "{path} cannot be read: {why}.", path=str(path), why=error.strerror
        ) from None
    if len(data) > _MAX_BYTES:
        raise EngineError("{path} is too large: at most 1 MB is read.", path=str(path))
    return data


def decode_text(data: bytes) -> str:
    """Return a file's text.

    Raises:
        EngineError: it is not UTF-8, or has zero bytes.
    """
    try:
        # Some editors begin a file with a byte order mark.
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise EngineError(_NO_TEXT) from None
    if "\0" in text:
        raise EngineError(_NO_TEXT)
    return text


def read_plan(data: object) -> TunePlan:
    """Return the checked plan of a mapping; docs/tuning.md describes its fields.

    Raises:
        EngineError: one sentence on what is wrong.
    """
    given = _read_fields("plan", data, _FIELDS)
    checks = AnswerChecks(
        _read_text("pattern", given.get("pattern")),
        _read_schema(given.get("schema")),
        str(given.get("match", "contains")),
    )
    prompts = read_prompts(given.get("prompts"))
    return check_plan(
        TunePlan(
            prompts,
            read_settings(given.get("settings")),
            _read_seeds(given.get("seeds", 3)),
            _read_measures(given.get("measures"), checks, prompts),
            checks,
            _read_text("model", given.get("model")),
            _read_text("judge", given.get("judge")),
            given.get("template"),
        )
    )


def read_prompts(given: object) -> list[TunePrompt]:
    """Return the prompts of a list, or of a text with one prompt or JSON object a line."""
    if isinstance(given, str):
        given = list(_split_lines(given))
    if not is_list(given) or not given:
        raise EngineError("There is no prompt: write at least one, one a line.")
    if len(given) > MAX_PROMPTS:
        raise EngineError(
            "There are {n} prompts, and a table takes {most}.", n=len(given), most=MAX_PROMPTS
        )
    return [_read_prompt(place, one) for place, one in enumerate(given, 1)]


def _split_lines(text: str) -> Iterator[object]:
    """Yield a prompt for each line that is not empty: an object if it is written as JSON."""
    for line in filter(None, map(str.strip, text.splitlines())):
        if not line.startswith("{"):
            yield line
            continue
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            yield line


def _read_prompt(place: int, given: object) -> TunePrompt:
    if isinstance(given, str):
        return TunePrompt(given)
    fields = _read_fields(f"prompt {place}", given, _PROMPT_FIELDS)
    if ("prompt" in fields) == ("messages" in fields):
        raise EngineError("Prompt {n} needs either a prompt or messages.", n=place)
    reference = _read_text("reference", fields.get("reference"))
    return TunePrompt(_read_text("prompt", fields.get("prompt")), fields.get("messages"), reference)


def read_settings(given: object) -> list[TuneSetting]:
    """Return the settings of a list, each grid as one setting for every combination."""
    if not is_list(given) or not given:
        raise EngineError("There is no setting: add at least one.")
    found: list[TuneSetting] = []
    for place, one in enumerate(given, 1):
        for setting in _read_setting(place, one):
            found.append(setting)
            if len(found) > MAX_SETTINGS:
                raise EngineError(
                    "There are more than {most} settings: shorten a grid.", most=MAX_SETTINGS
                )
    return found


def _read_setting(place: int, given: object) -> Iterator[TuneSetting]:
    fields = _read_fields(f"setting {place}", given, _SETTING_FIELDS)
    params: object = fields.get("params", {})
    name = str(fields.get("name") or "")
    if not is_mapping(params):
        raise ParameterError("params", params, "it must be an object of names and values")
    grid = read_grid(fields.get("grid") or {})
    for values in itertools.product(*grid.values()):
        chosen = dict(zip(grid, values, strict=True))
        parts = [name, *(f"{key} {value}" for key, value in chosen.items())] if name else []
        own = {str(key): value for key, value in params.items()}
        yield TuneSetting(str(fields.get("strategy")), {**own, **chosen}, ", ".join(parts))


def read_grid(given: object) -> dict[str, list[Any]]:
    """Return name -> values of a mapping, or of lines such as ``temperature = 0.5, 0.7, 1.0``."""
    if isinstance(given, str):
        return dict(_parse_grid_line(line) for line in given.splitlines() if line.strip())
    if not is_mapping(given):
        raise ParameterError("grid", given, "write it as temperature = 0.5, 0.7, 1.0")
    found = {str(name): list(v) if is_list(v) else [v] for name, v in given.items()}
    for name, values in found.items():
        if not values:
            raise ParameterError(name, values, "a grid needs at least one value")
    return found


def _parse_grid_line(line: str) -> tuple[str, list[Any]]:
    name, equals, values = line.partition("=")
    parts = [part.strip() for part in values.split(",")]
    if not equals or not name.strip() or not all(parts):
        raise ParameterError("grid", line.strip(), "write it as temperature = 0.5, 0.7, 1.0")
    return name.strip(), [_parse_value(part) for part in parts]


def _parse_value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _read_seeds(given: object) -> tuple[int, ...]:
    """Return the seeds of a list, or the first ones for a number of seeds."""
    if isinstance(given, int) and not isinstance(given, bool):
        # A huge number would fill the memory before check_plan refuses it.
        return tuple(range(max(0, min(given, 1000))))
    if is_list(given):
        return tuple(given)  # type: ignore[arg-type]
    raise ParameterError("seeds", given, "write how many, or a list of seeds")


def _read_measures(
    given: object, checks: AnswerChecks, prompts: Sequence[TunePrompt]
) -> tuple[str, ...]:
    """Return the measures that are named, or the usual ones and those that the checks allow."""
    if given is not None:
        if not is_list(given) or not given:
            raise ParameterError("measures", given, "write a list of measures")
        return tuple(dict.fromkeys(map(str, given)))
    asked = {
        PATTERN: checks.pattern is not None,
        SCHEMA: checks.schema is not None,
        REFERENCE: any(prompt.reference is not None for prompt in prompts),
    }
    return (*DEFAULT_MEASURES, *(name for name, wanted in asked.items() if wanted))


def _read_schema(given: object) -> Mapping[str, object] | bool | None:
    """Return a schema; a text is parsed as JSON."""
    if isinstance(given, str):
        if not given.strip():
            return None
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            raise EngineError("The schema is not valid JSON.") from None
    if given is None or isinstance(given, bool):
        return given
    if not is_mapping(given):
        raise EngineError("The schema is not valid: it must be an object.")
    return {str(name): value for name, value in given.items()}


def _read_text(name: str, given: object) -> str | None:
    if given is None or given == "":
        return None
    if not isinstance(given, str):
        raise ParameterError(name, given, "it must be text")
    return given


def _read_fields(where: str, given: object, known: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a mapping.

    Raises:
        EngineError: it is none, or has an unknown field.
    """
    if not is_mapping(given):
        raise EngineError("The {where} must be an object of names and values.", where=where)
    for name in given:
        if name not in known:
            near = suggest_name(name, known)
            allowed = Message(
                "a {where} has the fields {fields}", where=where, fields=", ".join(known)
            )
            raise ParameterError(where, name, allowed, near or "")
    return {str(name): value for name, value in given.items()}
