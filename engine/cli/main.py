"""The command line of the engine. Invalid input gives one line on stderr and exit status 2."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from engine import program
from engine.cli import (
    about,
    attention,
    compare_models,
    compare_server,
    detect,
    dial,
    docs,
    export,
    export_tensors,
    fetch,
    fill,
    gallery,
    grammar,
    import_command,
    lesson,
    list_command,
    method,
    padding,
    probe,
    push,
    replay,
    run,
    schema,
    serve,
    translations,
    tune,
    verify,
)
from engine.cli.argument_values import escape_controls
from engine.errors import EngineError
from engine.model_code import find_model_code_error

# Handlers import torch themselves, so that help and commands without a model start fast.
COMMANDS = (
    list_command,
    about,
    fetch,
    run,
    replay,
    import_command,
    probe,
    export,
    verify,
    export_tensors,
    push,
    detect,
    compare_models,
    compare_server,
    attention,
    dial,
    grammar,
    fill,
    padding,
    tune,
    method,
    gallery,
    lesson,
    serve,
    schema,
    docs,
    translations,
)
"""Command modules, each with ``add(commands)``, in the order of the help text."""
_FOR_A_CHECKOUT = (docs, translations)
"""Commands that write or check files of the repository, which the installed package does not have."""
ALIASES = {"beside": "compare-models", "rich": "export-tensors"}
"""Former names of commands, which still work and which the help does not list."""


class _Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are one line, without the usage text."""

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with status 2."""
        sys.stderr.write(f"{self.prog}: {message}\n")
        raise SystemExit(2)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    parser = _Parser(
        prog=program.COMMAND,
        description="Decode text with a language model and record every step."
        + (" Without a command, the page is served." if program.IS_PACKAGE else ""),
    )
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_Parser)
    for command in COMMANDS:
        if not (program.IS_PACKAGE and command in _FOR_A_CHECKOUT):
            command.add(commands)
    words = list(sys.argv[1:] if argv is None else argv)
    # Only the first word is a command; a later one may be a file or a text.
    arguments = parser.parse_args([ALIASES.get(word, word) for word in words[:1]] + words[1:])
    try:
        return arguments.handler(arguments) or 0
    except EngineError as error:
        sys.stderr.write(f"{escape_controls(str(error))}\n")
        return 2
    except KeyboardInterrupt:
        # As a shell reports a program that Ctrl-C has ended: 128 + SIGINT.
        return 130
    except Exception as error:
        found = find_model_code_error(error)
        if found is None:
            raise
        sys.stderr.write(f"{escape_controls(str(found))}\n")
        return 2
