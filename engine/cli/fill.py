"""The command ``fill``: fills the hidden places of a text in any order, and prints every step."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from engine.cli.argument_values import Commands, escape_controls, parse_settings
from engine.trace import diffusion
from engine.trace.diffusion import DiffusionTrace

_HIDDEN = "_"


def add(commands: Commands) -> None:
    """Add the command ``fill``."""
    command = commands.add_parser(
        "fill", help="fill a text in any order with the masked diffusion model"
    )
    text = command.add_mutually_exclusive_group(required=True)
    text.add_argument(
        "--prompt", help="{n} hides n tokens, as in 'The dog {6} home.'; otherwise it is continued"
    )
    text.add_argument("--replay", metavar="FILE", help="print a recorded run, without the model")
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="max_new_tokens, steps, block_length, remasking, entropy_bound or temperature",
    )
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--trace", metavar="FILE", help="write the record as JSON")
    command.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> None:
    if arguments.replay is not None:
        trace = diffusion.load(arguments.replay)
    else:
        from engine.run.diffusion import record_filling

        trace = record_filling(arguments.prompt, parse_settings(arguments.set), arguments.seed)
    for line in _format_steps(trace):
        print(escape_controls(line))
    if arguments.trace:
        diffusion.save(trace, arguments.trace)


def _format_steps(trace: DiffusionTrace) -> Iterator[str]:
    """Yield a line for every step: how many tokens it wrote, how sure they were, and the text."""
    for number, step in enumerate(trace.steps, start=1):
        written = step.committed
        least = min(guess.probability for guess in written)
        ids = trace.ids_after(number)
        text = "".join(_HIDDEN if one is None else trace.pieces[one] for one in ids)
        yield f"{number:3} wrote {len(written):2}, least sure {least:4.0%}: {text!r}"
    yield trace.text
