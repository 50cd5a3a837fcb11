"""The command ``schema``: prints the JSON Schema of a trace or of a map of dials."""

from __future__ import annotations

import argparse
import json
import sys

from engine.cli.argument_values import Commands
from engine.trace.dial_grid_json import dial_grid_schema
from engine.trace.dial_map_json import dial_map_schema
from engine.trace.schema import trace_schema


def add(commands: Commands) -> None:
    """Add the command ``schema``."""
    command = commands.add_parser("schema", help="print the JSON Schema of a trace")
    command.add_argument(
        "--columns",
        action="store_true",
        help="print the schema of a trace file, which stores the steps in columns",
    )
    command.add_argument(
        "--dial-map", action="store_true", help="print the schema of a dial map instead"
    )
    command.add_argument(
        "--dial-grid", action="store_true", help="print the schema of a map of two dials instead"
    )
    command.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> None:
    if arguments.dial_grid:
        schema = dial_grid_schema()
    elif arguments.dial_map:
        schema = dial_map_schema()
    else:
        schema = trace_schema(columns=arguments.columns)
    sys.stdout.write(json.dumps(schema, indent=1) + "\n")
