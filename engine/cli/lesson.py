"""The command ``lesson``: lists, checks, records and shows lessons."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.cli.argument_values import printable
from engine.cli.push import say
from engine.errors import EngineError

if TYPE_CHECKING:
    from engine.lessons.library import Shelved


def add(commands: Any) -> None:
    """Add the command ``lesson`` and its subcommands."""
    lesson = commands.add_parser("lesson", help="lessons: list, check, record, show")
    acts = lesson.add_subparsers(dest="act", required=True)
    listing = acts.add_parser("list", help="the lessons of this playground")
    listing.add_argument("--json", action="store_true")
    listing.set_defaults(handler=_list)
    check = acts.add_parser("check", help="refuse a lesson whose claims its runs do not bear out")
    check.add_argument("names", nargs="*", metavar="LESSON", help="a name or a file; all without")
    check.set_defaults(handler=_check)
    record = acts.add_parser(
        "record", help="make the runs that a lesson asks for, into runs/ beside it"
    )
    record.add_argument("names", nargs="+", metavar="LESSON", help="a name or a file")
    record.add_argument("--anew", action="store_true", help="those that are there, too")
    record.set_defaults(handler=_record)
    show = acts.add_parser(
        "show", help="a lesson as text, with the values of its runs and the answers"
    )
    show.add_argument("name", metavar="LESSON", help="a name or a file")
    show.add_argument("--language", default="en")
    show.set_defaults(handler=_show)


def _file(name: str, language: str = "en") -> Shelved:
    """Find a lesson's file by its name or its path."""
    from engine.lessons.library import Shelved, find, lesson_of

    if not name.endswith(".md"):
        return find(name, language)
    lesson = lesson_of(Path(name))
    return Shelved(lesson.name, lesson.language, Path(name))


def _all() -> list[Shelved]:
    from engine.lessons.library import shelved

    return [file for languages in shelved().values() for file in languages.values()]


def _list(arguments: argparse.Namespace) -> None:
    from engine.lessons.library import lesson_of

    for file in _all():
        lesson = lesson_of(file.path, file.name)
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
            say(
                printable(
                    "{name}  ({language})\n    {title}: {cards} cards, {minutes} minutes".format(
                        **about
                    )
                )
            )


def _check(arguments: argparse.Namespace) -> int:
    from engine.lessons.lesson_checks import faults
    from engine.lessons.library import opened

    wrong = 0
    for file in [_file(name) for name in arguments.names] or _all():
        try:
            found = faults(opened(file))
        except EngineError as error:
            found = [str(error)]
        wrong += bool(found)
        told = "".join(f"\n    {fault}" for fault in found) or " its runs bear it out."
        say(printable(f"{file.path.name}:{told}"))
    return int(wrong > 0)


def _record(arguments: argparse.Namespace) -> None:
    from engine.lessons.library import record

    for name in arguments.names:
        written = record(_file(name).path, say, anew=arguments.anew)
        say(f"{name}: {len(written)} recorded.")


def _show(arguments: argparse.Namespace) -> None:
    from engine.lessons.library import opened
    from engine.lessons.plain_text import as_text

    say(printable(as_text(opened(_file(arguments.name, arguments.language)))))
