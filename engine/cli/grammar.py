"""The command ``grammar``: the texts that a recorded run's grammar allows, with two probabilities."""

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
    from engine.analysis.grammar_draws import GrammarEstimate

_MOST_SHOWN = 20


def add(commands: Commands) -> None:
    """Add the command ``grammar``."""
    command = commands.add_parser(
        "grammar",
        help="compare removing tokens with choosing among all texts of a run's structured_outputs",
    )
    command.add_argument("file", help="trace of a run; the command loads its model")
    command.add_argument(
        "--draws",
        type=int,
        help="estimate from so many draws; without it the texts are listed, and 1000 are drawn where they are "
        "more than 200",
    )
    command.add_argument("--seed", type=int, help="seed of the draws; without it that of the run")
    command.add_argument("--json", action="store_true", help="print the table as JSON")
    command.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> None:
    from engine.analysis.grammar_comparison import compare_grammar, grammar_request

    request = grammar_request(json_io.load(arguments.file))
    if arguments.seed is not None:
        request = dataclasses.replace(request, seed=arguments.seed)
    found = compare_grammar(request, arguments.draws)
    lines = [json.dumps(dataclasses.asdict(found))] if arguments.json else _format(found)
    for line in lines:
        print(escape_controls(line))


def _format(found: AllowedTexts | GrammarEstimate) -> Iterator[str]:
    from engine.analysis.allowed_texts import AllowedTexts

    return _format_table(found) if isinstance(found, AllowedTexts) else _format_estimate(found)


def _format_estimate(found: GrammarEstimate) -> Iterator[str]:
    yield (
        f"The model writes a text of this grammar with probability {found.valid:.2g} "
        f"(95 % interval: {found.low:.2g} to {found.high:.2g})."
    )
    yield f"{'model':>8} {'masked':>8}  text"
    for one in found.texts[:_MOST_SHOWN]:
        yield f"{format_percent(one.own):>8} {format_percent(one.masked):>8}  {one.text!r}"
    if (more := len(found.texts) - _MOST_SHOWN) > 0:
        yield f"and {more} more"
    yield (
        "model: its own choice among the texts of the grammar. masked: what removing forbidden tokens gives. "
        "A text that no draw found is missing."
    )
    yield (
        f"Estimated from {found.draws} draws, which count like {found.effective:.0f}; {found.complete} of them "
        f"were complete. The model read {found.rows} tokens."
    )


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
