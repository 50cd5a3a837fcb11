"""The command ``compare-server``: is a server's model the one that it should be?"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from engine.cli import weight_options
from engine.cli.argument_values import Commands, escape_controls
from engine.trace import json_io

if TYPE_CHECKING:
    from engine.analysis.server_comparison import ComparedToken, ServerComparison


def add(commands: Commands) -> None:
    """Add the command ``compare-server``."""
    command = commands.add_parser(
        "compare-server",
        help="compare the probabilities that a model server reported with those of a model here",
    )
    command.add_argument("file", help="trace of a run that the server decoded")
    command.add_argument("--model", required=True, help="model here that should be the same")
    weight_options.add_weight_options(command, assistant=False)
    command.add_argument("--json", action="store_true", help="print all results as JSON")
    command.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> int:
    from engine.analysis.server_comparison import compare_with_server
    from engine.models.loading import load
    from engine.run.weights import read_single_weights

    trace = json_io.load(arguments.file)
    held = read_single_weights(weight_options.weight_request_fields(arguments), "beside")
    found = compare_with_server(trace, load(arguments.model, weights=held))
    lines = (
        [json.dumps(found.to_dict(), allow_nan=False)]
        if arguments.json
        else [*_format_tokens(found), *_format_summary(found)]
    )
    for line in lines:
        print(escape_controls(line))
    return 0


def _format_tokens(found: ServerComparison) -> list[str]:
    head = f"{'':>4}{'server':>10}{'here':>10}{'largest':>10}{'KL from':>10}{'to':>10}  token"
    return [head, *(_format_token(n, token, found) for n, token in enumerate(found.tokens, 1))]


def _format_token(number: int, token: ComparedToken, found: ServerComparison) -> str:
    server = "unlisted" if token.server is None else f"{token.server:.4f}"
    largest = f"{max(token.differences):.4f}" if token.differences else "–"
    name = repr(found.pieces[token.token_id])
    other = (
        ""
        if token.server_top == token.here_top
        else f" first choice: {found.pieces[token.server_top]!r} there, {found.pieces[token.here_top]!r} here"
    )
    low, high = token.kl
    numbers = f"{server:>10}{token.here:>10.4f}{largest:>10}{low:>10.4f}{high:>10.4f}"
    return f"{number:>4}{numbers}  {name}{other}"


def _format_summary(found: ServerComparison) -> list[str]:
    prompts = {
        True: ["The prompt has the same tokens here."],
        False: ["The prompt has other tokens here, so the tokenizers differ."],
        None: [],
    }
    low, high = found.mean_kl
    return [
        f"The first choice is the same at {found.same_tops} of {len(found.tokens)} tokens.",
        f"KL(server || here): between {low:.4f} and {high:.4f} nats per token on average.",
        f"{found.compared} listed log-probabilities differ by {found.mean_difference or 0:.4f} nats on "
        f"average, by at most {found.largest_difference or 0:.4f}.",
        *prompts[found.same_prompt],
    ]
