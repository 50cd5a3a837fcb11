"""The command ``padding``: what right and wrong padding do to a batch of prompts."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from engine.cli.argument_values import Commands, escape_controls

if TYPE_CHECKING:
    from engine.analysis.padding import PaddedPrompt


def add(commands: Commands) -> None:
    """Add the command ``padding``."""
    command = commands.add_parser(
        "padding", help="show what left, right and unmasked padding do to a batch of prompts"
    )
    command.add_argument("--model", default="storyteller", help="catalogue name, hub id or folder")
    command.add_argument(
        "--prompt", action="append", required=True, help="a prompt; repeat the option for others"
    )
    command.add_argument("--max-new-tokens", type=int, default=12, help="tokens to write")
    command.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> None:
    from engine import DecodeRequest, load
    from engine.analysis.padding import compare_padding
    from engine.run.preparation import prepare
    from engine.run.request import check_request
    from engine.serving.prompt_batch import check_prompt_count

    check_prompt_count(arguments.prompt)
    loaded = load(arguments.model)
    length = {"max_new_tokens": arguments.max_new_tokens}
    requests = [DecodeRequest("greedy", loaded, one, params=length) for one in arguments.prompt]
    ids = [prepare(check_request(request)).prompt_ids for request in requests]
    found = compare_padding(loaded, ids, arguments.max_new_tokens)
    for prompt, one in zip(arguments.prompt, found, strict=True):
        print(escape_controls(_format_prompt(prompt, one)), end="")


def _format_prompt(prompt: str, one: PaddedPrompt) -> str:
    """Return a title, and a line per padding: the first token's probability and the continuation."""
    lines = [f"{prompt!r}: {one.token_count} tokens, {one.pad_count} of padding"]
    lines += [
        f"    {kind:15}{one.probabilities[kind]:6.1%}  {text!r}" for kind, text in one.texts.items()
    ]
    return "\n".join(lines) + "\n"
