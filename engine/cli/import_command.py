"""The command ``import``: turns a server's recorded answer into a trace."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.cli.argument_values import Commands, escape_controls
from engine.errors import TraceError
from engine.trace import json_io
from engine.trace.served import ServedDetail


def add(commands: Commands) -> None:
    """Add the command ``import``."""
    command = commands.add_parser(
        "import", help="turn a server's recorded answer with log-probabilities into a trace"
    )
    command.add_argument(
        "file", help="answer of OpenAI, vLLM, llama.cpp, Ollama or TGI as JSON or as a stream"
    )
    command.add_argument("--trace", required=True, metavar="OUT", help="write the trace here")
    command.add_argument("--request", metavar="FILE", help="the request as JSON")
    command.add_argument(
        "--vocab-size",
        type=int,
        metavar="N",
        help="size of the model's vocabulary, for tighter bounds on entropy",
    )
    command.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> None:
    from engine.endpoints import import_answer

    request = None if arguments.request is None else _read_file(arguments.request)
    trace = import_answer(_read_file(arguments.file), request, arguments.vocab_size)
    json_io.save(trace, arguments.trace)
    for note in trace.notes:
        print(escape_controls(str(note)))
    unseen = [detail.unseen_high for _, detail in trace.details(ServedDetail)]
    print(f"{len(trace.steps)} tokens; at most {max(unseen):.2%} of a step's probability is unseen")


def _read_file(name: str) -> bytes:
    """Return the content of a file, of which one more byte than is allowed is read.

    Raises:
        TraceError: it cannot be read.
    """
    from engine.endpoints.events import MAX_BYTES

    try:
        with Path(name).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise TraceError("The file cannot be read: {why}.", why=error.strerror) from None
