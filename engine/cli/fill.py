"""The command ``fill``: fills the hidden places of a text in any order, and prints every step."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from engine.cli.argument_values import Commands, escape_controls, parse_settings
from engine.errors import TraceError
from engine.trace import json_io
from engine.trace.filling import FillDetail
from engine.trace.records import Trace

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
    command.add_argument("--trace", metavar="FILE", help="write the run as a trace")
    command.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> None:
    if arguments.replay is not None:
        trace = json_io.load(arguments.replay)
    else:
        from engine.run.decoding import decode_to_trace
        from engine.run.request import DecodeRequest
        from engine.strategies.masked_diffusion import split_prompt

        prompt, infill = split_prompt(arguments.prompt)
        params = parse_settings(arguments.set) | ({} if infill is None else {"infill": infill})
        request = DecodeRequest(
            "masked_diffusion", prompt=prompt, params=params, seed=arguments.seed
        )
        trace = decode_to_trace(request)
    for line in _format_steps(trace):
        print(escape_controls(line))
    if arguments.trace:
        json_io.save(trace, arguments.trace)


def _format_steps(trace: Trace) -> Iterator[str]:
    """Yield a line for every step: how many tokens it wrote, how sure they were, and the text.

    Raises:
        TraceError: it is no run of masked diffusion.
    """
    passes = trace.details(FillDetail)
    if not passes:
        raise TraceError("The trace is no run of masked diffusion.")
    known = dict(passes[0][1].given)
    for step, detail in passes:
        known |= {guess.position: guess.token_id for guess in detail.written}
        least = min((guess.p for guess in detail.written), default=1.0)
        text = "".join(
            trace.pieces[known[place]] if place in known else _HIDDEN
            for place in range(detail.length)
        )
        count = len(detail.written)
        yield f"{step.index + 1:3} wrote {count:2}, least sure {least:4.0%}: {text!r}"
    yield f"{trace.prompt}{trace.outputs[0].text}"
    if (report := passes[-1][1].report) is not None:
        for name, found in (("any order", report.filled), ("left to right", report.plain)):
            yield (
                f"{name}: {found.passes} passes, perplexity {found.perplexity:.2f}, "
                f"distinct-2 {found.distinct_2:.0%}"
            )
