"""The command ``method``: custom generation methods, made, checked and uploaded."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import Any

from engine.cli.push import add_target, agreed, say
from engine.cli.values import printable, settings_of


def add(commands: Any) -> None:
    """Add ``method``."""
    method = commands.add_parser("method", help="custom generation methods: new, check, push")
    acts = method.add_subparsers(dest="act", required=True)
    new = acts.add_parser("new", help="write a folder from a template")
    new.add_argument("name", help="of the folder, which is not there yet")
    new.add_argument(
        "--template",
        default="next_token",
        help="next_token, draft, rollback, or a method that comes along",
    )
    new.set_defaults(handler=_new)
    check = acts.add_parser("check", help="read a method, and run it shut in on a small model")
    check.add_argument("folder", help="with custom_generate/generate.py")
    check.add_argument("--model", default="storyteller", help="a model on this machine")
    check.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="settings")
    check.add_argument("--json", action="store_true")
    check.set_defaults(handler=_check)
    push = acts.add_parser("push", help="upload a method to the hub, shown first")
    push.add_argument("folder", help="with custom_generate/generate.py and a README")
    add_target(push)
    push.set_defaults(handler=_push)


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


def _push(arguments: argparse.Namespace) -> int:
    from engine.export.push_method import prepared_method, send_method
    from engine.export.uploading import token_of_environment
    from engine.methods.folder import read_method

    method, token = read_method(arguments.folder), token_of_environment()
    upload = prepared_method(method, arguments.to, token, arguments.revision)
    if not upload.files:
        say(f"{arguments.to} has all of {method.name} already; there is nothing to upload.")
        return 0
    count = len(upload.files)
    say(
        f"This would change {count} file{'s' * (count > 1)} of {arguments.to}, branch {arguments.revision}:"
    )
    for diff in upload.told():
        say(f"\n{diff}")
    if not arguments.yes and not agreed(arguments.to):
        say("Nothing was uploaded.")
        return 1
    say(f"Uploaded: {send_method(upload, token, create_pr=arguments.create_pr)}")
    return 0
