"""The command ``dial``: every text that a recorded run would write as one of its settings moves."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from engine.cli.argument_values import Commands, escape_controls, parse_value
from engine.trace import json_io
from engine.trace.dial_map_json import dump_dial_map

if TYPE_CHECKING:
    from engine.trace.dial_map import DialInterval, DialMap

_DIGITS = 4
"""Significant digits of an edge; a real run close to it may write the text of the other side."""


def add(commands: Commands) -> None:
    """Add the command ``dial``."""
    command = commands.add_parser(
        "dial", help="show every text that a sampled run writes as one of its settings moves"
    )
    command.add_argument("file", help="trace of a sampled run; the command loads its model")
    command.add_argument("--dial", default="temperature", help="the setting, such as top_p")
    command.add_argument("--low", required=True, type=parse_value, help="its lowest value")
    command.add_argument("--high", required=True, type=parse_value, help="its highest value")
    command.add_argument(
        "--stops",
        nargs="+",
        type=parse_value,
        metavar="VALUE",
        help="decide these values only, such as the stops of a slider",
    )
    command.add_argument("--max-texts", type=int, default=256, help="most texts to follow")
    command.add_argument("--json", action="store_true", help="print the map as JSON")
    command.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> None:
    from engine.analysis.dial_map.build import map_dial
    from engine.run.request import request_from_trace

    request = request_from_trace(json_io.load(arguments.file))
    # Every map but the last is still growing.
    *_, found = map_dial(
        request,
        arguments.dial,
        arguments.low,
        arguments.high,
        stops=arguments.stops,
        max_texts=arguments.max_texts,
    )
    lines = [dump_dial_map(found)] if arguments.json else _format_map(found)
    for line in lines:
        print(escape_controls(line))


def _format_map(found: DialMap) -> Iterator[str]:
    """Yield a title and one line for each interval: its values, how the text ends, the text."""
    count = len(found.intervals)
    yield (
        f"{found.dial} from {found.low:g} to {found.high:g}: {count} texts, "
        f"{found.forward_rows} forward rows, {found.seconds:.2f} s"
    )
    for one in found.intervals:
        here = ">" if one is found.interval_at(found.value) else " "
        values = f"{one.low:.{_DIGITS}g} to {one.high:.{_DIGITS}g}"
        yield f"{here} {values:20} {_describe_end(one):14} {one.text!r}"
    yield from (found.reason,) if found.reason else ()
    yield from found.notes


def _describe_end(one: DialInterval) -> str:
    return one.end.replace("_", " ") if one.sure else "too narrow"
