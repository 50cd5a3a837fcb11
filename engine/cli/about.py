"""The command ``about``: facts and cost of a model, before it is downloaded or loaded."""

from __future__ import annotations

import argparse
import json

from engine.cli import weight_options
from engine.cli.argument_values import Commands, escape_controls
from engine.sources.source import Source


def add(commands: Commands) -> None:
    """Add the command ``about``."""
    about = commands.add_parser(
        "about", help="show a model's facts and memory needs without loading it"
    )
    about.add_argument("model", help="catalogue name, hub id, folder, GGUF file or LoRA adapter")
    about.add_argument("--json", action="store_true", help="print JSON")
    weight_options.add_weight_options(about, assistant=False)
    about.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> None:
    from engine.declare.weights import parse_weights
    from engine.run.preflight import preflight

    held, _ = parse_weights(weight_options.weight_request_fields(arguments), "", assistant=False)
    found = preflight(Source.parse(arguments.model), held)
    if arguments.json:
        print(json.dumps(found.to_dict()))
        return
    print(escape_controls(found.name))
    for subject, text in found.to_pairs():
        print(escape_controls(f"    {subject + ':':15}{text}"))
    for note in found.notes:
        print(escape_controls(note))
