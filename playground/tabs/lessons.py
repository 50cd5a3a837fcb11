"""The Lessons tab: routes for the shipped lessons, and lessons that a visitor opens from a file."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import json
from collections.abc import Generator, Iterator
from functools import lru_cache
from typing import Any

import gradio as gr
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from engine.errors import EngineError, ParameterError
from engine.lessons import library
from engine.lessons.answer_key import Opened
from engine.lessons.influence_records import Looked, looked_at
from engine.lessons.lesson import LessonError, LessonRun
from engine.lessons.lesson_checks import faults
from engine.lessons.lesson_parser import read
from engine.lessons.path import path
from engine.trace.records import Trace
from playground.forms.form import check_here
from playground.forms.lesson_data import about, after, before, given
from playground.i18n import languages
from playground.jobs.background_jobs import ENDED, outliving
from playground.jobs.zerogpu import in_line, on_gpu
from playground.runs.run_text import written
from playground.shell import scripts
from playground.shell.elements import OF_A_PRESS, drawn
from playground.shell.guard import sentence
from playground.shell.scripts import receiving
from playground.tabs.replay import recorded

PLACE = "lessons"
_MAX_RUNS = 6
"""Most runs that are decoded for an opened file."""
_OWN = "own"
_KEPT = 64
"""Compressed lessons in the cache."""


def build_lessons(queue: str) -> None:
    """Build the tab; ``queue`` is the Gradio concurrency id that all runs share."""
    with gr.Tab("Lessons", id="lessons", elem_id="tab-lessons"):
        script = "p.lessons(element.querySelector('.dp-tab'), trigger)"
        page = drawn("page-lessons", receiving(script))
    page.input(on_gpu(outliving(open_text, _unknown)), None, page, **in_line(queue), **OF_A_PRESS)


def routes() -> list[Route]:
    """Return the routes of the lesson list and of single lessons."""
    return [
        Route(f"/{PLACE}/index.json", _index),
        Route(f"/{PLACE}/{{version}}/{{name}}.{{language}}.json", _answer),
    ]


def _index(request: Request) -> Response:
    del request
    return JSONResponse(
        {"version": version(), "lessons": listed(version()), "paths": paths(version())},
        headers={"Cache-Control": "no-cache"},
    )


def _answer(request: Request) -> Response:
    asked = request.path_params
    try:
        if asked["version"] != version():
            raise LessonError("Another version of the lessons is here.")
        content = packed(asked["version"], asked["name"], asked["language"])
    except EngineError as error:
        return PlainTextResponse(sentence(error), 404)
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return scripts.kept(gzip.decompress(content), "application/json")
    return scripts.kept(content, "application/json", **{"Content-Encoding": "gzip"})


def version() -> str:
    """Return a digest of the scripts and of the lesson files' times and sizes."""
    found = hashlib.sha256(scripts.version().encode())
    for told_in in library.shelved().values():
        for file in told_in.values():
            # Time and size instead of the content: every request computes this digest.
            about_file = file.path.stat()
            found.update(f"{file.path}\0{about_file.st_mtime_ns}\0{about_file.st_size}\0".encode())
    return found.hexdigest()[:16]


@lru_cache(maxsize=2)
def listed(version_now: str) -> list[dict[str, Any]]:
    """Return one entry per lesson and language; an invalid file has an ``error``.

    Args:
        version_now: see ``version``; part of the cache key.
    """
    del version_now
    found = []
    for told_in in library.shelved().values():
        for file in told_in.values():
            try:
                found.append(about(library.lesson_of(file.path, file.name)))
            except EngineError as error:
                found.append(
                    {"name": file.name, "language": file.language, "error": sentence(error)}
                )
    return found


@lru_cache(maxsize=2)
def paths(version_now: str) -> dict[str, Any]:
    """Return each language's path through the lessons: ``title``, ``minutes`` and ``stops``.

    Args:
        version_now: see ``version``; part of the cache key.
    """
    del version_now
    names = library.shelved()
    found = {}
    for language in languages.languages():
        one = path(language)
        stops = [dataclasses.asdict(stop) for stop in one.steps if stop.lesson in names]
        found[language] = {"title": one.title, "minutes": one.minutes, "stops": stops}
    return found


