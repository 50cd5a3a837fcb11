"""The command ``lesson``: lists, checks, records and shows lessons."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from engine.cli.argument_values import Commands, escape_controls
from engine.cli.push import print_escaped
from engine.errors import EngineError

if TYPE_CHECKING:
    from engine.lessons.library import LessonFile


def add(commands: Commands) -> None:
    """Add the command ``lesson`` and its subcommands."""
    lesson = commands.add_parser("lesson", help="list, check, record or show lessons")
    acts = lesson.add_subparsers(dest="act", required=True)
    listing = acts.add_parser("list", help="list the lessons")
    listing.add_argument("--json", action="store_true", help="print one JSON object per line")
    listing.set_defaults(handler=_list)
    check = acts.add_parser("check", help="check the claims of lessons against their recorded runs")
    check.add_argument("names", nargs="*", metavar="LESSON", help="name or file; default: all")
    check.set_defaults(handler=_check)
    record = acts.add_parser(
        "record", help="record a lesson's missing or outdated runs in runs/ next to it"
    )
    record.add_argument("names", nargs="+", metavar="LESSON", help="name or file")
    record.add_argument("--anew", action="store_true", help="record all runs again")
    record.set_defaults(handler=_record)
    show = acts.add_parser("show", help="print a lesson as text, with recorded values and answers")
    show.add_argument("name", metavar="LESSON", help="name or file")
    show.add_argument("--language", default="en", help="language code; default: en")
    show.set_defaults(handler=_show)


def _find_lesson_file(name: str, language: str = "en") -> LessonFile:
    """Find a lesson's file by its name or its path."""
    from engine.lessons.library import LessonFile, find_lesson_file, load_lesson

    if not name.endswith(".md"):
        return find_lesson_file(name, language)
    lesson = load_lesson(Path(name))
    return LessonFile(lesson.name, lesson.language, Path(name))


def _all_lesson_files() -> list[LessonFile]:
    from engine.lessons.library import list_lesson_files

    return [file for languages in list_lesson_files().values() for file in languages.values()]


def _list(arguments: argparse.Namespace) -> None:
    from engine.lessons.library import load_lesson

    for file in _all_lesson_files():
        lesson = load_lesson(file.path, file.name)
        about = {
            "name": file.name,
            "language": file.language,
            "title": lesson.title,
            "minutes": lesson.minutes,
            "cards": len(lesson.cards),
        }
        if arguments.json:
            print(json.dumps(about))
        else:
            print_escaped(
                escape_controls(
                    "{name}  ({language})\n    {title}: {cards} cards, {minutes} minutes".format(
                        **about
                    )
                )
            )


def _check(arguments: argparse.Namespace) -> int:
    from engine.lessons.lesson_checks import find_faults
    from engine.lessons.library import open_lesson

    wrong = 0
    for file in [_find_lesson_file(name) for name in arguments.names] or _all_lesson_files():
        try:
            found = find_faults(open_lesson(file))
        except EngineError as error:
            found = [str(error)]
        wrong += bool(found)
        result = "".join(f"\n    {fault}" for fault in found) or " its runs support every claim."
        print_escaped(escape_controls(f"{file.path.name}:{result}"))
    return int(wrong > 0)


def _record(arguments: argparse.Namespace) -> None:
    from engine.lessons.library import record_lesson_runs

    for name in arguments.names:
        written = record_lesson_runs(
            _find_lesson_file(name).path, print_escaped, anew=arguments.anew
        )
        print_escaped(f"{name}: runs recorded: {len(written)}")


def _show(arguments: argparse.Namespace) -> None:
    from engine.lessons.library import open_lesson
    from engine.lessons.plain_text import lesson_to_text

    print_escaped(
        escape_controls(
            lesson_to_text(open_lesson(_find_lesson_file(arguments.name, arguments.language)))
        )
    )
