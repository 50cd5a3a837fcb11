"""Find lessons, built-in ones and those in PLAYGROUND_LESSONS, and load or record their runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.analysis import gallery
from engine.errors import EngineError
from engine.lessons import influence_records
from engine.lessons.answer_key import LessonWithRuns
from engine.lessons.lesson import Lesson, LessonError, LessonRun
from engine.lessons.lesson_parser import MAX_CHARS, parse_lesson
from engine.media.examples import EXAMPLE_PREFIX
from engine.program import COMMAND
from engine.settings import SETTINGS
from engine.trace import json_io
from engine.trace.dial_map import DialMap
from engine.trace.dial_map_json import load_dial_map
from engine.trace.records import MEDIA_KINDS, Trace

FOLDER = Path(__file__).resolve().parents[2] / "assets" / "lessons"
RUNS_FOLDER = "runs"
"""Subfolder of the lessons' folder that stores their recorded runs."""
_TRACE_SUFFIX = ".json.gz"
_LESSON_FILE_NAME = re.compile(r"([a-z0-9][a-z0-9_-]{0,39})(?:\.([a-z]{2}))?\.md")
ENGLISH = "en"


@dataclass(frozen=True)
class LessonFile:
    """The file of a lesson in one language."""

    name: str
    language: str
    path: Path


def list_lesson_files() -> dict[str, dict[str, LessonFile]]:
    """Return name -> language -> file; a lesson in PLAYGROUND_LESSONS replaces a built-in one."""
    found: dict[str, dict[str, LessonFile]] = {}
    own = [Path(SETTINGS.lessons).expanduser()] if SETTINGS.lessons else []
    for folder in (FOLDER, *own):
        there: dict[str, dict[str, LessonFile]] = {}
        for file in _lesson_files(folder):
            there.setdefault(file.name, {})[file.language] = file
        # In all its languages: they share the recorded runs, so no language of the other lesson fits them.
        found |= there
    return found


def _lesson_files(folder: Path) -> Iterator[LessonFile]:
    for path in sorted(folder.glob("*.md")) if folder.is_dir() else ():
        match = _LESSON_FILE_NAME.fullmatch(path.name)
        if match:
            yield LessonFile(match[1], match[2] or ENGLISH, path)


def find_lesson_file(name: str, language: str = ENGLISH) -> LessonFile:
    """Return the file of a lesson; without the language in English, else in any language.

    Raises:
        LessonError: the lesson does not exist.
    """
    languages = list_lesson_files().get(name)
    if not languages:
        raise LessonError("There is no lesson {name}.", name=repr(name[:40]))
    return languages.get(language) or languages.get(ENGLISH) or next(iter(languages.values()))


def load_lesson(path: Path, name: str | None = None) -> Lesson:
    """Load a lesson from its file.

    Raises:
        LessonError: the file is invalid; the sentence gives the reason.
    """
    match = _LESSON_FILE_NAME.fullmatch(path.name)
    try:
        # A character has at most 4 bytes in UTF-8.
        data = path.read_bytes()[: 4 * MAX_CHARS + 1]
        text = data.decode()
    except (OSError, UnicodeDecodeError) as error:
        if isinstance(error, UnicodeDecodeError):
            raise LessonError("{name}: it is not text in UTF-8.", name=path.name[:60]) from None
        raise LessonError("{name}: it cannot be read.", name=path.name[:60]) from None
    return parse_lesson(text, name or (match[1] if match else "lesson"))


def trace_file(path: Path, lesson: str, run: str) -> Path:
    """Return the path of a lesson's recorded run, which all languages share."""
    return path.parent / RUNS_FOLDER / f"{lesson}-{run}{_TRACE_SUFFIX}"


def open_lesson(file: LessonFile) -> LessonWithRuns:
    """Load a lesson with its recorded runs.

    Raises:
        EngineError: the lesson or the file of a run is invalid or missing.
    """
    lesson = load_lesson(file.path, file.name)
    traces, looked, maps = {}, {}, {}
    for run in lesson.runs.values():
        kept = trace_file(file.path, lesson.name, run.name)
        traces[run.name] = load_gallery_run(run) if run.recorded else _load_recorded_run(run, kept)
        looked[run.name] = influence_records.load_influence(run, kept)
        maps[run.name] = load_gallery_maps(run)
    return LessonWithRuns(lesson, traces, looked, maps)


