"""The command ``dial``: every text that a recorded run would write as one or two of its settings move."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from engine.cli.argument_values import Commands, escape_controls, parse_value
from engine.errors import ParameterError
from engine.trace import json_io
from engine.trace.dial_grid_json import dump_dial_grid
from engine.trace.dial_map_json import dump_dial_map

if TYPE_CHECKING:
    from engine.run.request import DecodeRequest
    from engine.trace.dial_grid import DialGrid
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
    command.add_argument(
        "--by", metavar="DIAL", help="a second setting, such as top_p; each of its values has a row"
    )
    command.add_argument(
        "--values",
        nargs="+",
        type=parse_value,
        metavar="VALUE",
        help="values of the second setting; default: 20 of its slider, and the run's own",
    )
    command.add_argument("--max-texts", type=int, default=256, help="most texts to follow")
    command.add_argument("--json", action="store_true", help="print the map as JSON")
    command.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> None:
    from engine.run.request import request_from_trace

    request = request_from_trace(json_io.load(arguments.file))
    make_lines = _map_one if arguments.by is None else _map_two
    for line in make_lines(request, arguments):
        print(escape_controls(line))


def _map_one(request: DecodeRequest, arguments: argparse.Namespace) -> Iterable[str]:
    from engine.analysis.dial_map.build import map_dial

    # Every map but the last is still growing.
    *_, found = map_dial(
        request,
        arguments.dial,
        arguments.low,
        arguments.high,
        stops=arguments.stops,
        max_texts=arguments.max_texts,
    )
    return [dump_dial_map(found)] if arguments.json else _format_map(found)


def _map_two(request: DecodeRequest, arguments: argparse.Namespace) -> Iterable[str]:
    from engine.analysis.dial_map.grid import map_two_dials

    if arguments.stops is not None:
        raise ParameterError("stops", len(arguments.stops), "a map of two dials has no stops")
    ends = arguments.low, arguments.high
    *_, found = map_two_dials(request, arguments.dial, *ends, arguments.by, arguments.values)
    return [dump_dial_grid(found)] if arguments.json else _format_grid(found)


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


def _format_grid(found: DialGrid) -> Iterator[str]:
    """Yield a title, a line for each value of the second dial, and a line for each text."""
    yield (
        f"{found.dial} from {found.low:g} to {found.high:g} by {found.second}: "
        f"{len(found.texts)} texts in {len(found.cells)} cells, {found.forward_rows} forward rows, "
        f"{found.seconds:.2f} s"
    )
    own = None if found.second_value is None else found.cell_at(found.value, found.second_value)
    for row, value in enumerate(found.values):
        cells = [
            f"{'>' if one is own else ''}{one.low:.{_DIGITS}g} #{one.text + 1}"
            for one in found.cells
            if one.row == row
        ]
        yield f"{found.second} {value:g}: from {', '.join(cells)}"
    for place, text in enumerate(found.texts, 1):
        yield f"#{place:<4} {text.end.replace('_', ' '):12} {text.text!r}"
    yield from found.notes


def _describe_end(one: DialInterval) -> str:
    return one.end.replace("_", " ") if one.sure else "too narrow"
