"""The command ``trace_schema``: prints the JSON Schema of a trace."""

from __future__ import annotations

import argparse
import json
import sys

from engine.cli.argument_values import Commands
from engine.trace.schema import trace_schema


def add(commands: Commands) -> None:
    """Add the command ``trace_schema``."""
    command = commands.add_parser("schema", help="print the JSON Schema of a trace")
    command.add_argument(
        "--columns",
        action="store_true",
        help="print the schema of a trace file, which stores the steps in columns",
    )
    command.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> None:
    sys.stdout.write(json.dumps(trace_schema(columns=arguments.columns), indent=1) + "\n")