def load_gallery_run(run: LessonRun) -> Trace:
    """Load a lesson's run from the gallery.

    Raises:
        EngineError: the gallery has no run of this name.
    """
    entry = gallery.find_entry(run.recorded)
    if entry is None:
        raise LessonError(
            "The run {name}: nothing recorded is named {recorded}.",
            name=run.name,
            recorded=repr(run.recorded),
        )
    return gallery.open_entry(entry.file)


def load_gallery_maps(run: LessonRun) -> dict[str, DialMap]:
    """Return dial -> its map for a lesson's run of the gallery; empty for other runs."""
    return {
        dial: load_dial_map(gallery.dial_map_path(entry.name, dial).read_bytes())
        for entry, dial in (gallery.list_dial_maps() if run.recorded else ())
        if entry.name == run.recorded
    }


def _load_recorded_run(run: LessonRun, path: Path) -> Trace:
    if not path.is_file():
        raise LessonError(
            "The run {run} is not recorded: {command} makes {path}.",
            run=run.name,
            command=f"`{COMMAND} lesson record`",
            path=path.name,
        )
    trace = json_io.load(path)
    differs = find_changed_field(run, trace)
    if differs:
        raise LessonError(
            "The run {name} was recorded with another {differs}; record it again.",
            name=run.name,
            differs=differs,
        )
    return trace


def find_changed_field(run: LessonRun, trace: Trace) -> str:
    """Return the first setting in which a recorded run differs from the lesson's request, or ""."""
    asked = run.request
    if asked["strategy"] != trace.strategy:
        return "strategy"
    if asked.get("seed", 0) != trace.seed:
        return "seed"
    if asked.get("model", trace.model.id) != trace.model.id:
        return "model"
    drafted = trace.assistant.id if trace.assistant else None
    if asked.get("assistant", drafted) != drafted:
        return "assistant"
    if "prompt" in asked and asked["prompt"] != trace.prompt:
        return "prompt"
    given = {one.kind: f"{EXAMPLE_PREFIX}{one.example}" for one in trace.media}
    other = next((kind for kind in MEDIA_KINDS if asked.get(kind) != given.get(kind)), None)
    if other is not None:
        return other
    if "messages" in asked and asked["messages"] != list(trace.messages or ()):
        return "conversation"
    params = asked.get("params", {})
    return next((n for n, v in params.items() if not _is_same_value(trace.config.get(n), v)), "")


def _is_same_value(kept: object, asked: object) -> bool:
    # A trace may have a tuple where YAML has a list.
    return kept == asked or (isinstance(kept, (list, tuple)) and list(kept) == asked)


def build_run_request(run: LessonRun) -> Any:
    """Return the DecodeRequest of a lesson's run.

    Raises:
        EngineError: the request is invalid.
    """
    from engine.run.request import DecodeRequest

    asked = run.request
    return DecodeRequest(
        asked["strategy"],
        asked.get("model"),
        asked.get("prompt"),
        messages=asked.get("messages"),
        image=asked.get("image"),
        audio=asked.get("audio"),
        params=asked.get("params", {}),
        seed=asked.get("seed", 0),
        assistant=asked.get("assistant"),
        top_candidates=asked.get("candidates", 20),
    )


def record_lesson_runs(
    path: Path, tell: Callable[[str], None], *, anew: bool = False
) -> Mapping[str, Path]:
    """Record the requested runs of a lesson that are missing or outdated; all of them with `anew`.

    Returns:
        Name of a run -> the written file.

    Raises:
        EngineError: the lesson is invalid, or a run failed.
    """
    from engine.run.decoding import decode_to_trace

    lesson, written = load_lesson(path), {}
    for run in lesson.runs.values():
        if run.recorded:
            continue
        file = trace_file(path, lesson.name, run.name)
        if not (anew or _is_stale(run, file)):
            continue
        tell(f"{lesson.name}: {run.name} …")
        file.parent.mkdir(exist_ok=True)
        trace = decode_to_trace(build_run_request(run))
        json_io.save(trace, file)
        influence_records.save_influence(influence_records.measure_influence(run, trace), file)
        written[run.name] = file
    return written


def _is_stale(run: LessonRun, file: Path) -> bool:
    try:
        _load_recorded_run(run, file)
        influence_records.load_influence(run, file)
    except EngineError:
        return True
    return False
