"""The command ``attention``: attention or attribution scores of one step of a recorded run."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from engine.cli import media_options
from engine.cli.argument_values import Commands, escape_controls
from engine.inspection.influence_methods import ATTENTION, METHODS
from engine.trace import json_io

if TYPE_CHECKING:
    from engine.inspection.attention import Attention
    from engine.inspection.attribution import Attribution
    from engine.inspection.positions import Positions

_TITLES = {
    "cross": "cross-attention to the encoder",
    "self": "self-attention to the text so far",
    "encoder": "input of the encoder",
    "decoder": "the text so far",
}


def add(commands: Commands) -> None:
    """Add the command ``attention``."""
    command = commands.add_parser(
        "attention", help="show which earlier tokens influenced one step of a recorded run"
    )
    command.add_argument("file", help="trace file; the command loads its model")
    command.add_argument("--step", type=int, required=True, help="index of the step, from 0")
    command.add_argument(
        "--method", choices=METHODS, default=ATTENTION, help="how to measure the influence"
    )
    command.add_argument("--layer", type=int, help="attention: layer, from 0; default: mean of all")
    command.add_argument("--head", type=int, help="attention: head, from 0; default: mean of all")
    command.add_argument("--node", type=int, help="beam search: id of a node in the step's pool")
    command.add_argument("--at", type=int, help="drafting: index of the token in the round, from 0")
    media_options.add_media_file_options(command)
    command.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> None:
    from engine.inspection.influence import InfluenceQuestion, compute_influence

    trace = json_io.load(arguments.file)
    media_options.open_media_files(arguments)
    look = InfluenceQuestion(arguments.step, arguments.method, arguments.node, arguments.at)
    found = compute_influence(trace, look)
    print(
        escape_controls(
            f"step {look.step}: {found.piece!r}, log-probability {found.logprob:.4f} nats"
        )
    )
    for line in _format_answer(found, arguments.layer, arguments.head):
        print(escape_controls(line))


def _format_answer(
    found: Attention | Attribution, layer: int | None, head: int | None
) -> Iterator[str]:
    """Yield one line per position with its score, then the caveat."""
    from engine.inspection.attention import Attention

    if isinstance(found, Attention):
        for part in found.parts:
            chosen = (("layer", layer, part.layers), ("head", head, part.heads))
            said = [f"mean of {n} {name}s" if i is None else f"{name} {i}" for name, i, n in chosen]
            yield f"{_TITLES[part.kind]} ({', '.join(said)})"
            yield from _format_positions(part.positions, part.row(layer, head), "{:.4f}")
    else:
        for part in found.parts:
            yield f"{_TITLES[part.kind]} ({found.method}, nats)"
            yield from _format_positions(part.positions, part.values, "{:+.4f}")
        if found.note:
            yield found.note
    yield found.caveat


def _format_positions(
    positions: Positions, values: Sequence[float | None], form: str
) -> Iterator[str]:
    names = [repr(piece) for piece in positions.pieces] or [
        _position_name(positions, place) for place in range(positions.count)
    ]
    for place, (name, value) in enumerate(zip(names, values, strict=True)):
        yield f"{place:4} {'-' if value is None else form.format(value):>9}  {name}"


def _position_name(positions: Positions, place: int) -> str:
    """Return the picture patch or the second of sound of a position that has no token."""
    if positions.grid is not None:
        patch = place - positions.leading
        row, column = divmod(patch, positions.grid[1])
        return f"row {row}, column {column}" if patch >= 0 else "the whole picture"
    if positions.frame_s is not None:
        return f"{place * positions.frame_s:.2f} s"
    return ""
