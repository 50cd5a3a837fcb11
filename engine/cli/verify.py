"""The command ``verify``: runs a trace's exported code in a fresh process, compares the tokens."""

from __future__ import annotations

import argparse
import sys

from engine.cli import media_options
from engine.cli.argument_values import Commands
from engine.trace import json_io


def add(commands: Commands) -> None:
    """Add the command ``verify``."""
    check = commands.add_parser(
        "verify", help="run exported code in a new process; exit with status 1 if tokens differ"
    )
    check.add_argument("file", help="trace file")
    check.add_argument(
        "--form",
        choices=("generate", "pipeline"),
        default="generate",
        help="form of the exported code to run; default: generate",
    )
    media_options.add_media_file_options(check)
    check.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> int:
    from engine.export.verify import verify_export

    media_options.open_media_files(arguments)
    verification = verify_export(json_io.load(arguments.file), form=arguments.form)
    sys.stdout.write(f"{verification.message} ({verification.seconds:.1f} s)\n")
    return 0 if verification.equal else 1
