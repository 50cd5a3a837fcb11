"""The command ``compare-models``: scores the text of a recorded run with two models and compares them.

The second is another model, or the same one with other weights (fewer bits, another backend).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from engine.cli import weight_options
from engine.cli.argument_values import Commands, escape_controls
from engine.export.model_comparison_csv import model_comparison_csv
from engine.trace import json_io

if TYPE_CHECKING:
    from engine.analysis.score_with_other_model import ModelComparison


def add(commands: Commands) -> None:
    """Add the command ``compare-models``."""
    command = commands.add_parser(
        "compare-models",
        help="score a recorded text with two models, or with one model at two precisions",
    )
    command.add_argument("file", help="trace of the run whose text both models score")
    command.add_argument("--model", help="second model; default: the model of the run")
    weight_options.add_weight_options(command, assistant=False)
    command.add_argument("--json", action="store_true", help="print all results as JSON")
    command.add_argument("--csv", metavar="FILE", help="CSV file to write, one row per token")
    command.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> int:
    from engine.analysis.score_with_other_model import compare_models, models_to_load
    from engine.models.loading import load

    trace = json_io.load(arguments.file)
    own, other = models_to_load(
        trace, arguments.model, weight_options.weight_request_fields(arguments)
    )
    first, second = (load(name, weights=held) for name, held in (own, other))
    found = compare_models(trace, first, second)
    if arguments.csv:
        Path(arguments.csv).write_text(model_comparison_csv(found), "utf-8")
    lines = (
        [json.dumps(found.to_dict(), allow_nan=False)]
        if arguments.json
        else _format_comparison(found)
    )
    for line in lines:
        print(escape_controls(line))
    return 0


def _format_comparison(found: ModelComparison) -> list[str]:
    from engine.statistics.weights_summary import describe_weights

    assert found.agreement is not None  # a run without a text is refused
    own, other = found.own, found.other
    rows = [
        ("", own.model.id, other.model.id),
        ("weights", describe_weights(own.model), describe_weights(other.model)),
        ("memory (bytes)", f"{own.bytes:,}", f"{other.bytes:,}"),
        ("perplexity", f"{own.perplexity:.3f}", f"{other.perplexity:.3f}"),
        ("tokens/s, greedy", *(f"{side.tokens_per_s or 0:.1f}" for side in (own, other))),
    ]
    greedy = (
        "Their greedy texts are identical."
        if found.parted is None
        else f"Their greedy texts diverge after {found.parted} tokens."
    )
    return [
        *(f"{name:18}{a:>24}{b:>24}".rstrip() for name, a, b in rows),
        f"{len(found.token_ids)} tokens: mean KL {found.mean_kl:.6f} nats, largest {max(found.kl):.6f} nats.",
        f"Both models rank the same token first at {100 * found.agreement:.1f} % of them. {greedy}",
    ]