def packed(version_now: str, name: str, language: str) -> bytes:
    """Return a lesson as gzip-compressed JSON.

    Raises:
        EngineError: no such lesson exists in this language, or it is not valid.
    """
    file = library.find(name, language)
    # Only existing names may become cache keys; requests can contain any name.
    if file.language != language:
        raise LessonError(f"The lesson {file.name} is not told in {language[:10]!r}.")
    return _packed(version_now, file)


@lru_cache(maxsize=_KEPT)
def _packed(version_now: str, file: library.Shelved) -> bytes:
    del version_now
    # ``JSON.parse`` rejects NaN.
    data = json.dumps(told(library.opened(file)), allow_nan=False, separators=(",", ":"))
    return gzip.compress(data.encode(), mtime=0)


def told(opened: Opened) -> dict[str, Any]:
    """Return a whole lesson as JSON values: ``about``, ``cards`` with ``before`` and ``after``, and ``runs``.

    Raises:
        LessonError: its runs contradict its text; the message is the first fault.
    """
    wrong = faults(opened)
    if wrong:
        raise LessonError(wrong[0])
    return {
        "about": about(opened.lesson),
        "cards": [
            {"before": before(opened, card), "after": after(opened, card)}
            for card in opened.lesson.cards
        ],
        "runs": {name: _run(opened, name) for name in opened.traces},
    }


def _run(opened: Opened, name: str) -> dict[str, Any]:
    """Return a run as the page draws it, with its media and its influence values."""
    trace = opened.traces[name]
    more = {
        "given": given(trace, opened.lesson.language),
        "looked": opened.looked.get(name, []),
    }
    return {**recorded(trace), **more}


def open_text(asked: Any) -> Generator[str, None, None]:
    """Decode the runs of a lesson file and yield messages for the page as JSON; never raises.

    Args:
        asked: ``text``, the content of the file.

    Yields:
        ``progress`` messages; the last is the ``lesson``, or ``failed`` with the reason.
    """
    form = asked if isinstance(asked, dict) else {}
    try:
        text = form.get("text")
        if not isinstance(text, str):
            raise ParameterError("text", text, "it must be the text of a lesson")
        lesson = read(text, _OWN)
        traces: dict[str, Trace] = {}
        looked: dict[str, list[Looked]] = {}
        wanted = [run for run in lesson.runs.values() if not run.recorded]
        if len(wanted) > _MAX_RUNS:
            raise LessonError(
                f"A lesson that is opened here makes {_MAX_RUNS} runs at most, this one {len(wanted)}."
            )
        for number, run in enumerate(lesson.runs.values(), 1):
            says = f"Making run {number} of {len(lesson.runs)}…"
            yield from _progress(run, traces, says)
            looked[run.name] = looked_at(run, traces[run.name])
        lesson_told = told(Opened(lesson, traces, looked))
        yield json.dumps({"kind": "lesson", "lesson": lesson_told}, allow_nan=False)
    # A panic of the tokenizer library is no Exception, see ``guard``.
    except BaseException as error:
        if isinstance(error, GeneratorExit):
            raise
        yield json.dumps({"kind": "failed", "error": sentence(error)})


def _progress(run: LessonRun, traces: dict[str, Trace], says: str) -> Iterator[str]:
    """Decode a run, or open its recording, into ``traces``; yield progress messages."""
    yield json.dumps({"kind": "progress", "says": says})
    if run.recorded:
        traces[run.name] = library.of_gallery(run)
        return
    for news in written(check_here(library.request_of(run))):
        if isinstance(news, Trace):
            traces[run.name] = news
        elif isinstance(news, dict):
            yield json.dumps({"kind": "progress", "says": f"{says} {news['says']}"})


def _unknown(asked: dict[str, Any]) -> str:
    del asked
    return json.dumps({"kind": "failed", "error": ENDED})
