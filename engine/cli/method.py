"""The command ``method``: lists, shows, trusts, creates, checks and uploads custom methods."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import TYPE_CHECKING, Any

from engine.cli.argument_values import escape_controls, parse_settings
from engine.cli.push import add_target_options, ask_confirmation, print_escaped
from engine.errors import MethodError

if TYPE_CHECKING:
    from engine.sandbox.method_lookup import FoundMethod

_SOURCE_LABELS = {
    "shipped": "comes along with the playground",
    "hub": "the hub, commit {}",
    "folder": "a folder of this machine",
}


def add(commands: Any) -> None:
    """Add the command ``method`` and its subcommands."""
    method = commands.add_parser(
        "method", help="custom generation methods: list, show, trust, new, check, push"
    )
    acts = method.add_subparsers(dest="act", required=True)
    _add_name_commands(acts)
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
    add_target_options(push)
    push.set_defaults(handler=_push)


def _add_name_commands(acts: Any) -> None:
    """Add the subcommands that take a method by its name."""
    name = "one that is listed, owner/name or owner/name@revision of the hub, or a folder's path with / or ./"
    listing = acts.add_parser("list", help="methods that can be named, and what they are")
    listing.add_argument("--json", action="store_true")
    listing.set_defaults(handler=_list)
    show = acts.add_parser("show", help="what a method is and takes, and its code; nothing is run")
    show.add_argument("name", help=name)
    show.add_argument("--json", action="store_true")
    show.set_defaults(handler=_show)
    trust = acts.add_parser("trust", help="let a method's code run on this machine, shown first")
    trust.add_argument("name", help=name)
    trust.add_argument("--sha256", metavar="HASH", help="refuse if its code has another one")
    trust.add_argument("--yes", action="store_true", help="do not ask; needs --sha256")
    trust.set_defaults(handler=_trust)


def _list(arguments: argparse.Namespace) -> None:
    from engine.sandbox.method_lookup import list_offers

    for name, offer in list_offers().items():
        if arguments.json:
            print(json.dumps({"name": name} | dataclasses.asdict(offer)))
            continue
        same = f"; the strategy {offer.tab} does the same." if offer.tab else ""
        print_escaped(f"{name}  ({offer.kind})\n    {offer.told}{same}".rstrip())


def _show(arguments: argparse.Namespace) -> None:
    from engine.sandbox.folder import CODE
    from engine.sandbox.method_lookup import find_method
    from engine.sandbox.trust import is_trusted

    found = find_method(arguments.name)
    if not arguments.json:
        _print_method(found)
        return
    method = found.method
    told = {
        "name": found.name,
        "source": found.source,
        "revision": found.revision,
        "sha256": method.sha256,
        "may_run": is_trusted(found),
        "arguments": [dataclasses.asdict(argument) for argument in method.arguments],
        "files": {path: method.source(path) for path in method.files if path.startswith(CODE)},
    }
    print(json.dumps(told))


def _trust(arguments: argparse.Namespace) -> int:
    from engine.sandbox.method_lookup import find_method, pin_commit
    from engine.sandbox.trust import is_trusted, trust_code

    if arguments.yes and arguments.sha256 is None:
        raise MethodError("--yes needs --sha256: the hash of the code that was read and is meant.")
    found = find_method(arguments.name)
    # Trust belongs to the code's hash: whatever is pushed later under the same name needs it again.
    sha256, name = found.method.sha256, found.name
    if arguments.sha256 not in (None, sha256):
        raise MethodError(
            f"The code of {name} has another sha256, {sha256}; nothing was confirmed."
        )
    _print_method(found)
    known = is_trusted(found)
    if not (
        known or arguments.yes or ask_confirmation(f"Let this code of {name} run on this machine?")
    ):
        print_escaped("Nothing was confirmed.")
        return 1
    if not known:
        trust_code(sha256)
    repository, _, asked = name.partition("@")
    if asked and found.revision:
        pin_commit(found)
        print_escaped(f"{repository} means {found.revision} on this machine from now on.")
    print_escaped(
        f"{name} may run; nothing had to be confirmed." if known else f"{name} may run from now on."
    )
    return 0


def _print_method(found: FoundMethod) -> None:
    """Print a method's source, hash, trust, arguments and code."""
    from engine.sandbox.folder import CODE
    from engine.sandbox.trust import is_trusted

    method = found.method
    print_escaped(found.name)
    print_escaped(f"    source:  {_SOURCE_LABELS[found.source].format(found.revision)}")
    print_escaped(f"    sha256:  {method.sha256}")
    print_escaped(f"    may run: {'yes' if is_trusted(found) else 'not before it is confirmed'}")
    rows = [("argument", "kind", "default", "what it is")]
    rows += [
        (a.name, a.kind, "none" if a.required else json.dumps(a.default), a.told)
        for a in method.arguments
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows if method.arguments else [("It has no arguments of its own.", "", "", "")]:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        print_escaped("  ".join([*cells, row[3]]).rstrip())
    for path in method.files:
        if path.startswith(f"{CODE}/"):
            print_escaped(f"\n--- {path}\n{method.source(path)}".replace("\r\n", "\n").rstrip())


def _new(arguments: argparse.Namespace) -> None:
    from engine.sandbox.method_templates import create_method

    folder = create_method(arguments.name, arguments.template)
    print(f"{folder}/custom_generate/generate.py is yours to change.")
    print(f"python -m engine method check {folder} says whether it does what others expect.")


def _check(arguments: argparse.Namespace) -> int:
    from engine.sandbox.arguments import check_arguments
    from engine.sandbox.folder import read_method
    from engine.sandbox.method_check import FAILED, check_method

    given = parse_settings(arguments.settings)
    own = check_arguments(read_method(arguments.folder).arguments, given)
    failed = 0
    for check in check_method(arguments.folder, arguments.model, own):
        failed += check.result == FAILED
        if arguments.json:
            print(json.dumps(dataclasses.asdict(check)), flush=True)
        else:
            print(escape_controls(f"{check.result:8}{check.what}: {check.told}"), flush=True)
    return int(failed > 0)


def _push(arguments: argparse.Namespace) -> int:
    from engine.export.hub_upload import read_hub_token
    from engine.export.push_method import prepare_method_upload, send_method_upload
    from engine.sandbox.folder import read_method

    method, token = read_method(arguments.folder), read_hub_token()
    upload = prepare_method_upload(method, arguments.to, token, arguments.revision)
    if not upload.files:
        print_escaped(
            f"{arguments.to} has all of {method.name} already; there is nothing to upload."
        )
        return 0
    count = len(upload.files)
    print_escaped(
        f"This would change {count} file{'s' * (count > 1)} of {arguments.to}, branch {arguments.revision}:"
    )
    for diff in upload.diffs():
        print_escaped(f"\n{diff}")
    if not arguments.yes and not ask_confirmation(f"Upload it to {arguments.to}?"):
        print_escaped("Nothing was uploaded.")
        return 1
    print_escaped(f"Uploaded: {send_method_upload(upload, token, create_pr=arguments.create_pr)}")
    return 0
