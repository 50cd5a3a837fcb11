"""The Lessons tab: routes for the shipped lessons, and lessons that a visitor opens from a file."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import gradio as gr
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from engine.errors import EngineError, ParameterError
from engine.lessons import library
from engine.lessons.answer_key import LessonWithRuns
from engine.lessons.influence_records import InfluenceRecord, measure_influence
from engine.lessons.lesson import LessonError, LessonRun
from engine.lessons.lesson_checks import find_faults
from engine.lessons.lesson_parser import parse_lesson
from engine.lessons.path import load_path
from engine.messages import Message, add_templates, join_messages, to_json
from engine.trace.records import Trace
from playground.forms.form import check_method_is_local
from playground.forms.lesson_data import card_after_bet, card_before_bet, lesson_summary, media_json
from playground.i18n import languages
from playground.jobs.page_events import connect_jobs
from playground.jobs.registry import JobKind, PageJob
from playground.runs.run_text import stream_text
from playground.shell import scripts
from playground.shell.elements import add_scripted_element
from playground.shell.guard import error_message
from playground.shell.scripts import on_message
from playground.tabs.replay import trace_with_visuals
from visualizers.dial_map.summary import dial_map_with_view

LESSONS_PATH = "lessons"
_MAX_RUNS = 6
"""Most runs that are decoded for an opened file."""
_UPLOAD_NAME = "own"
_MAX_PACKED = 64
"""Compressed lessons in the cache."""


def build_lessons() -> None:
    """Build the tab."""
    with gr.Tab("Lessons", id="lessons", elem_id="tab-lessons"):
        script = "p.lessons(element.querySelector('.dp-tab'), trigger)"
        page = add_scripted_element("page-lessons", on_message(script))
    connect_jobs(LESSONS, page)


def routes() -> list[Route]:
    """Return the routes of the lesson list and of single lessons."""
    return [
        Route(f"/{LESSONS_PATH}/index.json", _index_response),
        Route(f"/{LESSONS_PATH}/{{version}}/{{name}}.{{language}}.json", _lesson_response),
    ]


def _index_response(request: Request) -> Response:
    del request
    return JSONResponse(
        add_templates(
            {
                "version": lessons_version(),
                "lessons": list_lessons(lessons_version()),
                "paths": learning_paths(lessons_version()),
            }
        ),
        headers={"Cache-Control": "no-cache"},
    )


def _lesson_response(request: Request) -> Response:
    payload = request.path_params
    try:
        if payload["version"] != lessons_version():
            raise LessonError("Another version of the lessons is here.")
        content = pack_lesson(payload["version"], payload["name"], payload["language"])
    except EngineError as error:
        return JSONResponse(add_templates({"error": error_message(error)}), 404)
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return scripts.immutable_response(gzip.decompress(content), "application/json")
    return scripts.immutable_response(content, "application/json", **{"Content-Encoding": "gzip"})


def lessons_version() -> str:
    """Return a digest of the scripts and of the lesson files' times and sizes."""
    found = hashlib.sha256(scripts.asset_version().encode())
    for files in library.list_lesson_files().values():
        for file in files.values():
            # Time and size instead of the content: every request computes this digest.
            about_file = file.path.stat()
            found.update(f"{file.path}\0{about_file.st_mtime_ns}\0{about_file.st_size}\0".encode())
    return found.hexdigest()[:16]


@lru_cache(maxsize=2)
def list_lessons(version_now: str) -> list[dict[str, Any]]:
    """Return one entry per lesson and language; an invalid file has an ``error``.

    Args:
        version_now: see ``lessons_version``; part of the cache key.
    """
    del version_now
    found = []
    for files in library.list_lesson_files().values():
        for file in files.values():
            try:
                found.append(lesson_summary(library.load_lesson(file.path, file.name)))
            except EngineError as error:
                found.append(
                    {"name": file.name, "language": file.language, "error": error_message(error)}
                )
    return found


@lru_cache(maxsize=2)
def learning_paths(version_now: str) -> dict[str, Any]:
    """Return each language's path through the lessons: ``title``, ``minutes`` and ``stops``.

    Args:
        version_now: see ``lessons_version``; part of the cache key.
    """
    del version_now
    names = library.list_lesson_files()
    found = {}
    for language in languages.all_languages():
        one = load_path(language)
        stops = [dataclasses.asdict(stop) for stop in one.steps if stop.lesson in names]
        found[language] = {"title": one.title, "minutes": one.minutes, "stops": stops}
    return found


