"""The command ``push``: uploads settings as generation_config.json, after a preview."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from engine.cli.argument_values import Commands, escape_controls
from engine.errors import TraceError
from engine.trace import json_io
from engine.trace.checks import read_json_strict

_GZIP = b"\x1f\x8b"


def add(commands: Commands) -> None:
    """Add the command ``push``."""
    push = commands.add_parser(
        "push", help="preview a run's settings and upload them to the hub as generation_config.json"
    )
    push.add_argument("file", help="trace file or generation_config.json")
    add_target_options(push)
    push.set_defaults(handler=_run)


def add_target_options(parser: argparse.ArgumentParser) -> None:
    """Add the upload options: repository, branch, pull request and confirmation."""
    parser.add_argument("--to", required=True, help="existing hub repository, owner/name")
    parser.add_argument(
        "--revision", default="main", help="branch of the repository; default: main"
    )
    parser.add_argument(
        "--create-pr", action="store_true", help="open a pull request instead of a commit"
    )
    parser.add_argument("--yes", action="store_true", help="skip the confirmation")


def _run(arguments: argparse.Namespace) -> int:
    from engine.export.generation_config import FILE_NAME
    from engine.export.hub_upload import read_hub_token
    from engine.export.push import prepare_upload, send_upload

    text, left_out = _read_settings(arguments.file)
    token = read_hub_token()
    upload = prepare_upload(text, arguments.to, token, arguments.revision)
    for sentence in left_out:
        print_escaped(f"Left out: {sentence}")
    if not upload.has_changes:
        print_escaped(
            f"{FILE_NAME} of {arguments.to} already has these settings. There is nothing to upload."
        )
        return 0
    print_escaped(
        f"New {FILE_NAME} of {arguments.to}, branch {arguments.revision}:\n\n{upload.text}"
    )
    print_escaped(f"Changes:\n\n{upload.diff()}\n")
    if not arguments.yes and not ask_confirmation(f"Upload it to {arguments.to}?"):
        print_escaped("Nothing was uploaded.")
        return 1
    print_escaped(f"Uploaded: {send_upload(upload, token, create_pr=arguments.create_pr)}")
    return 0


def print_escaped(text: str) -> None:
    """Print a line with control characters escaped."""
    sys.stdout.write(escape_controls(text) + "\n")


def ask_confirmation(question: str) -> bool:
    """Ask a yes/no question on the terminal; return True for yes, False by default."""
    sys.stdout.write(escape_controls(f"{question} [y/N] "))
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _read_settings(name: str) -> tuple[str, tuple[str, ...]]:
    """Return the text of generation_config.json, and sentences on settings that were left out.

    Raises:
        EngineError: the file is neither a trace nor a generation_config.json.
    """
    from engine.export.files import generation_config_text
    from engine.export.generation_config import MAX_BYTES, format_config, parse_config

    try:
        with Path(name).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise TraceError(
            "{folder} cannot be read: {why}.", folder=Path(name).name, why=error.strerror
        ) from None
    # Above MAX_BYTES the file can only be a trace; json_io has its own limit.
    if data.startswith(_GZIP) or len(data) > MAX_BYTES or _is_trace(data):
        return generation_config_text(json_io.load(name)), ()
    found = parse_config(data)
    return format_config(found.strategy, found.params), found.left_out


def _is_trace(data: bytes) -> bool:
    try:
        fields = read_json_strict(data, len(data))
    except TraceError:
        return False
    return isinstance(fields, dict) and "steps" in fields
