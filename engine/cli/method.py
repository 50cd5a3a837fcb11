"""The command ``method``: custom generation methods, made and checked."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import Any

from engine.cli.values import printable, settings_of


def add(commands: Any) -> None:
    """Add ``method``."""
    method = commands.add_parser("method", help="custom generation methods: make one, check one")
    acts = method.add_subparsers(dest="act", required=True)
    new = acts.add_parser("new", help="write a folder from a template")
    new.add_argument("name", help="of the folder, which is not there yet")
    new.add_argument("--template", default="next_token", help="next_token, draft or rollback")
    new.set_defaults(handler=_new)
    check = acts.add_parser("check", help="read a method, and run it shut in on a small model")
    check.add_argument("folder", help="with custom_generate/generate.py")
    check.add_argument("--model", default="storyteller", help="a model on this machine")
    check.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="settings")
    check.add_argument("--json", action="store_true")
    check.set_defaults(handler=_check)


def _new(arguments: argparse.Namespace) -> None:
    from engine.methods.making import new_method

    folder = new_method(arguments.name, arguments.template)
    print(f"{folder}/custom_generate/generate.py is yours to change.")
    print(f"python -m engine method check {folder} says whether it does what others expect.")


def _check(arguments: argparse.Namespace) -> int:
    from engine.methods.arguments import checked_arguments
    from engine.methods.checking import FAILED, check_method
    from engine.methods.folder import read_method

    given = settings_of(arguments.settings)
    own = checked_arguments(read_method(arguments.folder).arguments, given)
    failed = 0
    for check in check_method(arguments.folder, arguments.model, own):
        failed += check.result == FAILED
        if arguments.json:
            print(json.dumps(dataclasses.asdict(check)), flush=True)
        else:
            print(printable(f"{check.result:8}{check.what}: {check.told}"), flush=True)
    return int(failed > 0)