def pack_lesson(version_now: str, name: str, language: str) -> bytes:
    """Return a lesson as gzip-compressed JSON.

    Raises:
        EngineError: no such lesson exists in this language, or it is not valid.
    """
    file = library.find_lesson_file(name, language)
    # Only existing names may become cache keys; requests can contain any name.
    if file.language != language:
        raise LessonError(
            "The lesson {name} is not available in {language}.",
            name=file.name,
            language=repr(language[:10]),
        )
    return _pack_file(version_now, file)


@lru_cache(maxsize=_MAX_PACKED)
def _pack_file(version_now: str, file: library.LessonFile) -> bytes:
    del version_now
    # ``JSON.parse`` rejects NaN.
    data = to_json(lesson_json(library.open_lesson(file)))
    return gzip.compress(data.encode(), mtime=0)


def lesson_json(opened: LessonWithRuns) -> dict[str, Any]:
    """Return a whole lesson as JSON values: ``about``, ``cards`` with ``before`` and ``after``, and ``runs``.

    Raises:
        LessonError: its runs contradict its text; the message is the first fault.
    """
    wrong = find_faults(opened)
    if wrong:
        raise LessonError(wrong[0])
    return {
        "about": lesson_summary(opened.lesson),
        "cards": [
            {"before": card_before_bet(opened, card), "after": card_after_bet(opened, card)}
            for card in opened.lesson.cards
        ],
        "runs": {name: _run_json(opened, name) for name in opened.traces},
    }


def _run_json(opened: LessonWithRuns, name: str) -> dict[str, Any]:
    """Return a run as the page draws it, with its media, influence values and dial maps."""
    trace = opened.traces[name]
    more = {
        "given": media_json(trace, opened.lesson.language),
        "looked": opened.looked.get(name, []),
        "maps": {
            dial: dial_map_with_view(found) for dial, found in opened.maps.get(name, {}).items()
        },
    }
    return {**trace_with_visuals(trace), **more}


def open_lesson(job: PageJob, payload: Any) -> Iterator[dict[str, Any]]:
    """Decode the runs of a lesson file.

    Args:
        job: the job that does it.
        payload: ``text``, the content of the file.

    Yields:
        ``progress`` messages; the last one is the ``lesson``.

    Raises:
        EngineError: The file is not a lesson, or one of its runs failed.
    """
    text = payload.get("text")
    if not isinstance(text, str):
        raise ParameterError("text", text, "it must be the text of a lesson")
    lesson = parse_lesson(text, _UPLOAD_NAME)
    traces: dict[str, Trace] = {}
    looked: dict[str, list[InfluenceRecord]] = {}
    wanted = [run for run in lesson.runs.values() if not run.recorded]
    if len(wanted) > _MAX_RUNS:
        raise LessonError(
            "A lesson that is opened here makes {most} runs at most, this one {wanted}.",
            most=_MAX_RUNS,
            wanted=len(wanted),
        )
    for number, run in enumerate(lesson.runs.values(), 1):
        says = Message("Making run {number} of {total}…", number=number, total=len(lesson.runs))
        yield from _make_run(job, run, traces, says)
        looked[run.name] = measure_influence(run, traces[run.name])
    maps = {run.name: library.load_gallery_maps(run) for run in lesson.runs.values()}
    yield {"kind": "lesson", "lesson": lesson_json(LessonWithRuns(lesson, traces, looked, maps))}


LESSONS = JobKind("lessons", open_lesson)


def _make_run(
    job: PageJob, run: LessonRun, traces: dict[str, Trace], says: str
) -> Iterator[dict[str, Any]]:
    """Decode a run, or open its recording, into ``traces``; yield progress messages."""
    yield {"kind": "progress", "phase": "decoding", "says": says}
    if run.recorded:
        traces[run.name] = library.load_gallery_run(run)
        return
    for news in stream_text(job, check_method_is_local(library.build_run_request(run))):
        if isinstance(news, Trace):
            traces[run.name] = news
        elif isinstance(news, dict):
            yield {**news, "says": join_messages([says, news["says"]])}
