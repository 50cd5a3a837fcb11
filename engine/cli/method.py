"""The command ``method``: lists, searches, shows, trusts, creates, checks and uploads custom methods."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import TYPE_CHECKING

from engine.cli.argument_values import Commands, escape_controls, parse_settings
from engine.cli.push import add_target_options, ask_confirmation, print_escaped
from engine.errors import MethodError
from engine.program import COMMAND

if TYPE_CHECKING:
    from engine.sandbox.method_lookup import FoundMethod

_SOURCE_LABELS = {
    "shipped": "built into the playground",
    "hub": "the hub, commit {}",
    "folder": "a folder on this machine",
}


def add(commands: Commands) -> None:
    """Add the command ``method`` and its subcommands."""
    method = commands.add_parser(
        "method",
        help="list, search, show, trust, create, check or upload custom generation methods",
    )
    acts = method.add_subparsers(dest="act", required=True)
    _add_name_commands(acts)
    new = acts.add_parser("new", help="create a method's folder from a template")
    new.add_argument("name", help="name of the new folder")
    new.add_argument(
        "--template",
        default="next_token",
        help="next_token, draft, rollback, or a built-in method",
    )
    new.set_defaults(handler=_new)
    check = acts.add_parser("check", help="test a method in the sandbox with a small model")
    check.add_argument("folder", help="folder with custom_generate/generate.py")
    check.add_argument(
        "--model", default="storyteller", help="model on this machine; default: storyteller"
    )
    check.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        dest="settings",
        help="argument of the method",
    )
    check.add_argument("--json", action="store_true", help="print one JSON object per line")
    check.set_defaults(handler=_check)
    push = acts.add_parser("push", help="preview a method and upload it to the hub")
    push.add_argument("folder", help="folder with custom_generate/generate.py and a README")
    add_target_options(push)
    push.set_defaults(handler=_push)


def _add_name_commands(acts: Commands) -> None:
    """Add the subcommands that take a method by its name."""
    name = "listed name, hub id owner/name or owner/name@revision, or folder path that contains a /"
    listing = acts.add_parser("list", help="list the known methods")
    listing.add_argument("--json", action="store_true", help="print one JSON object per line")
    listing.set_defaults(handler=_list)
    search = acts.add_parser("search", help="search the hub for methods by their tag")
    search.add_argument("words", nargs="?", default="", help="part of the name; default: all")
    search.add_argument("--json", action="store_true", help="print one JSON object per line")
    search.set_defaults(handler=_search)
    show = acts.add_parser(
        "show", help="show a method's source, arguments and code without running it"
    )
    show.add_argument("name", help=name)
    show.add_argument("--json", action="store_true", help="print JSON")
    show.set_defaults(handler=_show)
    trust = acts.add_parser(
        "trust", help="show a method's code and allow it to run on this machine"
    )
    trust.add_argument("name", help=name)
    trust.add_argument("--sha256", metavar="HASH", help="refuse code with a different SHA-256 hash")
    trust.add_argument("--yes", action="store_true", help="skip the confirmation; needs --sha256")
    trust.set_defaults(handler=_trust)


def _list(arguments: argparse.Namespace) -> None:
    from engine.sandbox.method_lookup import list_offers

    for name, offer in list_offers().items():
        if arguments.json:
            print(json.dumps({"name": name} | dataclasses.asdict(offer)))
            continue
        same = f"; the strategy {offer.tab} does the same." if offer.tab else ""
        print_escaped(f"{name}  ({offer.kind})\n    {offer.told}{same}".rstrip())


def _search(arguments: argparse.Namespace) -> None:
    from engine.sandbox.hub_search import search_hub_methods

    found = search_hub_methods(arguments.words)
    for method in found:
        if arguments.json:
            print(json.dumps(dataclasses.asdict(method)))
        else:
            print_escaped(
                f"{method.name}\n    downloads: {method.downloads}; likes: {method.likes}"
            )
    if not found and not arguments.json:
        print("The hub has no such method. Try fewer words.")


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
        raise MethodError("--yes needs --sha256: the hash of the code that you have read.")
    found = find_method(arguments.name)
    # Trust belongs to the code's hash: whatever is pushed later under the same name needs it again.
    sha256, name = found.method.sha256, found.name
    if arguments.sha256 not in (None, sha256):
        raise MethodError(
            "The code of {name} has a different sha256, {sha256}. Nothing was changed.",
            name=name,
            sha256=sha256,
        )
    _print_method(found)
    known = is_trusted(found)
    if not (
        known
        or arguments.yes
        or ask_confirmation(f"Allow this code of {name} to run on this machine?")
    ):
        print_escaped("You did not confirm. The code may not run.")
        return 1
    if not known:
        trust_code(sha256)
    repository, _, asked = name.partition("@")
    if asked and found.revision:
        pin_commit(found)
        print_escaped(f"This machine now uses {found.revision} for {repository}.")
    print_escaped(
        f"{name} was already allowed to run." if known else f"{name} is now allowed to run."
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
    print_escaped(f"    may run: {'yes' if is_trusted(found) else 'not until you allow it'}")
    rows = [("argument", "kind", "default", "description")]
    rows += [
        (a.name, a.kind, "none" if a.required else json.dumps(a.default), a.told)
        for a in method.arguments
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows if method.arguments else [("This method has no arguments.", "", "", "")]:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        print_escaped("  ".join([*cells, row[3]]).rstrip())
    for path in method.files:
        if path.startswith(f"{CODE}/"):
            print_escaped(f"\n--- {path}\n{method.source(path)}".replace("\r\n", "\n").rstrip())


def _new(arguments: argparse.Namespace) -> None:
    from engine.sandbox.method_templates import create_method

    folder = create_method(arguments.name, arguments.template)
    print(f"Edit {folder}/custom_generate/generate.py.")
    print(f"Then test it with {COMMAND} method check {folder}.")


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
            f"{arguments.to} already has all files of {method.name}. There is nothing to upload."
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
