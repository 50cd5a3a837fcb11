"""The command ``grammar``: every text that a recorded run's grammar allows, with two probabilities."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from engine.cli.argument_values import Commands, escape_controls
from engine.number_text import format_percent
from engine.trace import json_io

if TYPE_CHECKING:
    from engine.analysis.allowed_texts import AllowedTexts


def add(commands: Commands) -> None:
    """Add the command ``grammar``."""
    command = commands.add_parser(
        "grammar",
        help="compare removing tokens with choosing among all texts of a run's structured_outputs",
    )
    command.add_argument("file", help="trace of a run; the command loads its model")
    command.add_argument("--json", action="store_true", help="print the table as JSON")
    command.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> None:
    from engine.analysis.allowed_texts import list_allowed_texts
    from engine.run.request import request_from_trace

    found = list_allowed_texts(request_from_trace(json_io.load(arguments.file)))
    lines = [json.dumps(dataclasses.asdict(found))] if arguments.json else _format_table(found)
    for line in lines:
        print(escape_controls(line))


def _format_table(found: AllowedTexts) -> Iterator[str]:
    yield f"The model writes one of these {len(found.texts)} texts with probability {found.valid:.2g}."
    yield f"{'model':>8} {'masked':>8}  text"
    for one in found.texts:
        mark = "  (greedy)" if one.text == found.greedy else ""
        yield f"{format_percent(one.own):>8} {format_percent(one.masked):>8}  {one.text!r}{mark}"
    yield (
        "model: its own choice among these texts. masked: what removing forbidden tokens gives. "
        f"KL(masked || model) = {found.divergence:.2g} nats."
    )
    yield f"Each is exact but for at most {found.missed:.1g}; the model read {found.rows} tokens."
